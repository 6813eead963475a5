//! Inputs that the generator does not make yet, because apifront changes or loses
//! them. An entry is removed together with the fault that it names.

use super::exchange::Wire;
use super::generate::Trial;

struct LeftOut {
    what: &'static str,
    why: &'static str,
    applies: fn(&Trial) -> bool,
}

const LEFT_OUT: [LeftOut; 3] = [
    LeftOut {
        what: "GET whose body goes on after its answer, in HTTP/1.0 or of a log",
        why: "apifront reads the body to its end first, and gives up with a 413",
        applies: |trial| {
            let request = &trial.request;
            let path = request.target.split(|b| *b == b'?').next();
            let stays_open =
                request.wire == Wire::Http10 || path.is_some_and(|path| path.ends_with(b"/log"));
            trial.planned.is_early && stays_open && request.method == b"GET"
        },
    },
    LeftOut {
        what: "trailers",
        why: "they are lost",
        applies: |trial| {
            !trial.request.body.trailers.is_empty() || !trial.planned.trailers.is_empty()
        },
    },
    LeftOut {
        what: "informational answers",
        why: "they are lost where the answer comes over HTTP/2, and of streams",
        applies: |trial| !trial.planned.informational.is_empty(),
    },
];

pub fn is_left_out(trial: &Trial) -> bool {
    LEFT_OUT.iter().any(|left_out| (left_out.applies)(trial))
}

/// Returns the list as text for people.
pub fn listing() -> String {
    let entries = LEFT_OUT.iter();
    let lines = entries.map(|entry| format!("left out: {}: {}\n", entry.what, entry.why));
    lines.collect()
}
