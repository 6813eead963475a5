use super::*;

fn head(received: &[u8]) -> Result<Head, HeadRefusal> {
    let end = end_of_head(received, 0).expect("a whole head");
    let (head, behind) = received.split_at(end);
    judge(BytesMut::from(head), BytesMut::from(behind), None)
}

#[test]
fn an_ordinary_head_is_passed_on_as_it_came() {
    let received = b"PUT /a?b HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nX-a:b\r\n\r\nhelloGET / HTTP/1.1\r\n";
    let head = head(received).unwrap();
    let (own, next) = received.split_at(received.len() - b"GET / HTTP/1.1\r\n".len());
    assert_eq!(head.for_pingora, own);
    assert_eq!(head.next, next);
    assert_eq!((head.body, head.is_post), (Some(0), false));
    assert!(head.rest.fields.is_none());
}

#[test]
fn the_rest_of_a_body_is_awaited() {
    let counted = head(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhe").unwrap();
    assert_eq!((counted.body, counted.is_post), (Some(3), true));
    let chunks = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na";
    let chunked = head(chunks).unwrap();
    assert_eq!(chunked.body, None);
    assert_eq!(chunked.for_pingora, &chunks[..]);
}

#[test]
fn unusual_heads_are_written_anew() {
    let head =
        head(b"GET http://front:8/a#b HTTP/1.1\nHost: other\nX-Folded: 1\n 2\nx-RAW: \xe9\n\nrest")
            .unwrap();
    assert_eq!(
        head.for_pingora,
        &b"GET /a%23b HTTP/1.1\r\nHost: front:8\r\nX-Folded: 1 2\r\nx-RAW: \xe9\r\n\r\n"[..]
    );
    assert_eq!(head.next, &b"rest"[..]);
}

/// The type of field names holds no longer name, so the field would be lost.
#[test]
fn a_name_is_as_long_as_the_type_of_fields_holds() {
    for (length, is_taken) in [(LONGEST_NAME, true), (LONGEST_NAME + 1, false)] {
        let name = "n".repeat(length);
        let head = head(format!("GET /a HTTP/1.1\r\nHost: x\r\n{name}: v\r\n\r\n").as_bytes());
        let Ok(head) = head else {
            assert_eq!((head.err(), is_taken), (Some(HeadRefusal::TooLarge), false));
            continue;
        };
        assert!(is_taken);
        let mut request = RequestHeader::build("GET", b"/a", None).unwrap();
        head.rest.complete(&mut request);
        assert_eq!(request.headers.get(&name).unwrap(), "v");
    }
}

#[test]
fn all_fields_of_a_long_head_are_kept_in_order() {
    let mut received = b"GET /a HTTP/1.1\r\nHost: x\r\n".to_vec();
    for n in 0..300 {
        received.extend_from_slice(format!("X-Group: {n}\r\n").as_bytes());
    }
    received.extend_from_slice(b"\r\n");
    let head = head(&received).unwrap();
    assert_eq!(head.for_pingora, &b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"[..]);
    let mut request = RequestHeader::build("GET", b"/a", None).unwrap();
    request.insert_header("Host", "x").unwrap();
    assert!(head.rest.complete(&mut request).is_none());
    let groups: Vec<_> = request.headers.get_all("x-group").iter().collect();
    assert_eq!(groups.len(), 300);
    assert_eq!(
        (groups[0].as_bytes(), groups[299].as_bytes()),
        (&b"0"[..], &b"299"[..])
    );
    assert_eq!(request.headers.get_all("host").iter().count(), 1);
}

#[test]
fn the_end_is_found_wherever_reads_cut_the_head() {
    for (head, end) in [
        (&b"GET / HTTP/1.1\r\nA: b\r\n\r\nrest"[..], 24),
        (b"GET / HTTP/1.1\nA: b\n\nrest", 21),
        (b"GET / HTTP/1.1\r\n\r\n", 18),
        (b"\r\nGET / HTTP/1.1\r\n\r\n", 2),
        (b"\nGET / HTTP/1.1\r\n\r\n", 1),
    ] {
        for cut in 1..head.len() {
            let before = end_of_head(&head[..cut], 0);
            let found = before.or_else(|| end_of_head(head, cut));
            assert_eq!(found, Some(end), "{cut}");
            assert!(before.is_none_or(|_| cut >= end), "{cut}");
        }
    }
}

/// Random bytes are refused, or read as one head for pingora.
#[test]
fn random_heads_cause_no_panic() {
    let pieces: [&[u8]; 16] = [
        b"GET ",
        b"/",
        b"#",
        b" HTTP/1.1",
        b"\r\n",
        b"\n",
        b"Host: x",
        b"\0",
        b":",
        b" ",
        b"Content-Length: 3",
        b"\xff",
        b"Transfer-Encoding: chunked",
        b"Expect: x",
        b"http://",
        b"?",
    ];
    proptest::proptest!(|(choice in proptest::collection::vec(0usize..16, 0..40))| {
        let mut bytes: Vec<u8> = choice.iter().flat_map(|i| pieces[*i]).copied().collect();
        bytes.extend_from_slice(b"\r\n\r\n");
        let end = end_of_head(&bytes, 0).expect("ends");
        let (head, behind) = bytes.split_at(end);
        if let Ok(head) = judge(BytesMut::from(head), BytesMut::from(behind), None) {
            let again = end_of_head(&head.for_pingora, 0).expect("ends");
            let (_, body) = head.for_pingora.split_at(again);
            assert!(behind.starts_with(body));
        }
    });
}
