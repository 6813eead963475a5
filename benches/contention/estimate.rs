//! Estimates the requests per second on more cores from counts on two.

/// The cost of a request.
pub struct Cost {
    /// With all lines at hand, in microseconds.
    pub own: f64,
    /// Lines that come from another core.
    pub passed: f64,
    /// How often each line is asked for that all requests share.
    pub shared: Vec<f64>,
}

impl Cost {
    /// Returns the requests per second on so many cores, if a line takes `micros` to
    /// come, and comes to one core at a time.
    ///
    /// With one core none comes. With more, requests that follow one another are seldom
    /// on the same core.
    pub fn rate(&self, cores: f64, micros: f64) -> f64 {
        let elsewhere = (cores - 1.0) / cores;
        let micros = micros * elsewhere;
        // A core waits longer for a line the more of the time others use it.
        let waits = |rate: f64| -> f64 {
            let wait = |each: &f64| {
                let in_use = (rate * each * micros).min(0.999_9);
                each * micros * in_use / (1.0 - in_use)
            };
            self.shared.iter().map(wait).sum()
        };
        let cpu = |rate: f64| self.own + self.passed * micros + waits(rate);
        // Requests per microsecond: at the right rate, all cores are busy.
        let (mut low, mut high) = (0.0, cores / self.own);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            match middle * cpu(middle) < cores {
                true => low = middle,
                false => high = middle,
            }
        }
        low * 1e6
    }
}
