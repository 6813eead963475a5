//! `includeObject`: the part of its object that each row of a Table carries.

use crate::api::{Query, query::go_quote};

/// The part of its object that each row of a Table carries
/// (`metav1.IncludeObjectPolicy`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum IncludeObject {
    /// The row carries `null`.
    None,
    /// The row carries the PartialObjectMetadata.
    #[default]
    Metadata,
    /// The row carries the whole object.
    Object,
}

impl IncludeObject {
    /// Reads the parameter. The error is the message of a `400 BadRequest`.
    pub fn from_query(query: &Query) -> Result<Self, String> {
        match query.get("includeObject").unwrap_or_default() {
            "" | "Metadata" => Ok(Self::Metadata),
            "None" => Ok(Self::None),
            "Object" => Ok(Self::Object),
            other => Err(format!(
                "Unable to convert to Table as requested: includeObject: Invalid value: {}: \
                 must be 'Metadata', 'Object', 'None', or empty",
                go_quote(other)
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        let parse = |raw| IncludeObject::from_query(&Query::parse(raw));
        assert_eq!(parse(""), Ok(IncludeObject::Metadata));
        assert_eq!(parse("includeObject=Object"), Ok(IncludeObject::Object));
        assert_eq!(
            parse("includeObject=x").unwrap_err(),
            "Unable to convert to Table as requested: includeObject: Invalid value: \"x\": \
             must be 'Metadata', 'Object', 'None', or empty"
        );
    }
}
