//! Recognizes times in plain text as go-yaml v2 does: with `time.Parse`, four
//! layouts, and the same tolerance.

use chrono::NaiveDate;

/// The unread rest of a time's text.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn digits(&mut self, most: usize) -> Option<u32> {
        let length = self.0.bytes().take(most).take_while(u8::is_ascii_digit);
        let (digits, rest) = self.0.split_at_checked(length.count())?;
        self.0 = rest;
        digits.parse().ok()
    }

    fn skip(&mut self, expected: char) -> Option<()> {
        self.0 = self.0.strip_prefix(expected)?;
        Some(())
    }
}

pub(super) fn is_timestamp(text: &str) -> bool {
    let year = text.bytes().take_while(u8::is_ascii_digit).count();
    if year != 4 || text.as_bytes().get(4) != Some(&b'-') {
        return false;
    }
    parse(Reader(text)).is_some()
}

fn parse(mut reader: Reader<'_>) -> Option<()> {
    let year = reader.digits(4)?;
    reader.skip('-')?;
    let month = reader.digits(2)?;
    reader.skip('-')?;
    let day = reader.digits(2)?;
    // Year 0 is a leap year for both Go and chrono.
    NaiveDate::from_ymd_opt(i32::try_from(year).ok()?, month, day)?;
    let separator = match reader.0.chars().next() {
        None => return Some(()),
        Some(separator) => separator,
    };
    let zoned = match separator {
        'T' | 't' => true,
        ' ' => false,
        _ => return None,
    };
    reader.skip(separator)?;
    if !zoned {
        reader.0 = reader.0.trim_start_matches(' ');
    }
    let hour = reader.digits(2)?;
    reader.skip(':')?;
    let minute = reader.digits(2)?;
    reader.skip(':')?;
    let second = reader.digits(2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    // A comma is accepted, too. Without digits there is no fraction.
    if let Some(fraction) = reader.0.strip_prefix(['.', ','])
        && fraction.starts_with(|c: char| c.is_ascii_digit())
    {
        reader.0 = fraction.trim_start_matches(|c: char| c.is_ascii_digit());
    }
    if zoned {
        zone(&mut reader)?;
    }
    reader.0.is_empty().then_some(())
}

/// Reads a zone: `Z` or `+01:30`.
fn zone(reader: &mut Reader<'_>) -> Option<()> {
    if reader.skip('Z').is_some() {
        return Some(());
    }
    let (zone, rest) = reader.0.split_at_checked(6)?;
    reader.0 = rest;
    let [b'+' | b'-', a, b, b':', c, d] = zone.as_bytes() else {
        return None;
    };
    let number = |tens: &u8, ones: &u8| {
        let tens = char::from(*tens).to_digit(10)?;
        let ones = char::from(*ones).to_digit(10)?;
        tens.checked_mul(10)?.checked_add(ones)
    };
    (number(a, b)? <= 24 && number(c, d)? <= 60).then_some(())
}
