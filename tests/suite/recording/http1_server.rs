//! The recorder's side of an HTTP/1.1 connection.

use tokio::io::{AsyncBufRead, AsyncRead, AsyncWrite, AsyncWriteExt};

use super::exchange::{AnswerFraming, Arrived, Ending, Planned};
use super::fields::Fields;
use super::http1_message::{self, Content, Framing};
use super::recorder::Shared;

/// The first octets of an upgraded connection.
pub const GREETING: &[u8] = b"upgraded";

/// Serves requests until the connection ends.
pub async fn serve<S>(mut stream: S, shared: &Shared)
where
    S: AsyncBufRead + AsyncRead + AsyncWrite + Unpin,
{
    // An unreadable head ends the connection, as at any server.
    while let Ok(Some(head)) = http1_message::head(&mut stream).await {
        let mut line = head.start.splitn(2, |b| *b == b' ');
        let method = line.next().unwrap_or_default().to_vec();
        let rest = line.next().unwrap_or_default();
        let target = rest.strip_suffix(b" HTTP/1.1").unwrap_or(rest).to_vec();
        let framing = http1_message::framing(&head.fields, Framing::Length(0));
        let mut request = Arrived {
            at: shared.name,
            method,
            target,
            fields: head.fields,
            content: Content::default(),
        };
        // A review's answer depends on its body. It has no number.
        let is_planned = super::ledger::number(&request.fields).is_some();
        let early = is_planned.then(|| shared.answer_to(&request));
        let is_early = early.as_ref().is_some_and(|answer| answer.planned.is_early);
        let mut is_open = true;
        if let Some(answer) = early.filter(|_| is_early) {
            is_open = write(&mut stream, &request, &answer.planned).await;
        }
        request.content = http1_message::content(&mut stream, framing).await;
        let answer = shared.answer_to(&request);
        let is_whole = request.content.is_whole;
        shared.record(answer.number, request.clone());
        if !is_whole {
            return;
        }
        if !is_early {
            is_open = write(&mut stream, &request, &answer.planned).await;
        }
        if !is_open {
            let _ = stream.shutdown().await;
            return;
        }
    }
}

/// Writes an answer. Returns whether the connection stays open.
async fn write<S>(stream: &mut S, request: &Arrived, planned: &Planned) -> bool
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    if planned.ending == Ending::NoAnswer {
        return false;
    }
    let mut bytes = Vec::new();
    for (status, fields) in &planned.informational {
        head(&mut bytes, *status, fields);
        bytes.extend(b"\r\n");
    }
    head(&mut bytes, planned.status, &planned.fields);
    let has_body = planned.has_body(&request.method);
    let until_close = planned.framing == AnswerFraming::UntilClose;
    match planned.framing {
        _ if matches!(planned.status, 101 | 204) => {}
        AnswerFraming::Length => {
            bytes.extend(format!("Content-Length: {}\r\n", planned.body.len()).as_bytes());
        }
        AnswerFraming::Chunked => bytes.extend(b"Transfer-Encoding: chunked\r\n"),
        AnswerFraming::UntilClose => bytes.extend(b"Connection: close\r\n"),
    }
    bytes.extend(b"\r\n");
    if planned.status == 101 {
        bytes.extend(GREETING);
    }
    if has_body {
        body(&mut bytes, planned);
    }
    let written = stream.write_all(&bytes).await.is_ok() && stream.flush().await.is_ok();
    written && planned.status != 101 && !until_close && planned.ending == Ending::Whole
}

fn head(bytes: &mut Vec<u8>, status: u16, fields: &Fields) {
    bytes.extend(format!("HTTP/1.1 {status} As Planned\r\n").as_bytes());
    lines(bytes, fields);
}

fn lines(bytes: &mut Vec<u8>, fields: &Fields) {
    for field in fields {
        bytes.extend(&field.name);
        bytes.push(b':');
        bytes.extend(&field.raw);
        bytes.extend(b"\r\n");
    }
}

fn body(bytes: &mut Vec<u8>, planned: &Planned) {
    let whole = planned.ending == Ending::Whole;
    let sent = match whole {
        true => planned.body.as_slice(),
        false => &planned.body[..planned.body.len() / 2],
    };
    if planned.framing != AnswerFraming::Chunked {
        bytes.extend(sent);
        return;
    }
    for piece in sent.chunks(1000) {
        bytes.extend(format!("{:x}\r\n", piece.len()).as_bytes());
        bytes.extend(piece);
        bytes.extend(b"\r\n");
    }
    if whole {
        bytes.extend(b"0\r\n");
        lines(bytes, &planned.trailers);
        bytes.extend(b"\r\n");
    }
}
