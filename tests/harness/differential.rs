//! One request asked of two servers, and what differs in the answers.

use std::fmt::Write;

use http::Method;

use super::client::{Answer, Client};

/// Headers that mean something to a client. The others name the request or
/// the moment.
const COMPARED_HEADERS: [&str; 8] = [
    "content-type",
    "warning",
    "cache-control",
    "retry-after",
    "x-content-type-options",
    "vary",
    "content-encoding",
    "location",
];

/// How much around the first difference is shown.
const CONTEXT: usize = 160;

/// Two ways to the same data: `direct` is right.
pub struct Differential {
    pub direct: Client,
    pub front: Client,
    differences: Vec<String>,
    asked: usize,
}

impl Differential {
    pub fn new(direct: Client, front: Client) -> Self {
        Self {
            direct,
            front,
            differences: Vec::new(),
            asked: 0,
        }
    }

    pub async fn get(&mut self, path: &str) {
        self.ask(Method::GET, path, &[], "").await;
    }

    pub async fn get_as(&mut self, path: &str, accept: &str) {
        self.ask(Method::GET, path, &[("accept", accept)], "").await;
    }

    /// Asks both, direct first, and keeps what differs.
    pub async fn ask(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) {
        self.asked += 1;
        let direct = self.direct.send(method.clone(), path, headers, body).await;
        let front = self
            .front
            .try_send(method.clone(), path, headers, body)
            .await;
        let difference = match front {
            Ok(front) => compare(&direct, &front),
            Err(error) => format!("  no answer: {error}\n"),
        };
        if !difference.is_empty() {
            self.differences
                .push(format!("{method} {path} {headers:?}\n{difference}"));
        }
    }

    /// Fails with all differences.
    #[track_caller]
    pub fn finish(self) {
        let shown: Vec<&String> = self.differences.iter().take(20).collect();
        let text: String = shown.iter().map(|d| format!("{d}\n")).collect();
        assert!(
            self.differences.is_empty(),
            "{} of {} answers differ (- direct, + front):\n\n{text}",
            self.differences.len(),
            self.asked,
        );
    }
}

/// Empty when the answers mean the same to a client.
pub fn compare(direct: &Answer, front: &Answer) -> String {
    let mut out = String::new();
    if direct.status != front.status {
        let _ = writeln!(
            out,
            "  status: - {}\n          + {}",
            direct.status, front.status
        );
    }
    for name in COMPARED_HEADERS {
        let values = |answer: &Answer| -> Vec<String> {
            let values = answer.headers.get_all(name).iter();
            values
                .map(|v| String::from_utf8_lossy(v.as_bytes()).into_owned())
                .collect()
        };
        let (d, f) = (values(direct), values(front));
        if d != f {
            let _ = writeln!(out, "  {name}: - {d:?}\n  {name}: + {f:?}");
        }
    }
    if direct.body != front.body {
        out += &compare_bytes(&direct.body, &front.body);
    }
    out
}

/// The surroundings of the first difference.
pub fn compare_bytes(direct: &[u8], front: &[u8]) -> String {
    let same = direct.iter().zip(front).take_while(|(a, b)| a == b).count();
    let from = same.saturating_sub(CONTEXT / 2);
    let excerpt = |bytes: &[u8]| {
        let to = (same + CONTEXT).min(bytes.len());
        String::from_utf8_lossy(bytes.get(from..to).unwrap_or_default())
            .escape_debug()
            .to_string()
    };
    format!(
        "  body: differs from byte {same} on ({} and {} bytes)\n  - …{}\n  + …{}\n",
        direct.len(),
        front.len(),
        excerpt(direct),
        excerpt(front)
    )
}
