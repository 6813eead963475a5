//! YAML as kube-apiserver writes it.
//!
//! kube-apiserver marshals an answer as JSON, reads the JSON as YAML, and writes
//! the result with go-yaml v2 (sigs.k8s.io/yaml, go.yaml.in/yaml/v2): keys are
//! sorted, strings are quoted where they would be read as another type, and lines
//! are folded after 80 columns. This module produces the same bytes from the same
//! JSON, since clients see them. Where go-yaml fails or depends on chance, this
//! module returns an error, and only the API server can answer.

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    Root,
    Element,
    /// After a key.
    Value,
}

/// The greatest depth of a value. Deeper values are left to upstream, since
/// each level is a nested call here. Kubernetes' own types reach 30 levels.
const MAX_DEPTH: usize = 200;

/// The most bytes of a key. go-yaml reads keys of at most 1,024 characters,
/// including quotes and escapes.
const MAX_KEY_BYTES: usize = 1000;

/// The YAML that kube-apiserver would write for this JSON is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no exact YAML for this JSON")]
pub struct NotExact;

/// Converts a JSON document to YAML. The result ends with a newline.
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
