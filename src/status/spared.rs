//! An estimate of the CPU time that API servers and their etcd saved because answers
//! came from memory.

use serde::Serialize;

/// The CPU seconds that any read costs kube-apiserver and etcd, however small its
/// answer.
const READ_CPU_SECONDS: f64 = 1.1e-3;

/// The CPU seconds that each byte of an answer costs them. The benchmark `questions`
/// measures both prices.
const BYTE_CPU_SECONDS: f64 = 10e-9;

/// The factor by which a price may be larger or smaller on other machines, in other
/// encodings, or with compression.
const ERROR_FACTOR: f64 = 2.0;

/// CPU seconds since the start of the process.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spared {
    pub least: f64,
    pub estimate: f64,
    pub most: f64,
}

impl Spared {
    /// `answers` with `bytes` in total came from memory. To make them, upstream was
    /// asked `asked` times, which is subtracted.
    pub fn estimate(answers: u64, bytes: u64, asked: u64) -> Self {
        let saved = answers as f64 * READ_CPU_SECONDS + bytes as f64 * BYTE_CPU_SECONDS;
        let spent = asked as f64 * READ_CPU_SECONDS;
        Self {
            least: saved / ERROR_FACTOR - spent * ERROR_FACTOR,
            estimate: saved - spent,
            most: saved * ERROR_FACTOR - spent / ERROR_FACTOR,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn questions_are_charged() {
        let Spared {
            least,
            estimate,
            most,
        } = Spared::estimate(100, 1_000_000, 50);
        let close = |value: f64, expected: f64| (value - expected).abs() < 1e-9;
        assert!(close(estimate, 0.110 + 0.010 - 0.055), "{estimate}");
        assert!(close(least, 0.060 - 0.110), "{least}");
        assert!(close(most, 0.240 - 0.0275), "{most}");
        // An apifront that asks upstream for each answer saves nothing.
        assert!(Spared::estimate(10, 0, 10).estimate.abs() < 1e-9);
    }
}
