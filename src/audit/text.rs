//! Writes pieces of an event as Go's encoder does: objects without their empty
//! fields, strings with its escapes, times with microseconds.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, Utc};
use kubernetes_wire::api::UserInfo;
use kubernetes_wire::representation::transcode::text;
use kubernetes_wire::representation::transcode::time::Moment;

pub(super) struct Object<'o> {
    out: &'o mut Vec<u8>,
    is_empty: bool,
}

impl<'o> Object<'o> {
    pub(super) fn begin(out: &'o mut Vec<u8>) -> Self {
        out.push(b'{');
        Self {
            out,
            is_empty: true,
        }
    }

    /// Begins a field and returns the buffer for its value.
    pub(super) fn field(&mut self, name: &[u8]) -> &mut Vec<u8> {
        if !std::mem::take(&mut self.is_empty) {
            self.out.push(b',');
        }
        text::write(name, self.out);
        self.out.push(b':');
        self.out
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        if !value.is_empty() {
            text::write(value.as_bytes(), self.field(name.as_bytes()));
        }
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

pub(super) fn string(value: &[u8], out: &mut Vec<u8>) {
    text::write(value, out);
}

pub(super) fn strings<'a>(values: impl IntoIterator<Item = &'a String>, out: &mut Vec<u8>) {
    out.push(b'[');
    for (i, value) in values.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        string(value.as_bytes(), out);
    }
    out.push(b']');
}

/// Writes `authentication.k8s.io/v1` UserInfo, or `{}` if there is no user.
pub(super) fn user(user: Option<&UserInfo>, out: &mut Vec<u8>) {
    let mut object = Object::begin(out);
    if let Some(user) = user {
        object.text("username", &user.name);
        object.text("uid", &user.uid);
        if !user.groups.is_empty() {
            strings(&user.groups, object.field(b"groups"));
        }
        if !user.extra.is_empty() {
            let mut extra = Object::begin(object.field(b"extra"));
            for (key, values) in &user.extra {
                strings(values, extra.field(key.as_bytes()));
            }
            extra.end();
        }
    }
    object.end();
}

/// Writes a `metav1.MicroTime`, with its quotes.
pub(super) fn micro_time(at: SystemTime, out: &mut Vec<u8>) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let nanos = since.subsec_nanos().cast_signed();
    let moment = i64::try_from(since.as_secs()).map(|seconds| Moment::new(seconds, nanos));
    match moment {
        Ok(Ok(moment)) => moment.write(true, out),
        // A time after the year 9999 has no such form.
        _ => out.extend_from_slice(b"null"),
    }
}

/// Formats the time for the name of a rotated file: `2006-01-02T15-04-05.000`.
pub(super) fn file_time(at: SystemTime) -> String {
    let at: DateTime<Utc> = at.max(UNIX_EPOCH).into();
    at.format("%Y-%m-%dT%H-%M-%S%.3f").to_string()
}

fn digit(value: u16) -> u8 {
    b'0'.wrapping_add((value % 10) as u8)
}

pub(super) fn three_digits(value: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&[digit(value / 100), digit(value / 10), digit(value)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_chrono() {
        let mut seconds = 0;
        while seconds < 8_000_000_000 {
            let at = UNIX_EPOCH + Duration::new(seconds, 123_456_789);
            let mut out = Vec::new();
            micro_time(at, &mut out);
            let utc = chrono::DateTime::<chrono::Utc>::from(at);
            let expected = utc.format("\"%Y-%m-%dT%H:%M:%S.%6fZ\"").to_string();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
            seconds += 86_399 * 7 + 11;
        }
        let at = UNIX_EPOCH + Duration::new(951_827_696, 7_000_000);
        assert_eq!(file_time(at), "2000-02-29T12-34-56.007");
    }

    #[test]
    fn users_are_written_without_what_is_empty() {
        let written = |info: Option<&UserInfo>| {
            let mut out = Vec::new();
            user(info, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(written(None), "{}");
        let mut tess = UserInfo {
            name: "<tess>".to_owned(),
            groups: vec!["a".to_owned(), "b".to_owned()],
            ..UserInfo::default()
        };
        tess.extra.insert("k".to_owned(), vec!["v".to_owned()]);
        assert_eq!(
            written(Some(&tess)),
            "{\"username\":\"\\u003ctess\\u003e\",\"groups\":[\"a\",\"b\"],\"extra\":{\"k\":[\"v\"]}}"
        );
    }
}
