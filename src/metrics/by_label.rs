//! The series of a metric with one label of few values, looked up once. Looking one up
//! takes a lock that all cores share, and more time than counting.

use std::fmt::{Debug, Formatter};
use std::sync::{Arc, OnceLock};

use prometheus::{
    Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, Opts, Registry,
};

/// A series is made at its first use, so that none is shown before.
#[derive(Clone)]
pub struct ByLabel<M> {
    find: Arc<dyn Fn(&str) -> M + Send + Sync>,
    values: &'static [&'static str],
    found: Arc<[OnceLock<M>]>,
}

impl ByLabel<IntCounter> {
    pub fn counters(
        registry: &Registry,
        options: Opts,
        label: &str,
        values: &'static [&'static str],
    ) -> prometheus::Result<Self> {
        let all = IntCounterVec::new(options, &[label])?;
        registry.register(Box::new(all.clone()))?;
        Ok(Self::new(values, move |value| {
            all.with_label_values(&[value])
        }))
    }
}

impl ByLabel<Histogram> {
    pub fn histograms(
        registry: &Registry,
        options: HistogramOpts,
        label: &str,
        values: &'static [&'static str],
    ) -> prometheus::Result<Self> {
        let all = HistogramVec::new(options, &[label])?;
        registry.register(Box::new(all.clone()))?;
        Ok(Self::new(values, move |value| {
            all.with_label_values(&[value])
        }))
    }
}

impl<M> ByLabel<M> {
    fn new(
        values: &'static [&'static str],
        find: impl Fn(&str) -> M + Send + Sync + 'static,
    ) -> Self {
        Self {
            find: Arc::new(find),
            values,
            found: values.iter().map(|_| OnceLock::new()).collect(),
        }
    }

    /// Calls `count` with the series of this value.
    pub fn with(&self, value: &str, count: impl FnOnce(&M)) {
        let at = self.values.iter().position(|known| *known == value);
        match at.and_then(|at| self.found.get(at)) {
            Some(series) => count(series.get_or_init(|| (self.find)(value))),
            None => count(&(self.find)(value)),
        }
    }
}

impl<M> Debug for ByLabel<M> {
    fn fmt(&self, out: &mut Formatter<'_>) -> std::fmt::Result {
        self.values.fmt(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_shown_when_it_is_used() {
        let registry = Registry::new();
        let options = Opts::new("things", "Things.");
        let things = ByLabel::counters(&registry, options, "kind", &["known", "unused"]).unwrap();
        let shown = || {
            let families = registry.gather();
            let series = families.iter().flat_map(|family| family.get_metric());
            let value = series.map(|series| {
                let kind = series.get_label()[0].value().to_owned();
                (kind, series.get_counter().get_value())
            });
            value.collect::<Vec<_>>()
        };
        assert_eq!(shown(), []);
        for value in ["known", "known", "other"] {
            things.with(value, IntCounter::inc);
        }
        let expected = [("known".to_owned(), 2.0), ("other".to_owned(), 1.0)];
        assert_eq!(shown(), expected);
    }
}
