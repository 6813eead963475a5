//! The arguments and results of functions.

use std::collections::HashMap;

use cel::common::types::{
    CelBool, CelBytes, CelDouble, CelInt, CelList, CelMap, CelMapKey, CelOptional, CelString,
};
use cel::common::value::{CowVal, FromVal, Val};
use cel::{ExecutionError, Value};

use super::super::meter;
use super::opaque::{Opaque, OpaqueType};
use crate::quantity::Quantity;

pub(in super::super) type Called<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Parsing takes about so many times the time of reading.
const PARSED: usize = 8;

/// About the memory of a value beside the texts in it.
pub(super) const VALUE_BYTES: u64 = 48;

pub(in super::super) fn no_overload(function: &str, args: &[CowVal<'_, '_>]) -> ExecutionError {
    let types = args.iter().map(|arg| arg.get_type().name().to_owned());
    ExecutionError::no_such_overload(function, types.collect())
}

/// Returns the only argument.
pub(in super::super) fn argument<'b, 'v>(mut args: Vec<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let value = args.pop();
    value.ok_or_else(|| ExecutionError::invalid_argument_count(1, 0))
}

/// The arguments of a call.
pub(super) struct Arguments<'a, 'b, 'v>(&'static str, &'a [CowVal<'b, 'v>]);

impl<'a, 'b, 'v> Arguments<'a, 'b, 'v> {
    pub(super) fn of(function: &'static str, args: &'a [CowVal<'b, 'v>]) -> Self {
        Self(function, args)
    }

    pub(super) fn value(&self, at: usize) -> Result<&'a (dyn Val + 'v), ExecutionError> {
        let arg = self.1.get(at);
        let arg = arg.ok_or_else(|| no_overload(self.0, self.1))?;
        Ok(arg.as_ref())
    }

    fn of_type<T: FromVal<'a, 'v>>(&self, at: usize) -> Result<&'a T, ExecutionError> {
        let value = T::from_val(self.value(at)?);
        value.ok_or_else(|| no_overload(self.0, self.1))
    }

    /// Returns a text, and spends the cost of reading it.
    pub(super) fn text(&self, at: usize) -> Result<&'a str, ExecutionError> {
        let text = self.of_type::<CelString<'v>>(at)?.inner();
        meter::read(text.len())?;
        Ok(text)
    }

    /// Returns a text, and spends the cost of parsing it.
    pub(super) fn parsed_text(&self, at: usize) -> Result<&'a str, ExecutionError> {
        let text = self.text(at)?;
        meter::read(text.len().saturating_mul(PARSED))?;
        Ok(text)
    }

    pub(super) fn int(&self, at: usize) -> Result<i64, ExecutionError> {
        self.of_type::<CelInt>(at).map(|int| *int.inner())
    }

    pub(super) fn bool(&self, at: usize) -> Result<bool, ExecutionError> {
        self.of_type::<CelBool>(at).map(|bool| *bool.inner())
    }

    pub(super) fn has(&self, at: usize) -> bool {
        self.1.len() > at
    }

    /// Returns how often something is done at most. Without the argument, or with a
    /// negative one, that is any number of times.
    pub(super) fn most(&self, at: usize) -> Result<usize, ExecutionError> {
        let most = if self.has(at) { self.int(at)? } else { -1 };
        Ok(usize::try_from(most).unwrap_or(usize::MAX))
    }

    pub(super) fn failed(&self, error: impl ToString) -> ExecutionError {
        failed(self.0, error)
    }

    pub(super) fn opaque<T: OpaqueType>(&self, at: usize) -> Result<&'a T, ExecutionError> {
        self.of_type::<Opaque<T>>(at).map(|opaque| &opaque.0)
    }

    /// Returns the elements of a list of texts.
    pub(super) fn texts(&self, at: usize) -> Result<Vec<&'a str>, ExecutionError> {
        let texts = self.list(at)?.iter().map(|element| {
            let text = element.downcast_ref::<CelString<'v>>();
            let text = text.ok_or_else(|| no_overload(self.0, self.1))?;
            Ok(text.inner())
        });
        texts.collect()
    }

    /// Returns the elements of a list, and spends the cost of reading them.
    pub(super) fn list(&self, at: usize) -> Result<&'a [Box<dyn Val + 'v>], ExecutionError> {
        let list = self.of_type::<CelList<'v>>(at)?.inner();
        meter::read(list.len().saturating_mul(8))?;
        Ok(list)
    }
}

pub(super) fn text<'b, 'v>(text: impl Into<String>) -> Called<'b, 'v> {
    Ok(CowVal::owned(CelString::from(text.into())))
}

pub(super) fn bool<'b, 'v>(value: bool) -> Called<'b, 'v> {
    Ok(CowVal::owned(CelBool::from(value)))
}

pub(super) fn int<'b, 'v>(value: i64) -> Called<'b, 'v> {
    Ok(CowVal::owned(CelInt::from(value)))
}

pub(super) fn double<'b, 'v>(value: f64) -> Called<'b, 'v> {
    Ok(CowVal::owned(CelDouble::from(value)))
}

/// Makes an optional value.
pub(super) fn optional<'b, 'v>(value: Option<CowVal<'b, 'v>>) -> Called<'b, 'v> {
    let value = value.map(CowVal::into_owned);
    Ok(CowVal::owned(CelOptional::from(value)))
}

/// Makes a list of texts, and holds its memory.
pub(super) fn texts<'b, 'v>(texts: &[&str]) -> Called<'b, 'v> {
    hold_texts(texts.iter().map(|text| text.len()).sum(), texts.len())?;
    texts_held(texts)
}

/// Holds the memory of so many texts, with so many bytes in all.
pub(super) fn hold_texts(bytes: usize, texts: usize) -> Result<(), ExecutionError> {
    meter::hold(sum(bytes, texts))
}

/// Makes a list of texts whose memory is held already.
pub(super) fn texts_held<'b, 'v>(texts: &[&str]) -> Called<'b, 'v> {
    Ok(CowVal::owned(list(texts)))
}

fn list<'v>(texts: &[&str]) -> CelList<'v> {
    let texts = texts.iter().map(|text| {
        let text: Box<dyn Val> = Box::new(CelString::from((*text).to_owned()));
        text
    });
    CelList::from(texts.collect::<Vec<_>>())
}

/// Makes a map of lists of texts whose memory is held already.
pub(super) fn map_held<'b, 'v>(lists: HashMap<&str, Vec<&str>>) -> Called<'b, 'v> {
    let lists = lists.into_iter().map(|(key, texts)| {
        let texts: Box<dyn Val + 'v> = Box::new(list(&texts));
        (CelMapKey::from(key.to_owned()), texts)
    });
    let map: HashMap<CelMapKey<'v>, Box<dyn Val + 'v>> = lists.collect();
    Ok(CowVal::owned(CelMap::from(map)))
}

/// Returns the place of an element, which is -1 if there is none.
pub(super) fn place<'b, 'v>(at: Option<usize>) -> Called<'b, 'v> {
    int(at.map_or(-1, |at| i64::try_from(at).unwrap_or(i64::MAX)))
}

pub(super) fn failed(function: &str, error: impl ToString) -> ExecutionError {
    ExecutionError::function_error(function, error)
}

/// Returns the value of an expression. Beyond what Kubernetes allows, it may be a
/// quantity, which is its number, and an optional value.
pub(in super::super) fn result(value: &dyn Val) -> Result<Value, ExecutionError> {
    if let Some(quantity) = value.downcast_ref::<Opaque<Quantity>>() {
        return Ok(quantity.0.to_number());
    }
    if let Some(optional) = value.downcast_ref::<CelOptional<'_>>() {
        return optional.option().map_or(Ok(Value::Null), result);
    }
    Value::try_from(value).map_err(|error| match error {
        ExecutionError::UnexpectedType { got, .. } => {
            ExecutionError::InternalError(format!("a {got} is no result"))
        }
        other => other,
    })
}

fn sum(bytes: usize, values: usize) -> u64 {
    let values = u64::try_from(values).unwrap_or(u64::MAX);
    let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
    bytes.saturating_add(values.saturating_mul(VALUE_BYTES))
}

/// Holds the memory of a copy of a value.
pub(in super::super) fn hold(value: &dyn Val) -> Result<(), ExecutionError> {
    meter::hold(held_bytes(value, meter::holdable()))
}

/// Spends the cost of a text of this length, unless it is too long.
pub(super) fn make(length: usize) -> Result<(), ExecutionError> {
    meter::make(u64::try_from(length).unwrap_or(u64::MAX))
}

/// Returns about the memory of a value, or any number above `limit` if it is more.
pub(super) fn held_bytes(value: &dyn Val, limit: u64) -> u64 {
    let mut bytes = VALUE_BYTES;
    let add = |bytes: &mut u64, value: &dyn Val| {
        let more = held_bytes(value, limit.saturating_sub(*bytes));
        *bytes = bytes.saturating_add(more);
        *bytes <= limit
    };
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        bytes = sum(text.inner().len(), 1);
    } else if let Some(value) = value.downcast_ref::<CelBytes<'_>>() {
        bytes = sum(value.inner().len(), 1);
    } else if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        let mut elements = list.inner().iter();
        elements.all(|element| add(&mut bytes, element.as_ref()));
    } else if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        for (key, element) in map.inner() {
            if !add(&mut bytes, key.inner()) || !add(&mut bytes, element.as_ref()) {
                break;
            }
        }
    } else if let Some(optional) = value.downcast_ref::<CelOptional<'_>>()
        && let Some(value) = optional.option()
    {
        add(&mut bytes, value);
    }
    bytes
}
