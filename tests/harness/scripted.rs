//! An upstream that a test scripts, byte by byte. It speaks plain HTTP/1.1 on
//! loopback.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use super::ports;

/// A request that reached the upstream.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The connection's number, counted from 0.
    pub connection: usize,
    /// The request line, `GET /path?query`.
    pub line: String,
    /// The headers, with names in lower case.
    pub headers: Vec<(String, String)>,
}

impl Seen {
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut found = self.headers.iter().filter(|(n, _)| n == name);
        found.next().map(|(_, v)| v.as_str())
    }

    pub fn chunked(&self) -> bool {
        self.header("transfer-encoding") == Some("chunked")
    }
}

pub struct Connection {
    pub stream: BufReader<TcpStream>,
    number: usize,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Connection {
    /// Returns the head of the next request that apifront forwards for a caller.
    /// Requests that apifront makes itself (they have no Audit-ID) are answered
    /// here: the server is ready, and has no resources.
    pub async fn next(&mut self) -> Option<Seen> {
        loop {
            let request = self.head().await?;
            if request.header("audit-id").is_some() {
                let mut seen = self.seen.lock().expect("no panic while locked");
                seen.push(request.clone());
                return Some(request);
            }
            let length = request.header("content-length").unwrap_or("0");
            let mut body = vec![0; length.parse().expect("a length")];
            self.stream.read_exact(&mut body).await.ok()?;
            match request.line.as_str() {
                "GET /readyz" => self.answer("200 OK", "ok").await,
                _ => self.answer("404 Not Found", "no").await,
            }
        }
    }

    /// Returns the head of the next request, forwarded or apifront's own.
    pub async fn next_of_any(&mut self) -> Option<Seen> {
        self.head().await
    }

    async fn head(&mut self) -> Option<Seen> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            let n = self.stream.read_line(&mut line).await.ok()?;
            if n == 0 {
                return None;
            }
            let line = line.trim_end_matches(['\r', '\n']);
            if line.is_empty() {
                break;
            }
            lines.push(line.to_owned());
        }
        let (first, headers) = lines.split_first()?;
        Some(Seen {
            connection: self.number,
            line: first.strip_suffix(" HTTP/1.1")?.to_owned(),
            headers: headers
                .iter()
                .filter_map(|l| l.split_once(':'))
                .map(|(n, v)| (n.to_ascii_lowercase(), v.trim().to_owned()))
                .collect(),
        })
    }

    /// Returns the body of a request, without framing.
    pub async fn body(&mut self, request: &Seen) -> Option<Vec<u8>> {
        let mut body = Vec::new();
        if !request.chunked() {
            let length = request.header("content-length").unwrap_or("0");
            body.resize(length.parse().ok()?, 0);
            self.stream.read_exact(&mut body).await.ok()?;
            return Some(body);
        }
        loop {
            let mut size = String::new();
            self.stream.read_line(&mut size).await.ok()?;
            let size = usize::from_str_radix(size.trim(), 16).ok()?;
            let from = body.len();
            body.resize(from + size + 2, 0);
            self.stream.read_exact(body.get_mut(from..)?).await.ok()?;
            body.truncate(from + size);
            if size == 0 {
                return Some(body);
            }
        }
    }

    pub async fn write(&mut self, bytes: impl AsRef<[u8]>) {
        let stream = self.stream.get_mut();
        // Tests check elsewhere whether apifront still reads.
        if stream.write_all(bytes.as_ref()).await.is_ok() {
            let _ = stream.flush().await;
        }
    }

    /// Does the same as [`Connection::write`], and returns an error if apifront
    /// no longer reads.
    pub async fn try_write(&mut self, bytes: impl AsRef<[u8]>) -> std::io::Result<()> {
        let stream = self.stream.get_mut();
        stream.write_all(bytes.as_ref()).await?;
        stream.flush().await
    }

    pub async fn answer(&mut self, status: &str, body: &str) {
        let length = body.len();
        self.write(format!(
            "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\r\n{body}"
        ))
        .await;
    }

    pub async fn closed_within(&mut self, deadline: Duration) -> bool {
        let mut buffer = [0; 4096];
        let end = async { while self.stream.read(&mut buffer).await.is_ok_and(|n| n > 0) {} };
        tokio::time::timeout(deadline, end).await.is_ok()
    }

    pub async fn read_within(&mut self, wait: Duration) -> Vec<u8> {
        let mut all = Vec::new();
        let read = async {
            let mut buffer = [0; 4096];
            while let Ok(n @ 1..) = self.stream.read(&mut buffer).await {
                all.extend_from_slice(buffer.get(..n).unwrap_or_default());
            }
        };
        let _ = tokio::time::timeout(wait, read).await;
        all
    }
}

pub struct Scripted {
    pub address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    accept: JoinHandle<()>,
}

impl Scripted {
    pub async fn start<F, Fut>(script: F) -> Self
    where
        F: Fn(Connection) -> Fut + Send + 'static,
        Fut: Future<Output = ()> + Send + 'static,
    {
        let listener = ports::listen_async();
        let address = listener.local_addr().expect("an address");
        let seen = Arc::new(Mutex::new(Vec::new()));
        let all = seen.clone();
        let accept = tokio::spawn(async move {
            for number in 0.. {
                let Ok((stream, _)) = listener.accept().await else {
                    return;
                };
                stream.set_nodelay(true).expect("nodelay");
                tokio::spawn(script(Connection {
                    stream: BufReader::new(stream),
                    number,
                    seen: all.clone(),
                }));
            }
        });
        Self {
            address,
            seen,
            accept,
        }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn seen(&self) -> Vec<Seen> {
        self.seen.lock().expect("no panic while locked").clone()
    }

    /// Returns the number of forwarded requests with this line.
    pub fn count(&self, line: &str) -> usize {
        self.seen().iter().filter(|s| s.line == line).count()
    }
}

impl Drop for Scripted {
    fn drop(&mut self) {
        self.accept.abort();
    }
}
