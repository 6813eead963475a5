//! Text functions that search, or whose result may be longer than their arguments.
//! Expressions are rewritten to call them by names of their own, because the `cel` crate
//! has functions of the names that they replace.

use cel::ExecutionError;
use cel::common::types::{DYN_TYPE, INT_TYPE, LIST_TYPE, STRING_TYPE};
use cel::common::value::CowVal;

use super::values::{self, Arguments};
use super::{Called, Declarations};

pub(in super::super) const INDEX_OF: &str = "@indexOf";
pub(in super::super) const JOIN: &str = "@join";
pub(in super::super) const LAST_INDEX_OF: &str = "@lastIndexOf";
pub(in super::super) const REPLACE: &str = "@replace";
pub(in super::super) const SPLIT: &str = "@split";

pub(super) fn declare(declarations: &mut Declarations) {
    let (text, int) = (&STRING_TYPE, &INT_TYPE);
    declarations.function(INDEX_OF, &[text, text], index_of);
    declarations.function(INDEX_OF, &[text, text, int], index_of);
    declarations.function(INDEX_OF, &[&LIST_TYPE, &DYN_TYPE], index_of_element);
    declarations.function(LAST_INDEX_OF, &[text, text], last_index_of);
    declarations.function(LAST_INDEX_OF, &[text, text, int], last_index_of);
    declarations.function(
        LAST_INDEX_OF,
        &[&LIST_TYPE, &DYN_TYPE],
        last_index_of_element,
    );
    declarations.function(JOIN, &[&LIST_TYPE], join);
    declarations.function(JOIN, &[&LIST_TYPE, text], join);
    declarations.function(REPLACE, &[text, text, text], replace);
    declarations.function(REPLACE, &[text, text, text, int], replace);
    declarations.function(SPLIT, &[text, text], split);
    declarations.function(SPLIT, &[text, text, int], split);
}

/// Tells before which byte a search is to begin. The text may be shorter: then nothing is
/// there but an empty text, which is at its end.
fn offset(args: &Arguments<'_, '_, '_>) -> Result<Option<usize>, ExecutionError> {
    let (text, wanted) = (args.text(0)?, args.text(1)?);
    let offset = args.int(2)?;
    let characters = usize::try_from(offset)
        .map_err(|_| args.failed(format!("index out of range: {offset}")))?;
    let bytes = text.char_indices().nth(characters).map(|(bytes, _)| bytes);
    Ok(bytes.or(wanted.is_empty().then_some(text.len())))
}

/// Returns the number of characters before this byte as the place of what was found.
fn place_in<'b, 'v>(text: &str, found: Option<usize>) -> Called<'b, 'v> {
    let before = found.and_then(|found| text.get(..found));
    values::place(before.map(|before| before.chars().count()))
}

fn index_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("indexOf", &args);
    let (text, wanted) = (args.text(0)?, args.text(1)?);
    let from = match args.has(2) {
        true => offset(&args)?,
        false => Some(0),
    };
    let found = from.and_then(|from| {
        let found = text.get(from..)?.find(wanted)?;
        found.checked_add(from)
    });
    place_in(text, found)
}

fn last_index_of<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("lastIndexOf", &args);
    let (text, wanted) = (args.text(0)?, args.text(1)?);
    let from = match args.has(2) {
        true => offset(&args)?,
        false => Some(text.len()),
    };
    let found = from.and_then(|from| {
        // What is found begins there or before it.
        let end = from.saturating_add(wanted.len()).min(text.len());
        text.get(..text.floor_char_boundary(end))?.rfind(wanted)
    });
    place_in(text, found)
}

fn index_of_element<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("indexOf", &args);
    let wanted = args.value(1)?;
    values::place(
        args.list(0)?
            .iter()
            .position(|element| element.equals(wanted)),
    )
}

fn last_index_of_element<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("lastIndexOf", &args);
    let wanted = args.value(1)?;
    values::place(
        args.list(0)?
            .iter()
            .rposition(|element| element.equals(wanted)),
    )
}

fn join<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("join", &args);
    let between = if args.has(1) { args.text(1)? } else { "" };
    let texts = args.texts(0)?;
    let gaps = texts.len().saturating_sub(1);
    let length: usize = texts.iter().map(|text| text.len()).sum();
    values::make(length.saturating_add(between.len().saturating_mul(gaps)))?;
    values::text(texts.join(between))
}

fn replace<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("replace", &args);
    let (text, old, new) = (args.text(0)?, args.text(1)?, args.text(2)?);
    let most = args.most(3)?;
    let found = text.matches(old).take(most).count();
    values::make(text.len().saturating_add(new.len().saturating_mul(found)))?;
    values::text(text.replacen(old, new, most))
}

/// Splits a text into at most so many parts. The last has the rest.
fn split<'b, 'v>(args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let args = Arguments::of("split", &args);
    let (text, between) = (args.text(0)?, args.text(1)?);
    let most = args.most(2)?;
    let parts = match between {
        "" => text.chars().count().min(most),
        between => text.matches(between).count().saturating_add(1).min(most),
    };
    values::hold_texts(text.len(), parts)?;
    let parts: Vec<&str> = match between {
        "" => characters_of(text, most),
        between => text.splitn(most, between).collect(),
    };
    values::texts_held(&parts)
}

fn characters_of(text: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while parts.len() < most
        && let Some(first) = rest.chars().next()
    {
        let is_last = parts.len().saturating_add(1) == most;
        let end = if is_last {
            rest.len()
        } else {
            first.len_utf8()
        };
        let (part, after) = rest.split_at(end);
        parts.push(part);
        rest = after;
    }
    parts
}
