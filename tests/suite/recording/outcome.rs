//! The end of an exchange as its client sees it.

use super::exchange::Answered;
use super::fields;

#[derive(Clone, Debug)]
pub enum Outcome {
    Answer(Answered),
    /// The server reset the stream, with this code.
    Reset(u32),
    /// The server ended the connection without an answer.
    Closed,
    /// The client itself abandoned the request.
    GivenUp,
    /// Nothing arrived for a long time.
    Silence,
}

impl Outcome {
    pub fn answer(&self) -> Option<&Answered> {
        match self {
            Outcome::Answer(answered) => Some(answered),
            _ => None,
        }
    }

    pub fn shown(&self) -> String {
        let answered = match self {
            Outcome::Answer(answered) => answered,
            Outcome::Reset(code) => return format!("a reset with code {code}"),
            other => return format!("{other:?}"),
        };
        let mut text = format!("{}", answered.status);
        for field in &answered.fields {
            text += &format!(
                "\n  {}:{}",
                fields::shown(&field.name),
                fields::shown(&field.raw)
            );
        }
        text + &format!(
            "\n  whole: {}, {}",
            answered.content.is_whole,
            fields::shown(&answered.content.body)
        )
    }
}
