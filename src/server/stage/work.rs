//! The work of listing objects from memory, roughly. The figures are CPU time on
//! a core of a server, measured with `benches/widths.rs`.

use std::cmp::min;

/// A seat stands for this much work. kube-apiserver gives a list one seat for
/// each 100 KB that it loads, which take it about as long.
const NANOS_PER_SEAT: u64 = 1_000_000;

/// Reading a request, authorizing it and writing the head of the answer.
const REQUEST: u64 = 20_000;

/// Writing a byte to the connection, with TLS.
const WRITTEN_BYTE: u64 = 1;

/// Matching an object with a selector.
const SELECTED: u64 = 150;

/// Writing a row of a Table or a metadata object for this answer alone.
const ROW: u64 = 4_000;

/// The bytes of such a row.
const ROW_BYTES: usize = 3 << 10;

/// Compressing a byte that was written for this answer alone.
const COMPRESSED_BYTE: u64 = 4;

/// Converting a byte to YAML or indented JSON.
const CONVERTED_BYTE: u64 = 16;

/// Bodies are compressed to about this part of their length.
const COMPRESSION: u64 = 6;

/// The form of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The stored objects, whose bytes are shared. Their compressed form is
    /// kept, too.
    Shared,
    /// Table rows or metadata, which are made anew for each answer.
    Written,
    /// YAML or indented JSON.
    Converted,
}

/// What the work depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// The objects of the scope.
    pub(super) objects: usize,
    /// The most objects that are listed of them.
    pub(super) listed: usize,
    /// The average size of an object.
    pub(super) object_bytes: usize,
    pub(super) selects: bool,
    pub(super) form: Form,
    pub(super) compressed: bool,
}

impl Work {
    /// Returns the seats of the work, at least one.
    pub(super) fn seats(self) -> u64 {
        self.nanos().div_ceil(NANOS_PER_SEAT).max(1)
    }

    fn nanos(self) -> u64 {
        let of = |number: usize, each: u64| {
            let number = u64::try_from(number).unwrap_or(u64::MAX);
            number.saturating_mul(each)
        };
        // A page of selected objects may be found at once or at the end.
        let selected = match self.selects {
            true => of(self.objects, SELECTED),
            false => 0,
        };
        let bytes = match self.form {
            Form::Written => self
                .listed
                .saturating_mul(min(ROW_BYTES, self.object_bytes)),
            Form::Shared | Form::Converted => self.listed.saturating_mul(self.object_bytes),
        };
        let made = match self.form {
            Form::Shared => 0,
            Form::Written => of(self.listed, ROW),
            Form::Converted => of(bytes, CONVERTED_BYTE),
        };
        let compressed = match (self.compressed, self.form) {
            (false, _) | (true, Form::Shared) => 0,
            (true, Form::Written | Form::Converted) => of(bytes, COMPRESSED_BYTE),
        };
        let written = match self.compressed {
            true => of(bytes, WRITTEN_BYTE).checked_div(COMPRESSION),
            false => Some(of(bytes, WRITTEN_BYTE)),
        };
        [selected, made, compressed, written.unwrap_or_default()]
            .into_iter()
            .fold(REQUEST, u64::saturating_add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHARED: Work = Work {
        objects: 10_000,
        listed: 10_000,
        object_bytes: 5_000,
        selects: false,
        form: Form::Shared,
        compressed: false,
    };

    #[test]
    fn what_is_made_for_one_answer_takes_more_seats() {
        let written = Work {
            form: Form::Written,
            ..SHARED
        };
        let compressed = |work| Work {
            compressed: true,
            ..work
        };
        let order = [
            compressed(SHARED),
            SHARED,
            written,
            compressed(written),
            Work {
                form: Form::Converted,
                ..SHARED
            },
        ];
        let seats = order.map(Work::seats);
        assert!(seats.is_sorted(), "{seats:?}");
        assert_eq!(seats[1], 51);
    }

    /// Therefore a scope is not counted where the whole resource is one seat.
    #[test]
    fn more_objects_are_never_less_work() {
        for form in [Form::Shared, Form::Written, Form::Converted] {
            for (selects, compressed) in [(false, false), (true, false), (true, true)] {
                let of = |objects| Work {
                    objects,
                    listed: objects,
                    selects,
                    form,
                    compressed,
                    ..SHARED
                };
                let seats = [0, 1, 10, 100, 1_000, 10_000].map(|objects| of(objects).seats());
                assert!(
                    seats.is_sorted(),
                    "{form:?} {selects} {compressed}: {seats:?}"
                );
            }
        }
    }

    #[test]
    fn pages_and_small_scopes_take_one_seat() {
        let page = |listed, selects| Work {
            listed,
            selects,
            ..SHARED
        };
        assert_eq!(page(100, false).seats(), 1);
        assert_eq!(page(0, false).seats(), 1);
        // All objects may have to be looked at for the page.
        assert_eq!(page(100, true).seats(), 3);
        let most = Work {
            objects: usize::MAX,
            listed: usize::MAX,
            object_bytes: usize::MAX,
            selects: true,
            form: Form::Written,
            compressed: true,
        };
        assert_eq!(most.seats(), u64::MAX.div_ceil(NANOS_PER_SEAT));
    }
}
