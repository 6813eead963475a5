//! Connections on which a test writes bytes that no correct client would.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The longest wait for the first byte of a reply.
const REPLIES_WITHIN: Duration = Duration::from_secs(60);

trait ReadWrite: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ReadWrite for T {}

pub struct RawConnection {
    stream: Box<dyn ReadWrite>,
}

impl RawConnection {
    pub fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Self {
        Self {
            stream: Box::new(stream),
        }
    }

    pub async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    pub async fn finish(&mut self) -> std::io::Result<()> {
        self.stream.shutdown().await
    }

    /// Waits for a reply, and returns what arrives until the peer closes or then sends
    /// nothing for `quiet`.
    pub async fn read_reply(&mut self, quiet: Duration) -> Vec<u8> {
        let mut first = [0];
        // On a busy machine a reply takes longer than the pauses in it.
        match tokio::time::timeout(REPLIES_WITHIN, self.stream.read(&mut first)).await {
            Ok(Ok(1)) => [&first, &self.read_until_quiet(quiet).await[..]].concat(),
            _ => Vec::new(),
        }
    }

    /// Returns what arrives until the peer closes or sends nothing for `quiet`. That may
    /// be nothing: see [`read_reply`](Self::read_reply).
    pub async fn read_until_quiet(&mut self, quiet: Duration) -> Vec<u8> {
        let mut all = Vec::new();
        let mut buffer = [0u8; 16 * 1024];
        while let Ok(Ok(n)) = tokio::time::timeout(quiet, self.stream.read(&mut buffer)).await {
            if n == 0 {
                break;
            }
            all.extend_from_slice(&buffer[..n]);
        }
        all
    }

    /// Returns the next HTTP/1.1 answer with its body, or the part that came before
    /// the peer closed.
    pub async fn read_answer(&mut self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut end: Option<usize> = None;
        while end.is_none_or(|end| all.len() < end) {
            let Ok(byte) = self.read_exact(1).await else {
                break;
            };
            all.extend(byte);
            if end.is_none() && all.ends_with(b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&all).to_ascii_lowercase();
                let length = head
                    .split("\r\n")
                    .find_map(|line| line.strip_prefix("content-length: ")?.parse::<usize>().ok());
                match length {
                    Some(length) => end = Some(all.len() + length),
                    None if head.contains("transfer-encoding: chunked") => {
                        while !all.ends_with(b"\r\n0\r\n\r\n") {
                            let Ok(byte) = self.read_exact(1).await else {
                                return all;
                            };
                            all.extend(byte);
                        }
                        return all;
                    }
                    None if head.starts_with("http/1.1 1") => return all,
                    None => {}
                }
            }
        }
        all
    }

    /// Tells whether the peer closes within `deadline`. Bytes before that are
    /// dropped.
    pub async fn closed_within(&mut self, deadline: Duration) -> bool {
        let mut buffer = [0u8; 16 * 1024];
        let end = async {
            while let Ok(n) = self.stream.read(&mut buffer).await {
                if n == 0 {
                    break;
                }
            }
        };
        tokio::time::timeout(deadline, end).await.is_ok()
    }

    pub async fn read_exact(&mut self, n: usize) -> std::io::Result<Vec<u8>> {
        let mut bytes = vec![0; n];
        self.stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    }
}
