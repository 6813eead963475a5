//! The lines of JSON that this program and the runner say to each other.

use std::fmt::Debug;

use anyhow::{Result, ensure};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The first line that the runner says.
#[derive(Deserialize)]
pub struct Task {
    pub kubeconfig: String,
    pub namespace: String,
    pub changes: String,
    pub pages: Pages,
    pub expired: Expired,
}

#[derive(Deserialize)]
pub struct Pages {
    pub namespace: String,
    pub objects: usize,
    pub limit: u32,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Expired {
    pub r#continue: String,
    pub resource_version: String,
}

pub fn hear<T: DeserializeOwned>() -> Result<T> {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(serde_json::from_str(&line)?)
}

pub fn say(line: &Value) {
    println!("{line}");
}

/// Makes a check, which fails if it returns an error.
pub async fn check(name: &str, made: impl Future<Output = Result<()>>) {
    let detail = match made.await {
        Ok(()) => String::new(),
        Err(error) => format!("{error:#}"),
    };
    say(&json!({ "check": name, "ok": detail.is_empty(), "detail": detail }));
}

pub fn expect<A: Debug + PartialEq<B>, B: Debug>(actual: A, expected: B) -> Result<()> {
    ensure!(actual == expected, "{actual:?} is not {expected:?}");
    Ok(())
}
