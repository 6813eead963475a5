//! The fields `Connection` and `Upgrade`, by which a message describes its own
//! connection (RFC 9110, 7.6.1 and 7.8). Requests are read as kube-apiserver reads
//! them, and only here: two different readings would make two requests out of one.

use std::collections::HashSet;

use http::header::{CONNECTION, CONTENT_LENGTH, HOST, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName, HeaderValue, Version};

/// Fields that stay even if `Connection` names them: they tell the request's
/// destination and the end of its body. Without them, one request could become two.
/// RFC 9110 forbids `Connection` to name them.
const FRAMING: [HeaderName; 3] = [HOST, CONTENT_LENGTH, TRANSFER_ENCODING];

/// Tells whether the field must stay in every message, even if `Connection` names
/// it.
pub fn is_framing(field: &HeaderName) -> bool {
    FRAMING.contains(field)
}

/// The option by which `Connection` asks for an upgrade.
const UPGRADE_OPTION: &[u8] = b"upgrade";

/// The options in a message's `Connection`, and the upgrade that it requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectionOptions {
    named: HashSet<HeaderName>,
    upgrade: Option<Upgrade>,
}

/// A request to change the connection's protocol. An `Upgrade` field requests
/// nothing if the word `upgrade` is not in `Connection`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Upgrade {
    protocol: Protocol,
    is_plain: bool,
    fields: Vec<(HeaderName, HeaderValue)>,
}

/// The protocol that a connection is to change to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// `Upgrade: websocket` (RFC 6455).
    WebSocket,
    /// SPDY, or anything else, including a list of several protocols.
    Other,
    /// There is no `Upgrade` field. Some reverse proxies send a `Connection:
    /// upgrade` with every request.
    Unnamed,
}

impl ConnectionOptions {
    /// The fields that are read. The reader must remove them from the message.
    pub const FIELDS: [HeaderName; 2] = [CONNECTION, UPGRADE];

    /// Reads the options of a message. `version` is the HTTP version of the message.
    pub fn read(headers: &HeaderMap, version: Version) -> Self {
        let mut named = HashSet::new();
        let mut first = None;
        let mut all = Line::default();
        for line in headers.get_all(CONNECTION) {
            let line = line.as_bytes();
            let mut read = Line {
                has_word: line
                    .windows(UPGRADE_OPTION.len())
                    .any(|word| word.eq_ignore_ascii_case(UPGRADE_OPTION)),
                ..Line::default()
            };
            for option in line.split(|b| *b == b',').map(<[u8]>::trim_ascii) {
                read.has_option |= option.eq_ignore_ascii_case(UPGRADE_OPTION);
                read.closes |= option.eq_ignore_ascii_case(b"close");
                read.keeps |= option.eq_ignore_ascii_case(b"keep-alive");
                // Only names of existing fields are kept: a line may have very many
                // options.
                let name = HeaderName::from_bytes(option).ok();
                named.extend(name.filter(|n| headers.contains_key(n) && !is_framing(n)));
            }
            all = all.and(read);
            first.get_or_insert(read);
        }
        // An HTTP/1.0 connection ends, unless an option asks to keep it.
        all.closes |= version == Version::HTTP_10 && !all.keeps;
        let first = first.unwrap_or_default();
        let upgrade = all.has_word.then(|| Upgrade::read(headers, first, all));
        Self { named, upgrade }
    }

    /// Tells whether `Connection` names this field of the message. Then the field
    /// concerns only this connection.
    pub fn names(&self, field: &HeaderName) -> bool {
        self.named.contains(field)
    }

    /// Returns the fields of the message that `Connection` names.
    pub fn named(&self) -> impl Iterator<Item = &HeaderName> {
        self.named.iter()
    }

    /// Returns the upgrade that the request asks for.
    pub fn upgrade(&self) -> Option<&Upgrade> {
        self.upgrade.as_ref()
    }

    /// Tells whether the request asks for a WebSocket, as
    /// `wsstream.IsWebSocketRequest` does.
    pub fn is_websocket(&self) -> bool {
        self.upgrade()
            .is_some_and(|upgrade| upgrade.protocol == Protocol::WebSocket)
    }
}

/// The options in one line of `Connection`, or in several lines together.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    has_word: bool,
    has_option: bool,
    closes: bool,
    keeps: bool,
}

impl Line {
    fn and(self, other: Self) -> Self {
        Self {
            has_word: self.has_word || other.has_word,
            has_option: self.has_option || other.has_option,
            closes: self.closes || other.closes,
            keeps: self.keeps || other.keeps,
        }
    }

    /// Writes the line for the next server, or none if there is nothing to tell. If
    /// the word `upgrade` is only a part of another option, the line has
    /// `like-upgrade`: kube-apiserver looks for the word
    /// (`httpstream.IsUpgradeRequest`), other servers for the option.
    fn written(self, is_option: bool) -> Option<HeaderValue> {
        let text = match (self.closes, self.has_word, is_option) {
            (true, true, true) => "close, Upgrade",
            (true, true, false) => "close, like-upgrade",
            (true, false, _) => "close",
            (false, true, true) => "Upgrade",
            (false, true, false) => "like-upgrade",
            (false, false, _) => return None,
        };
        Some(HeaderValue::from_static(text))
    }
}

impl Upgrade {
    fn read(headers: &HeaderMap, first: Line, all: Line) -> Self {
        // Some servers read only the first line, so the content of the other lines
        // stays in a second one.
        let rest = Line {
            has_word: !first.has_word,
            closes: all.closes && !first.closes,
            ..Line::default()
        };
        let nothing = HeaderValue::from_static("keep-alive");
        let first_line = first.written(all.has_option).unwrap_or(nothing);
        let mut fields = vec![(CONNECTION, first_line)];
        fields.extend(rest.written(all.has_option).map(|rest| (CONNECTION, rest)));
        let protocols = headers.get_all(UPGRADE).iter();
        fields.extend(protocols.map(|protocol| (UPGRADE, protocol.clone())));
        let protocol = headers.get(UPGRADE).map(HeaderValue::as_bytes);
        Self {
            protocol: match protocol {
                Some(protocol) if is_websocket(protocol) => Protocol::WebSocket,
                Some(_) => Protocol::Other,
                None => Protocol::Unnamed,
            },
            is_plain: first.has_word && all.has_option && protocol.is_some_and(<[u8]>::is_ascii),
            fields,
        }
    }

    /// Returns the protocol that the request names.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Tells whether every server reads these fields in the same way.
    pub fn is_plain(&self) -> bool {
        self.is_plain
    }

    /// Returns the fields that request the upgrade from the next server. Any way of
    /// reading finds the same in them as in the received fields, but they name no
    /// other field.
    pub fn fields(&self) -> &[(HeaderName, HeaderValue)] {
        &self.fields
    }
}

/// Like Go's `strings.EqualFold(protocol, "websocket")`: two letters outside ASCII
/// count as an `s` and a `k`.
fn is_websocket(protocol: &[u8]) -> bool {
    let folded = |c: char| match c {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        c => c.to_ascii_lowercase(),
    };
    std::str::from_utf8(protocol)
        .is_ok_and(|protocol| protocol.chars().map(folded).eq("websocket".chars()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(fields: &[(&str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.append(name, HeaderValue::from_bytes(value.as_bytes()).unwrap());
        }
        headers
    }

    fn read(connection: &[&str], upgrade: &[&str]) -> ConnectionOptions {
        let connection = connection.iter().map(|value| ("Connection", *value));
        let upgrade = upgrade.iter().map(|value| ("Upgrade", *value));
        let fields: Vec<_> = connection.chain(upgrade).collect();
        ConnectionOptions::read(&headers(&fields), Version::HTTP_11)
    }

    #[test]
    fn an_upgrade_needs_the_word_in_connection() {
        use Protocol::{Other, Unnamed, WebSocket};
        for (connection, upgrade, protocol) in [
            (&[][..], &[][..], None),
            (&["keep-alive"], &[], None),
            // Half of an upgrade, which requests nothing.
            (&[], &["websocket"], None),
            (&["keep-alive"], &["websocket"], None),
            (&["close"], &["SPDY/3.1"], None),
            (&["up, grade"], &["websocket"], None),
            (&[], &["h2c"], None),
            (&["Upgrade"], &["websocket"], Some(WebSocket)),
            (&["upgrade"], &["WEBSOCKET"], Some(WebSocket)),
            (&["keep-alive, Upgrade"], &["websocket"], Some(WebSocket)),
            (&["close,uPGRADE ,x"], &["websocket"], Some(WebSocket)),
            (&["keep-alive", "Upgrade"], &["websocket"], Some(WebSocket)),
            // The word may be a part of another option.
            (&["xupgradex"], &["websocket"], Some(WebSocket)),
            (
                &["Upgrade-Insecure-Requests"],
                &["websocket"],
                Some(WebSocket),
            ),
            (&["xupgradex"], &["SPDY/3.1"], Some(Other)),
            (&["Upgrade"], &["SPDY/3.1"], Some(Other)),
            (&["Upgrade, HTTP2-Settings"], &["h2c"], Some(Other)),
            (&["Upgrade"], &["TLS/1.2"], Some(Other)),
            // The first line counts as a whole, even if it lists several protocols.
            (&["Upgrade"], &["h2c, websocket"], Some(Other)),
            (&["Upgrade"], &["websocket, h2c"], Some(Other)),
            (&["Upgrade"], &["websocket/13"], Some(Other)),
            (&["Upgrade"], &["websocket", "h2c"], Some(WebSocket)),
            (&["Upgrade"], &["h2c", "websocket"], Some(Other)),
            (&["Upgrade"], &["", "websocket"], Some(Other)),
            (&["Upgrade"], &[""], Some(Other)),
            (&["Upgrade"], &[], Some(Unnamed)),
            (&["xupgradex"], &[], Some(Unnamed)),
            (&["Upgrade"], &["web\u{17f}oc\u{212a}et"], Some(WebSocket)),
        ] {
            let options = read(connection, upgrade);
            let found = options.upgrade().map(Upgrade::protocol);
            assert_eq!(found, protocol, "{connection:?} {upgrade:?}");
            assert_eq!(options.is_websocket(), protocol == Some(WebSocket));
        }
    }

    /// `Upgrade` is passed on line by line. `Connection` keeps what each way of
    /// reading looks for: the word in the first line, the word in any line, the
    /// option.
    #[test]
    fn the_next_server_reads_what_this_one_read() {
        for (connection, upgrade, asked, is_plain) in [
            (
                &["Upgrade"][..],
                &["websocket"][..],
                &["Upgrade", "websocket"][..],
                true,
            ),
            (
                &["keep-alive, upgrade, x-remote-user"],
                &["SPDY/3.1"],
                &["Upgrade", "SPDY/3.1"],
                true,
            ),
            (
                &["keep-alive", "Upgrade"],
                &["websocket"],
                &["keep-alive", "Upgrade", "websocket"],
                false,
            ),
            (
                &["xupgradex"],
                &["websocket", " h2c"],
                &["like-upgrade", "websocket", " h2c"],
                false,
            ),
            (&["xupgradex", "upgrade"], &["a"], &["Upgrade", "a"], true),
            (
                &["x-a", "x-remote-extra-upgrade"],
                &["a"],
                &["keep-alive", "like-upgrade", "a"],
                false,
            ),
            // The end of the connection is told in a line of its own, as Go does,
            // unless the first line tells it.
            (&["Close, Upgrade"], &["a"], &["close, Upgrade", "a"], true),
            (
                &["close", "xupgradex"],
                &["a"],
                &["close", "like-upgrade", "a"],
                false,
            ),
            (
                &["Upgrade", "close"],
                &["a"],
                &["Upgrade", "close", "a"],
                true,
            ),
            (
                &["x-a", "Upgrade, close"],
                &["a"],
                &["keep-alive", "close, Upgrade", "a"],
                false,
            ),
            (
                &["Upgrade"],
                &["web\u{17f}ocket"],
                &["Upgrade", "web\u{17f}ocket"],
                false,
            ),
            (&["Upgrade"], &[], &["Upgrade"], false),
        ] {
            let options = read(connection, upgrade);
            let found = options.upgrade().unwrap();
            let values: Vec<_> = found.fields().iter().map(|(_, v)| v.as_bytes()).collect();
            let asked: Vec<_> = asked.iter().map(|v| v.as_bytes()).collect();
            assert_eq!(values, asked, "{connection:?} {upgrade:?}");
            assert_eq!(found.is_plain(), is_plain, "{connection:?} {upgrade:?}");
            let mut all = HeaderMap::new();
            for (name, value) in found.fields() {
                all.append(name, value.clone());
            }
            let again = ConnectionOptions::read(&all, Version::HTTP_11);
            assert_eq!(again.upgrade(), Some(found));
        }
    }

    #[test]
    fn a_connection_of_http_1_0_ends() {
        for (connection, asked) in [
            ("Upgrade", &["Upgrade", "close"][..]),
            ("keep-alive, Upgrade", &["Upgrade"]),
            ("upgrade, close", &["close, Upgrade"]),
        ] {
            let headers = headers(&[("Connection", connection)]);
            let options = ConnectionOptions::read(&headers, Version::HTTP_10);
            let fields = options.upgrade().unwrap().fields();
            let values: Vec<_> = fields.iter().map(|(_, v)| v.as_bytes()).collect();
            let asked: Vec<_> = asked.iter().map(|v| v.as_bytes()).collect();
            assert_eq!(values, asked, "{connection}");
        }
    }

    #[test]
    fn only_fields_that_there_are_can_be_named() {
        let options = ConnectionOptions::read(
            &headers(&[
                ("Connection", "keep-alive, X-Remote-User, x-absent"),
                (
                    "Connection",
                    " x-other ,, host, content-length,transfer-encoding",
                ),
                ("X-Remote-User", "a"),
                ("X-OTHER", "b"),
                ("X-Kept", "c"),
                ("Host", "h"),
                ("Content-Length", "5"),
                ("Transfer-Encoding", "chunked"),
            ]),
            Version::HTTP_11,
        );
        let mut named: Vec<_> = options.named().map(HeaderName::as_str).collect();
        named.sort_unstable();
        assert_eq!(named, ["x-other", "x-remote-user"]);
        assert!(options.names(&HeaderName::from_static("x-other")));
        assert!(!options.names(&HeaderName::from_static("x-kept")));
        assert_eq!(options.upgrade(), None);
    }

    /// The options of a line are not compared with each field of the head.
    #[test]
    fn very_many_options_cost_little() {
        let many = "a,".repeat(400_000);
        let mut all = headers(&[("Connection", &many)]);
        for n in 0..10_000 {
            let name = format!("x-{n}");
            all.append(
                HeaderName::from_bytes(name.as_bytes()).unwrap(),
                many[..1].parse().unwrap(),
            );
        }
        let options = ConnectionOptions::read(&all, Version::HTTP_11);
        assert_eq!(options, ConnectionOptions::default());
    }
}
