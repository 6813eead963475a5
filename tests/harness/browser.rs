//! A page in the real Chromium, which `tests/status-page/driver.mjs` drives.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::Mutex;

use super::{binaries, pace, process};

/// The time in which the page must do what a test asks of it, and show what a test waits
/// for. A browser takes seconds to start on a busy machine.
const WITHIN: Duration = Duration::from_secs(60);

/// A page of a browser of its own. Both end when it is dropped.
pub struct Page {
    driver: Option<Mutex<Driver>>,
    child: Child,
}

struct Driver {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

/// What the driver says of one call.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Said {
    Result(Value),
    Error(String),
}

impl Page {
    pub async fn open(url: &str) -> Self {
        static CHROMIUM: OnceLock<PathBuf> = OnceLock::new();
        let chromium = CHROMIUM.get_or_init(binaries::chromium);
        process::count("chromium");
        let mut child = Command::new("node")
            .arg("tests/status-page/driver.mjs")
            .arg(chromium)
            // The browser's own folder goes with this one, if the browser is killed.
            .env("TMPDIR", process::temporary_folder("browser"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("node");
        let input = child.stdin.take().expect("piped");
        let output = child.stdout.take().expect("piped");
        let output = ChildStdout::from_std(output).expect("a runtime");
        let page = Self {
            driver: Some(Mutex::new(Driver {
                input: ChildStdin::from_std(input).expect("a runtime"),
                output: BufReader::new(output).lines(),
            })),
            child,
        };
        page.call("resize", &json!([1280, 900, false])).await;
        page.call("send", &json!(["Page.navigate", { "url": url }]))
            .await;
        page
    }

    /// Calls a method of the driver's page, or reads a property of it. Fails with what
    /// the browser says.
    async fn try_call(&self, member: &str, parameters: &Value) -> Result<Value, String> {
        let asked = json!({ "member": member, "parameters": parameters });
        let driver = self.driver.as_ref().expect("it is not dropped yet");
        let mut driver = driver.lock().await;
        let said = async {
            let line = format!("{asked}\n");
            driver.input.write_all(line.as_bytes()).await?;
            driver.output.next_line().await
        };
        let said = tokio::time::timeout(WITHIN, said).await;
        let line = said.unwrap_or_else(|_| panic!("{asked}: no answer within {WITHIN:?}"));
        let line = line.expect("the driver runs").expect("the driver answers");
        match serde_json::from_str(&line).expect("JSON") {
            Said::Result(value) => Ok(value),
            Said::Error(error) => Err(format!("{asked}: {error}")),
        }
    }

    pub async fn call(&self, member: &str, parameters: &Value) -> Value {
        let answer = self.try_call(member, parameters).await;
        answer.unwrap_or_else(|error| panic!("{error}"))
    }

    /// Evaluates an expression in the page.
    pub async fn evaluate(&self, expression: &str) -> Value {
        self.call("evaluate", &json!([expression])).await
    }

    /// Waits until an expression has this value.
    pub async fn shows(&self, expression: &str, expected: &Value) {
        let deadline = Instant::now() + WITHIN;
        loop {
            // While the page loads, nothing can be evaluated.
            let shown = self.try_call("evaluate", &json!([expression])).await;
            if shown.as_ref() == Ok(expected) {
                return;
            }
            assert!(
                Instant::now() < deadline,
                "{expression}\nis       {}\nand not  {expected}",
                shown.map_or_else(|error| error, |value| value.to_string())
            );
            pace::of_tries(Duration::from_millis(20)).await;
        }
    }

    /// Waits until an expression is true.
    pub async fn is_true(&self, expression: &str) {
        self.shows(expression, &json!(true)).await;
    }

    /// Returns a picture of the page's upper part, as PNG.
    pub async fn picture(&self, width: u32, height: u32) -> Vec<u8> {
        let clip = json!({ "x": 0, "y": 0, "width": width, "height": height, "scale": 1 });
        let parameters = json!(["Page.captureScreenshot", { "clip": clip }]);
        let answer = self.call("send", &parameters).await;
        let data = answer["data"].as_str().expect("base64");
        STANDARD.decode(data).expect("base64")
    }
}

/// The driver ends with its input, and ends the browser before.
impl Drop for Page {
    fn drop(&mut self) {
        drop(self.driver.take());
        let _ = self.child.wait();
    }
}
