use futures::FutureExt;
use http::{Request, Response};
use std::future::poll_fn;
use std::net::IpAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
use tokio::net::{TcpListener, TcpStream};

use super::slow_copy::{BUFFER_OFFSET_BYTES, PAGE_BYTES};
use super::*;
use crate::server::listener::frame_meter::Http2State;
use crate::server::listener::head::HeadLimits;
use crate::server::listener::large_heads::LargeHeads;

fn gathering(inner: Stream) -> Coalesced {
    let state = Http2State::new(Instant::now());
    let meter = FrameMeter::new(state.clone());
    let limits = HeadLimits {
        max_bytes: 1 << 20,
        large: LargeHeads::default(),
    };
    let client = IpAddr::from([192, 0, 2, 1]);
    let heads = Http2Heads::new(state, limits, client);
    Coalesced::http2(inner, meter, heads, None)
}

#[tokio::test]
async fn what_is_flushed_waits_for_the_others_turn() {
    let (mut client, server) = duplex(1 << 20);
    let mut server = gathering(Box::new(server));
    let mut arrived = vec![0; 100];
    poll_fn(|cx| {
        for frame in [b"ab", b"cd"] {
            assert!(Pin::new(&mut server).poll_write(cx, frame).is_ready());
            assert!(Pin::new(&mut server).poll_flush(cx).is_ready());
        }
        assert!(Pin::new(&mut server).poll_flush(cx).is_ready());
        Poll::Ready(())
    })
    .await;
    assert!(client.read(&mut arrived).now_or_never().is_none());
    poll_fn(|cx| {
        let mut nothing = [0];
        let mut nothing = ReadBuf::new(&mut nothing);
        let read = Pin::new(&mut server).poll_read(cx, &mut nothing);
        assert!(read.is_pending());
        assert!(Pin::new(&mut server).poll_write(cx, b"ef").is_ready());
        assert!(Pin::new(&mut server).poll_flush(cx).is_ready());
        Pin::new(&mut server).poll_flush(cx)
    })
    .await
    .unwrap();
    let read = client.read(&mut arrived).now_or_never();
    assert_eq!(read.unwrap().unwrap(), 6);
    assert_eq!(&arrived[..6], b"abcdef");
    // Bytes that are not flushed in their turn go with the next flush.
    poll_fn(|cx| {
        assert!(Pin::new(&mut server).poll_write(cx, b"gh").is_ready());
        Pin::new(&mut server).poll_flush(cx)
    })
    .await
    .unwrap();
    let reads = |cx: &mut Context<'_>| {
        let mut nothing = [0];
        let mut nothing = ReadBuf::new(&mut nothing);
        let _pending = Pin::new(&mut server).poll_read(cx, &mut nothing);
        let _pending = Pin::new(&mut server).poll_read(cx, &mut nothing);
        Poll::Ready(())
    };
    poll_fn(reads).await;
    let read = client.read(&mut arrived).now_or_never();
    assert_eq!(read.unwrap().unwrap(), 2);
}

#[test]
fn neither_frames_nor_pieces_lie_where_copies_are_slow() {
    let memory = vec![0; 4 * PAGE_BYTES];
    let page = PAGE_BYTES - memory.as_ptr().addr() % PAGE_BYTES;
    for (offset, slow) in [
        (0, true),
        (4, true),
        (5, false),
        (BUFFER_OFFSET_BYTES, false),
    ] {
        assert_eq!(copies_slowly(&memory[page + offset..]), slow, "{offset}");
    }
    for (offset, slow) in [(1, true), (10, true), (11, false), (PAGE_BYTES, true)] {
        assert_eq!(
            copies_slowly(&memory[page + PAGE_BYTES - offset..]),
            slow,
            "-{offset}"
        );
    }
}

/// Pieces as HTTP/1 writes them. None waits, and the offset at which a piece begins
/// does not change what arrives.
#[tokio::test]
async fn pieces_pass_wherever_they_begin() {
    let piece: Vec<u8> = (0..40_000u32).map(|n| (n % 251) as u8).collect();
    let (mut client, server) = duplex(1 << 20);
    let mut server = Coalesced::http1(Box::new(server), None);
    for start in 0..PAGE_BYTES {
        let piece = &piece[start..start + RECORD_BYTES + 1];
        server.write_all(piece).await.unwrap();
        server.flush().await.unwrap();
        let mut arrived = vec![0; piece.len()];
        client.read_exact(&mut arrived).await.unwrap();
        assert!(arrived == piece, "{start}");
    }
}

/// Small last frames, empty frames, and pieces larger than a window.
#[tokio::test]
async fn nothing_is_left_behind() {
    const STREAMS: usize = 20;
    const PIECES: [usize; 5] = [10, 300, 20_000, 100_000, 1];
    // The pipe holds less than is gathered, so that writes block.
    let (client, server) = duplex(10_000);
    let server: Stream = Box::new(gathering(Box::new(server)));
    let serving = tokio::spawn(async move {
        let mut connection = h2::server::handshake(server).await.unwrap();
        while let Some(accepted) = connection.accept().await {
            let Ok((_, mut respond)) = accepted else {
                break;
            };
            let mut body = respond.send_response(Response::new(()), false).unwrap();
            tokio::spawn(async move {
                for piece in PIECES {
                    tokio::task::yield_now().await;
                    body.send_data(vec![7; piece].into(), false).unwrap();
                }
                body.send_data(bytes::Bytes::new(), true).unwrap();
            });
        }
    });
    let (send, connection) = h2::client::handshake(client).await.unwrap();
    tokio::spawn(connection);
    let read = (0..STREAMS).map(|_| {
        let mut send = send.clone();
        async move {
            let request = Request::get("https://a/").body(()).unwrap();
            send = send.ready().await.unwrap();
            let (response, _) = send.send_request(request, true).unwrap();
            let mut body = response.await.unwrap().into_body();
            let mut bytes = 0;
            while let Some(data) = body.data().await {
                let data = data.unwrap();
                bytes += data.len();
                let _ = body.flow_control().release_capacity(data.len());
            }
            bytes
        }
    });
    let all = futures::future::join_all(read);
    let all = tokio::time::timeout(Duration::from_secs(10), all).await;
    let whole: usize = PIECES.iter().sum();
    assert!(all.expect("something is stuck").iter().all(|n| *n == whole));
    serving.abort();
}

/// Without an end of the turn, a client that reads fast would get megabytes before
/// any other task of the thread had its turn.
#[tokio::test]
async fn a_turn_of_writing_has_an_end() {
    const TOTAL: usize = 2 << 20;
    for protocol in ["HTTP/1", "HTTP/2"] {
        let (mut client, server) = duplex(2 * TOTAL);
        let server: Stream = Box::new(server);
        let mut server = match protocol {
            "HTTP/1" => Coalesced::http1(server, None),
            _ => gathering(server),
        };
        let piece = vec![7; 32 << 10];
        let (mut written, mut turns) = (0, 1);
        poll_fn(|cx| {
            while written < TOTAL {
                match Pin::new(&mut server).poll_write(cx, &piece) {
                    Poll::Ready(n) => written += n.unwrap(),
                    Poll::Pending => {
                        turns += 1;
                        return Poll::Pending;
                    }
                }
            }
            Poll::Ready(())
        })
        .await;
        server.flush().await.unwrap();
        server.shutdown().await.unwrap();
        let mut read = Vec::new();
        client.read_to_end(&mut read).await.unwrap();
        assert_eq!(read.len(), written, "{protocol}");
        assert!(turns >= TOTAL / WRITTEN_PER_TURN - 1, "{protocol}: {turns}");
    }
}

/// Frames that ask for nothing are read over many turns. No byte is lost, repeated
/// or moved.
#[tokio::test]
async fn bytes_pass_unchanged_over_many_turns() {
    const PING: [u8; 17] = [0, 0, 8, 6, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut data = vec![0, 0x10, 0, 0, 0, 0, 0, 0, 1];
    data.extend((0..4096).map(|n| (n % 251) as u8));
    let mut sent = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    for _ in 0..10 {
        sent.extend(PING.repeat(300));
        sent.extend(&data);
    }
    for size in [1, 7, 100, 8 << 10] {
        let (mut client, server) = duplex(1 << 20);
        let mut server = gathering(Box::new(server));
        client.write_all(&sent).await.unwrap();
        drop(client);
        let mut received = Vec::new();
        let mut part = vec![0; size];
        loop {
            // Reads without room lose nothing. The first may end a turn.
            for _ in 0..2 {
                let nothing = server.read(&mut []).now_or_never();
                assert!(!matches!(nothing, Some(Ok(1..))));
            }
            match server.read(&mut part).await.unwrap() {
                0 => break,
                n => received.extend_from_slice(&part[..n]),
            }
        }
        assert!(received == sent, "with reads of {size} bytes");
    }
}

/// A client that sends the rest of its body after the answer still gets the answer.
#[tokio::test]
async fn an_answer_before_the_end_of_the_body_arrives() {
    const BODY: usize = 256 << 10;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let server = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let stream: pingora_core::protocols::l4::stream::Stream = stream.into();
        let mut server = Coalesced::http1(Box::new(stream), None);
        server.begin_request(Some(BODY as u64), BytesMut::new());
        server.write_all(b"answer").await.unwrap();
        server.shutdown().await.unwrap();
    });
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(&vec![0; BODY / 2]).await.unwrap();
    let mut answer = [0; 6];
    client.peek(&mut answer).await.unwrap();
    client.write_all(&vec![0; BODY / 2]).await.unwrap();
    server.await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"answer");
}
