//! Header fields with the exact octets on the wire.

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: Vec<u8>,
    /// The octets between the colon and the end of the line, including the spaces
    /// around the value, and `\r\n` where the value is folded.
    pub raw: Vec<u8>,
}

pub type Fields = Vec<Field>;

impl Field {
    pub fn new(name: impl AsRef<[u8]>, raw: impl AsRef<[u8]>) -> Self {
        Self {
            name: name.as_ref().to_vec(),
            raw: raw.as_ref().to_vec(),
        }
    }

    pub fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name.as_bytes())
    }

    /// Returns the value as every server reads it: without the spaces around it, and
    /// with one space for each fold (RFC 9112, 5.2).
    pub fn value(&self) -> Vec<u8> {
        let lines = self.raw.split(|byte| *byte == b'\n');
        let parts: Vec<&[u8]> = lines.map(trimmed).collect();
        trimmed(&parts.join(&b' ')).to_vec()
    }
}

fn trimmed(bytes: &[u8]) -> &[u8] {
    let space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r');
    let Some(from) = bytes.iter().position(|byte| !space(byte)) else {
        return &[];
    };
    let to = bytes.iter().rposition(|byte| !space(byte)).unwrap_or(from);
    &bytes[from..=to]
}

/// Returns the values of all fields with this name, in order.
pub fn values(fields: &[Field], name: &str) -> Vec<Vec<u8>> {
    let found = fields.iter().filter(|field| field.is(name));
    found.map(Field::value).collect()
}

pub fn first(fields: &[Field], name: &str) -> Option<Vec<u8>> {
    values(fields, name).into_iter().next()
}

/// Returns the members of a list that may span several fields, in lower case.
pub fn tokens(fields: &[Field], name: &str) -> Vec<String> {
    let values = values(fields, name);
    let members = values.iter().flat_map(|value| value.split(|b| *b == b','));
    let texts = members.map(|member| String::from_utf8_lossy(trimmed(member)).to_lowercase());
    texts.filter(|text| !text.is_empty()).collect()
}

/// Returns octets as text that fits into a test's source.
pub fn shown(bytes: &[u8]) -> String {
    const SHOWN: usize = 300;
    let begin = bytes.get(..SHOWN).unwrap_or(bytes).escape_ascii();
    match bytes.len() {
        0..=SHOWN => begin.to_string(),
        length => format!("{begin}… ({length} octets)"),
    }
}
