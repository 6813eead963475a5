//! YAML as kube-apiserver writes it.
//!
//! It marshals an answer as JSON, reads that as the YAML which JSON is, and
//! writes what it read with go-yaml v2 (sigs.k8s.io/yaml, go.yaml.in/yaml/v2):
//! keys sorted, strings quoted where they would be read as something else,
//! lines folded after 80 columns. Clients see those bytes, so this does the
//! same from the same JSON, except where go-yaml fails or depends on chance:
//! then there is no YAML, and upstream answers.

pub mod analysis;
mod emitter;
mod keys;
mod number;
mod resolve;
mod scalar;
mod text;
mod timestamp;

pub use resolve::is_number_or_time;

use std::borrow::Cow;

use super::scan;
use emitter::Emitter;
use scalar::Scalar;

/// Where a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    Root,
    Element,
    /// After a key.
    Value,
}

/// Deeper values are left to upstream: each level is a call here. Kubernetes'
/// own types reach 30 levels.
const MAX_DEPTH: usize = 200;

/// go-yaml reads keys of 1,024 characters at most, quotes and escapes counted.
const MAX_KEY_BYTES: usize = 1000;

/// This JSON has no YAML that is known to be upstream's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no exact YAML for this JSON")]
pub struct NotExact;

/// The YAML of a JSON document; it ends with a newline.
pub fn from_json(json: &[u8]) -> Result<Vec<u8>, NotExact> {
    let json = json.trim_ascii();
    let mut emitter = Emitter::new(json.len().saturating_add(json.len() / 4));
    node(&mut emitter, json, Context::Root, 0)?;
    Ok(emitter.finish())
}

fn node(
    emitter: &mut Emitter,
    json: &[u8],
    context: Context,
    depth: usize,
) -> Result<(), NotExact> {
    if depth > MAX_DEPTH {
        return Err(NotExact);
    }
    match json.first().ok_or(NotExact)? {
        b'{' => mapping(emitter, json, depth),
        b'[' => sequence(emitter, json, context, depth),
        b'"' => {
            let string = text::unquoted(json)?;
            emitter.scalar(&Scalar::string(&string));
            Ok(())
        }
        _ => {
            let plain = match json {
                b"true" => Cow::Borrowed("true"),
                b"false" => Cow::Borrowed("false"),
                b"null" => Cow::Borrowed("null"),
                number => number::normal(number)?,
            };
            emitter.scalar(&Scalar::plain(&plain));
            Ok(())
        }
    }
}

fn mapping(emitter: &mut Emitter, json: &[u8], depth: usize) -> Result<(), NotExact> {
    let mut members = Vec::new();
    for member in scan::members(json) {
        let member = member.map_err(|_| NotExact)?;
        if member.key.len() > MAX_KEY_BYTES {
            return Err(NotExact);
        }
        members.push((text::unescaped(member.key)?, member.value));
    }
    if members.is_empty() {
        emitter.empty("{", "}");
        return Ok(());
    }
    keys::sort(&mut members)?;
    let outer = emitter.indent(false);
    for (key, value) in members {
        emitter.key(&Scalar::string(&key));
        node(emitter, value, Context::Value, depth.saturating_add(1))?;
    }
    emitter.outdent(outer);
    Ok(())
}

fn sequence(
    emitter: &mut Emitter,
    json: &[u8],
    context: Context,
    depth: usize,
) -> Result<(), NotExact> {
    let mut elements = scan::elements(json).peekable();
    if elements.peek().is_none() {
        emitter.empty("[", "]");
        return Ok(());
    }
    let outer = emitter.indent(context == Context::Value && emitter.is_after_key());
    for element in elements {
        let (_, value) = element.map_err(|_| NotExact)?;
        emitter.dash();
        node(emitter, value, Context::Element, depth.saturating_add(1))?;
    }
    emitter.outdent(outer);
    Ok(())
}

#[cfg(test)]
mod tests;
