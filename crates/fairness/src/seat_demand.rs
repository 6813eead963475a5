//! How many seats a level could use, smoothed over minutes.

use crate::integrator::Moments;

/// The part of the smoothed demand that remains after a period of ten seconds. Its
/// half-life is five minutes.
const SMOOTHING_COEFFICIENT: f64 = 0.977;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct SeatDemand {
    pub average: f64,
    pub deviation: f64,
    pub high_watermark: usize,
    /// The demand, smoothed: it follows a rise at once and a fall slowly.
    pub smoothed: f64,
}

impl SeatDemand {
    pub(crate) fn update(&mut self, seen: Moments) {
        self.high_watermark = seen.highest.round() as usize;
        if seen.seconds <= 0.0 {
            return;
        }
        let deviation = if seen.deviation.is_nan() {
            0.0
        } else {
            seen.deviation
        };
        let envelope = seen.average + deviation;
        let fallen =
            SMOOTHING_COEFFICIENT * self.smoothed + (1.0 - SMOOTHING_COEFFICIENT) * envelope;
        self.average = seen.average;
        self.deviation = deviation;
        self.smoothed = envelope.max(fallen);
    }
}
