//! Amounts of memory as Kubernetes writes them: `512Mi`, `2G`, `1.5Gi`.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};

/// Suffixes of `resource.Quantity`, binary and decimal, and their factors.
const SUFFIXES: [(&str, f64); 13] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("Ei", 1_152_921_504_606_846_976.0),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
    ("", 1.0),
];

/// A number, or a text with a suffix, as written in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity(pub String);

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Text;
        impl Visitor<'_> for Text {
            type Value = Quantity;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a quantity")
            }

            fn visit_i64<E: de::Error>(self, number: i64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_u64<E: de::Error>(self, number: u64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_f64<E: de::Error>(self, number: f64) -> Result<Quantity, E> {
                Ok(Quantity(number.to_string()))
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Quantity, E> {
                Ok(Quantity(text.to_owned()))
            }
        }
        deserializer.deserialize_any(Text)
    }
}

/// Returns the bytes of a quantity, rounded up. `None` if it is malformed or too
/// large.
pub(super) fn parse_bytes(text: &str) -> Option<u64> {
    let (suffix, factor) = SUFFIXES.iter().find(|(s, _)| text.ends_with(s))?;
    let number = text.strip_suffix(suffix)?;
    let plain = |c: char| c.is_ascii_digit() || c == '.';
    if !number.chars().all(plain) {
        return None;
    }
    let bytes = (number.parse::<f64>().ok()? * factor).ceil();
    // An f64 holds every integer only up to this, and no machine has so many bytes.
    (bytes < 2f64.powi(53)).then_some(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_read_as_kubernetes_reads_them() {
        for (text, expected) in [
            ("0", Some(0)),
            ("1000", Some(1000)),
            ("512Mi", Some(512 << 20)),
            ("1.5Gi", Some(3 << 29)),
            ("2G", Some(2_000_000_000)),
            ("10k", Some(10_000)),
            ("0.1", Some(1)),
            (".5Ki", Some(512)),
            ("", None),
            ("Mi", None),
            ("-1", None),
            ("1 Gi", None),
            ("1GB", None),
            ("100m", None),
            ("1e3", None),
            ("8Ei", None),
        ] {
            assert_eq!(parse_bytes(text), expected, "{text}");
        }
    }
}
