//! A histogram that was counted elsewhere, as a metric.

use prometheus_client::encoding::{EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::{MetricType, TypedMetric};
use relay::histogram::Histogram;
use std::sync::OnceLock;

/// What was counted, once it is set.
#[derive(Debug, Clone, Default)]
pub(super) struct Distribution(OnceLock<Histogram>);

impl Distribution {
    /// Takes what was counted.
    pub(super) fn set(&self, histogram: &Histogram) {
        // Each has one label set, and each label set is met once.
        let _ = self.0.set(histogram.clone());
    }
}

impl TypedMetric for Distribution {
    const TYPE: MetricType = MetricType::Histogram;
}

impl EncodeMetric for Distribution {
    fn encode(&self, mut encoder: MetricEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(histogram) = self.0.get() else { return Ok(()) };
        let bound = |bound: Option<units::Duration>| bound.map_or(f64::INFINITY, units::Duration::as_secs_f64);
        let buckets: Vec<_> = histogram.buckets().map(|(upper, count)| (bound(upper), count)).collect();
        let (sum, count) = (histogram.sum().as_secs_f64(), histogram.count());
        encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)
    }

    fn metric_type(&self) -> MetricType {
        Self::TYPE
    }
}
