//! The head of an answer, as long as it can still be changed.

use http::{Version, response};
use pingora_http::ResponseHeader;

use super::{Failure, wire_head};

/// A head that is made here, or that pingora passes on.
pub(in crate::server) trait AnswerHead {
    fn read(&self) -> &response::Parts;

    fn change(&mut self) -> &mut response::Parts;
}

impl AnswerHead for response::Parts {
    fn read(&self) -> &response::Parts {
        self
    }

    fn change(&mut self) -> &mut response::Parts {
        self
    }
}

/// The head of an answer that pingora passes on. It is taken out of pingora's hands
/// only if it is changed or spelled in another way than Go's, because pingora parses
/// each name of a new head again.
pub(in crate::server) struct PassedHead<'a> {
    received: &'a mut ResponseHeader,
    changed: Option<response::Parts>,
}

impl<'a> PassedHead<'a> {
    pub(in crate::server) fn new(received: &'a mut ResponseHeader) -> Self {
        Self {
            received,
            changed: None,
        }
    }

    /// Gives the head back to pingora, in the form for a client of this version.
    pub(in crate::server) fn give_back(self, client: Version) -> Result<(), Failure> {
        let head = match self.changed {
            Some(changed) => changed,
            None if client == Version::HTTP_2 => return Ok(()),
            None if wire_head::is_spelled_by_go(self.received) => {
                // A new head would not have upstream's reason phrase either.
                self.received.set_reason_phrase(None)?;
                return Ok(());
            }
            None => wire_head::take(self.received),
        };
        *self.received = wire_head::for_client(head, client)?;
        Ok(())
    }
}

impl AnswerHead for PassedHead<'_> {
    fn read(&self) -> &response::Parts {
        match &self.changed {
            Some(changed) => changed,
            None => self.received,
        }
    }

    fn change(&mut self) -> &mut response::Parts {
        self.changed
            .get_or_insert_with(|| wire_head::take(self.received))
    }
}

#[cfg(test)]
mod tests {
    use http::StatusCode;
    use http::header::{HeaderValue, WARNING};

    use super::*;

    /// Makes a head as pingora reads it from an HTTP/1 connection.
    fn received(names: &[&'static str]) -> ResponseHeader {
        let mut head = ResponseHeader::build(StatusCode::OK, None).unwrap();
        for (value, name) in names.iter().enumerate() {
            head.append_header(*name, value).unwrap();
        }
        head
    }

    fn wire(head: &ResponseHeader) -> String {
        let mut wire = Vec::new();
        head.header_to_h1_wire(&mut wire);
        String::from_utf8(wire).unwrap()
    }

    /// The same bytes are written whether the head is left as it is or made anew.
    #[test]
    fn a_head_that_is_left_as_it_is_has_the_same_bytes() {
        for (names, left) in [
            (&[][..], true),
            (
                &["Audit-Id", "Date", "Content-Length", "Content-Type"],
                true,
            ),
            (&["Warning", "X-Of-Backends", "Warning", "Etag"], true),
            (&["Sec-WebSocket-Accept", "Content-Type"], true),
            (&["content-type", "Audit-Id"], false),
            (&["Warning", "Date", "warning"], false),
            (&["Audit-ID"], false),
            (&["ETag"], false),
            (&["Sec-Websocket-Accept"], false),
        ] {
            let mut head = received(names);
            let renewed = wire_head::take(&mut received(names));
            let renewed = wire_head::for_client(renewed, Version::HTTP_11).unwrap();
            assert_eq!(wire_head::is_spelled_by_go(&head), left, "{names:?}");
            PassedHead::new(&mut head)
                .give_back(Version::HTTP_11)
                .unwrap();
            assert_eq!(wire(&head), wire(&renewed), "{names:?}");
            assert_eq!(head.headers, renewed.headers);
        }
    }

    #[test]
    fn a_head_is_changed_in_the_spelling_of_go() {
        for client in [Version::HTTP_11, Version::HTTP_2] {
            let mut head = received(&["Audit-Id", "Date"]);
            head.set_reason_phrase(Some("Fine")).unwrap();
            let mut passed = PassedHead::new(&mut head);
            assert_eq!(passed.read().status, StatusCode::OK);
            let warning = HeaderValue::from_static("w");
            passed.change().headers.append(WARNING, warning);
            assert!(passed.read().headers.contains_key(WARNING));
            passed.give_back(client).unwrap();
            let expected = match client == Version::HTTP_2 {
                true => "audit-id: 0\r\nDate: 1\r\nwarning: w\r\n",
                false => "Audit-Id: 0\r\nDate: 1\r\nWarning: w\r\n",
            };
            assert_eq!(wire(&head), expected);
            assert_eq!(head.get_reason_phrase(), Some("OK"));
        }
    }

    #[test]
    fn reason_phrases_are_not_passed_on() {
        let mut head = received(&["Audit-Id"]);
        head.set_reason_phrase(Some("Fine")).unwrap();
        let passed = PassedHead::new(&mut head);
        passed.give_back(Version::HTTP_11).unwrap();
        assert_eq!(head.get_reason_phrase(), Some("OK"));
    }

    /// A head from an HTTP/2 connection has lower-case names.
    #[test]
    fn names_of_http_2_are_spelled_anew() {
        let lower = wire_head::take(&mut received(&["Audit-Id", "Date"]));
        let mut head = ResponseHeader::from(lower);
        assert!(!wire_head::is_spelled_by_go(&head));
        let passed = PassedHead::new(&mut head);
        passed.give_back(Version::HTTP_11).unwrap();
        assert_eq!(wire(&head), "Audit-Id: 0\r\nDate: 1\r\n");
    }
}
