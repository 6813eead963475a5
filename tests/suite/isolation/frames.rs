//! Writes HTTP/2 by hand: frames that no correct client sends.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

pub use crate::harness::frames::*;

/// Returns the preface and empty settings.
pub fn beginning() -> Vec<u8> {
    let mut bytes = PREFACE.to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes
}

/// Returns the fields of a GET, in HPACK without Huffman.
pub fn get(path: &str) -> Vec<u8> {
    request(0x82, path)
}

pub fn post(path: &str) -> Vec<u8> {
    request(0x83, path)
}

fn request(method: u8, path: &str) -> Vec<u8> {
    let mut block = vec![method, 0x87, 0x04, u8::try_from(path.len()).expect("short")];
    block.extend(path.as_bytes());
    block.extend([0x01, 9]);
    block.extend(b"localhost");
    block
}

#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// The server sent GOAWAY with this code and closed.
    GoAway(u32),
    /// The server closed without GOAWAY.
    Closed,
    /// The connection is still open.
    Open,
}

/// Reads frames until the connection ends. Answers PINGs like any client.
pub async fn end_within<S>(stream: &mut S, within: Duration) -> End
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut last = None;
    let read = async {
        loop {
            let mut header = [0; 9];
            if stream.read_exact(&mut header).await.is_err() {
                return;
            }
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
            let mut payload = vec![0; length as usize];
            if stream.read_exact(&mut payload).await.is_err() {
                return;
            }
            match header[3] {
                GOAWAY => {
                    let code = payload[4..8].try_into().expect("four bytes");
                    last = Some(u32::from_be_bytes(code));
                }
                PING if header[4] & ACK == 0 => {
                    let _ = stream.write_all(&frame(PING, ACK, 0, &payload)).await;
                    let _ = stream.flush().await;
                }
                _ => {}
            }
        }
    };
    match (tokio::time::timeout(within, read).await, last) {
        (Err(_), _) => End::Open,
        (Ok(()), Some(code)) => End::GoAway(code),
        (Ok(()), None) => End::Closed,
    }
}
