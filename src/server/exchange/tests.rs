//! Tests of the traps that lie between pingora and an exchange.

use bytes::Bytes;
use pingora_core::protocols::l4::stream::Stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::{Duration, timeout};

use super::*;

const A_WHILE: Duration = Duration::from_millis(100);

/// Sends a request, and returns the session that has read its head.
async fn received(request: &str) -> (UnixStream, Session) {
    let (mut client, server) = UnixStream::pair().unwrap();
    client.write_all(request.as_bytes()).await.unwrap();
    let mut session = Session::new_h1(Box::new(Stream::from(server)));
    assert!(session.downstream_session.read_request().await.unwrap());
    (client, session)
}

/// pingora takes every answer before the end of the body for the last one of its
/// connection.
#[tokio::test]
async fn a_100_does_not_end_the_connection() {
    for (version, expect, is_told) in [
        ("1.1", "Expect: 100-continue\r\n", true),
        ("1.1", "", false),
        ("1.0", "Expect: 100-continue\r\n", false),
    ] {
        let request = format!(
            "POST / HTTP/{version}\r\nHost: x\r\nConnection: keep-alive\r\n\
             Content-Length: 2\r\n{expect}\r\n"
        );
        let (mut client, mut session) = received(&request).await;
        session.set_keepalive(Some(7));
        let mut exchange = Exchange::new(&mut session);
        assert_eq!(exchange.waits_for_100(), is_told, "{request}");
        exchange.tell_to_go_on().await.unwrap();
        assert_eq!(exchange.has_begun(), is_told);
        assert!(!exchange.is_answered());
        assert_eq!(session.get_keepalive(), Some(7));
        if is_told {
            let mut told = [0; 25];
            client.read_exact(&mut told).await.unwrap();
            assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
        }
    }
}

#[tokio::test]
async fn a_body_is_drained_up_to_a_limit() {
    for (most, body, is_whole) in [(5, "12345", true), (0, "12345", false), (5, "123", false)] {
        let request = format!("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n{body}");
        let (_client, mut session) = received(&request).await;
        let mut exchange = Exchange::new(&mut session);
        assert!(exchange.has_body() && !exchange.is_body_read());
        assert_eq!(exchange.drain(most, A_WHILE).await, is_whole, "{body}");
    }
}

#[tokio::test]
async fn a_client_without_a_body_is_noticed_when_it_leaves() {
    let (client, mut session) = received("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let mut exchange = Exchange::new(&mut session);
    assert!(timeout(A_WHILE, exchange.client_gone()).await.is_err());
    drop(client);
    exchange.client_gone().await;
}

#[tokio::test]
async fn a_client_is_noticed_when_it_leaves_after_its_body() {
    let request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab";
    let (client, mut session) = received(request).await;
    let mut exchange = Exchange::new(&mut session);
    assert_eq!(exchange.read_body().await.unwrap().unwrap(), "ab");
    assert!(exchange.read_body().await.unwrap().is_none());
    assert!(timeout(A_WHILE, exchange.client_gone()).await.is_err());
    drop(client);
    exchange.client_gone().await;
}

/// An end in the middle of a body is noticed by the body's reader.
#[tokio::test]
async fn a_body_that_was_not_read_is_not_taken_for_the_clients_end() {
    let request = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nab";
    let (_client, mut session) = received(request).await;
    let mut exchange = Exchange::new(&mut session);
    assert!(timeout(A_WHILE, exchange.client_gone()).await.is_err());
    assert_eq!(exchange.read_body().await.unwrap().unwrap(), "ab");
}

#[tokio::test]
async fn a_client_that_sends_its_next_request_waits_for_its_answer() {
    let (mut client, mut session) = received("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    session.set_keepalive(Some(7));
    client.write_all(b"GET").await.unwrap();
    let mut exchange = Exchange::new(&mut session);
    assert!(timeout(A_WHILE, exchange.client_gone()).await.is_err());
    assert_eq!(session.get_keepalive(), None, "a byte of it is lost");
}

#[tokio::test]
async fn a_request_is_read_while_its_client_is_watched() {
    let (client, mut session) = received("GET /%7e HTTP/1.1\r\nHoSt: x\r\n\r\n").await;
    let mut exchange = Exchange::new(&mut session);
    {
        let mut apart = exchange.apart();
        let (shown, gone) = apart.split();
        assert_eq!(shown.request.uri.path(), "/%7e");
        assert!(timeout(A_WHILE, gone).await.is_err());
        drop(client);
        let (shown, gone) = apart.split();
        gone.await;
        assert_eq!(shown.request.headers["host"], "x");
        assert!(shown.peer().is_none());
    }
    // The exchange has it again, as it was.
    assert_eq!(exchange.target(), b"/%7e");
    let names = exchange.spelled_head().case_header_iter();
    let names: Vec<_> = names.map(|(name, _)| name.as_slice().to_vec()).collect();
    assert_eq!(names, [b"HoSt"]);
}

#[tokio::test]
async fn a_detached_client_gets_the_rest_of_its_answer() {
    let (mut client, mut session) = received("GET / HTTP/1.1\r\nHost: x\r\n\r\n").await;
    let mut exchange = Exchange::new(&mut session);
    let (mut head, ()) = http::Response::new(()).into_parts();
    let length = http::HeaderValue::from_static("4");
    head.headers.insert(http::header::CONTENT_LENGTH, length);
    exchange.write_head(head, false).await.unwrap();
    let piece = Bytes::from_static(b"ab");
    exchange.write_body(piece.clone(), false).await.unwrap();
    let mut stream = exchange.detach();
    assert!(stream.is_connection() && stream.take_http2_writer().is_none());
    stream.write(piece).await.unwrap();
    stream.end().await.unwrap();
    stream.close().await;
    let mut answer = String::new();
    client.read_to_string(&mut answer).await.unwrap();
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n"),
        "{answer}"
    );
    assert!(answer.ends_with("\r\n\r\nabab"), "{answer}");
}
