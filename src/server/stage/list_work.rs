//! Estimates the work of listing objects from memory, and how many seats it takes. The
//! figures are CPU time on one core of a server, measured with `benches/widths.rs`.

use std::cmp::min;

/// One seat stands for this much work. kube-apiserver gives a list one seat for each
/// 100 KB that it loads, and that takes it about this long.
const NANOS_PER_SEAT: u64 = 1_000_000;

/// The work of reading a request, authorizing it and writing the head of the answer.
const REQUEST_NANOS: u64 = 20_000;

/// The work of writing a KiB to the connection, with TLS.
const WRITTEN_KIB_NANOS: u64 = 380;

/// The work of matching an object with a selector.
const SELECTED_OBJECT_NANOS: u64 = 40;

/// The work of writing a row of a Table, or a metadata object, for one answer.
const ROW_NANOS: u64 = 1_500;

/// The most bytes of a row or a metadata object.
const MAX_ROW_BYTES: usize = 3 << 10;

/// The work of compressing a KiB that was written for one answer.
const COMPRESSED_KIB_NANOS: u64 = 850;

/// The work of converting a KiB of an object to YAML, and to indented JSON.
const YAML_KIB_NANOS: u64 = 14_000;
const INDENTED_KIB_NANOS: u64 = 2_000;

/// Bodies are compressed to about this part of their length.
const COMPRESSION_FACTOR: u64 = 6;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// The stored objects. Their bytes are shared, and their compressed form is
    /// kept.
    Shared,
    /// Table rows or metadata, which are made anew for each answer.
    Written,
    Yaml,
    /// Indented JSON.
    Indented,
}

/// The figures that the work depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// The objects of the scope.
    pub(super) objects: usize,
    /// The most objects of the scope that are listed.
    pub(super) listed: usize,
    /// The average size of an object.
    pub(super) object_bytes: usize,
    pub(super) selects: bool,
    pub(super) form: Form,
    pub(super) compressed: bool,
}

impl Work {
    pub(super) fn seats(self) -> u64 {
        self.nanos().div_ceil(NANOS_PER_SEAT).max(1)
    }

    fn nanos(self) -> u64 {
        let of = |number: usize, each: u64| {
            let number = u64::try_from(number).unwrap_or(u64::MAX);
            number.saturating_mul(each)
        };
        let of_bytes = |bytes: usize, each_kib: u64| of(bytes >> 10, each_kib);
        // The objects of a page may be found at the beginning or only at the end, so
        // all are counted.
        let selected = match self.selects {
            true => of(self.objects, SELECTED_OBJECT_NANOS),
            false => 0,
        };
        let bytes = match self.form {
            Form::Written => self
                .listed
                .saturating_mul(min(MAX_ROW_BYTES, self.object_bytes)),
            Form::Shared | Form::Yaml | Form::Indented => {
                self.listed.saturating_mul(self.object_bytes)
            }
        };
        let made = match self.form {
            Form::Shared => 0,
            Form::Written => of(self.listed, ROW_NANOS),
            Form::Yaml => of_bytes(bytes, YAML_KIB_NANOS),
            Form::Indented => of_bytes(bytes, INDENTED_KIB_NANOS),
        };
        let compressed = match (self.compressed, self.form) {
            (false, _) | (true, Form::Shared) => 0,
            (true, Form::Written | Form::Yaml | Form::Indented) => {
                of_bytes(bytes, COMPRESSED_KIB_NANOS)
            }
        };
        let written = match self.compressed {
            true => of_bytes(bytes, WRITTEN_KIB_NANOS).checked_div(COMPRESSION_FACTOR),
            false => Some(of_bytes(bytes, WRITTEN_KIB_NANOS)),
        };
        [selected, made, compressed, written.unwrap_or_default()]
            .into_iter()
            .fold(REQUEST_NANOS, u64::saturating_add)
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

    /// This is why a namespace is not counted if the whole resource takes one seat.
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
