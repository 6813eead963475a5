//! The work of listing objects from memory, roughly. The figures are CPU time on
//! a core of a server, measured with `benches/widths.rs`.

use std::cmp::min;

/// A seat stands for this much work. kube-apiserver gives a list one seat for
/// each 100 KB that it loads, which take it about as long.
const NANOS_PER_SEAT: u64 = 1_000_000;

/// Reading a request, authorizing it and writing the head of the answer.
const REQUEST: u64 = 20_000;

/// Writing a KiB to the connection, with TLS.
const WRITTEN_KIB: u64 = 380;

/// Matching an object with a selector.
const SELECTED: u64 = 40;

/// Writing a row of a Table or a metadata object for this answer alone.
const ROW: u64 = 1_500;

/// The bytes of such a row.
const ROW_BYTES: usize = 3 << 10;

/// Compressing a KiB that was written for this answer alone.
const COMPRESSED_KIB: u64 = 850;

/// Converting a KiB of an object to YAML, and to indented JSON.
const YAML_KIB: u64 = 14_000;
const INDENTED_KIB: u64 = 2_000;

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
    Yaml,
    /// Indented JSON.
    Indented,
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
        let of_bytes = |bytes: usize, each_kib: u64| of(bytes >> 10, each_kib);
        // A page of selected objects may be found at once or at the end.
        let selected = match self.selects {
            true => of(self.objects, SELECTED),
            false => 0,
        };
        let bytes = match self.form {
            Form::Written => self
                .listed
                .saturating_mul(min(ROW_BYTES, self.object_bytes)),
            Form::Shared | Form::Yaml | Form::Indented => {
                self.listed.saturating_mul(self.object_bytes)
            }
        };
        let made = match self.form {
            Form::Shared => 0,
            Form::Written => of(self.listed, ROW),
            Form::Yaml => of_bytes(bytes, YAML_KIB),
            Form::Indented => of_bytes(bytes, INDENTED_KIB),
        };
        let compressed = match (self.compressed, self.form) {
            (false, _) | (true, Form::Shared) => 0,
            (true, Form::Written | Form::Yaml | Form::Indented) => of_bytes(bytes, COMPRESSED_KIB),
        };
        let written = match self.compressed {
            true => of_bytes(bytes, WRITTEN_KIB).checked_div(COMPRESSION),
            false => Some(of_bytes(bytes, WRITTEN_KIB)),
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
                form: Form::Indented,
                ..SHARED
            },
            Work {
                form: Form::Yaml,
                ..SHARED
            },
        ];
        let seats = order.map(Work::seats);
        assert!(seats.is_sorted(), "{seats:?}");
        assert_eq!(seats[1], 19);
    }

    /// Therefore a scope is not counted where the whole resource is one seat.
    #[test]
    fn more_objects_are_never_less_work() {
        for form in [Form::Shared, Form::Written, Form::Yaml, Form::Indented] {
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
            objects: 100_000,
            listed,
            selects,
            ..SHARED
        };
        assert_eq!(page(100, false).seats(), 1);
        assert_eq!(page(0, false).seats(), 1);
        // All objects may have to be looked at for the page.
        assert_eq!(page(100, true).seats(), 5);
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
