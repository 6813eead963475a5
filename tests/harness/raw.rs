//! Connections on which a test writes bytes that no correct client would.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

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

    /// Shuts down the writing side.
    pub async fn finish(&mut self) -> std::io::Result<()> {
        self.stream.shutdown().await
    }

    /// Returns what arrives until the peer closes, or nothing more comes for
    /// `quiet`.
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

    /// Tells whether the peer closes within `deadline`. Bytes that arrive
    /// before are dropped.
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
