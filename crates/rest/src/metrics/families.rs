//! Writes families of samples with `prometheus-client`.

use std::fmt;

use mainstay_gateway::metrics::HistogramReading;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

pub static SECONDS: Unit = Unit::Seconds;
pub static BYTES: Unit = Unit::Bytes;

/// Writes families one after another. A name has neither the unit nor the suffix of the type.
pub struct Families<'a>(pub DescriptorEncoder<'a>);

impl Families<'_> {
    /// Starts a family. It may have no samples.
    pub fn family<'f>(
        &'f mut self,
        name: &'f str,
        help: &str,
        unit: Option<&'static Unit>,
        kind: MetricType,
    ) -> Result<MetricEncoder<'f>, fmt::Error> {
        self.0.encode_descriptor(name, help, unit, kind)
    }

    pub fn samples<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&'static Unit>,
        kind: SampleKind,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.family(name, help, unit, kind.into())?;
        for (labels, value) in values {
            kind.encode(value, family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// Writes a family with one sample without labels. `None` writes no sample.
    pub fn single(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&'static Unit>,
        kind: SampleKind,
        value: Option<u64>,
    ) -> fmt::Result {
        let family = self.family(name, help, unit, kind.into())?;
        value.map_or(Ok(()), |value| kind.encode(value, family))
    }
}

/// The type of a family whose samples are whole numbers.
#[derive(Clone, Copy, Debug)]
pub enum SampleKind {
    Counter,
    Gauge,
}

impl SampleKind {
    fn encode(self, value: u64, encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter => ConstCounter::new(value).encode(encoder),
            Self::Gauge => ConstGauge::new(value).encode(encoder),
        }
    }
}

impl From<SampleKind> for MetricType {
    fn from(kind: SampleKind) -> Self {
        match kind {
            SampleKind::Counter => Self::Counter,
            SampleKind::Gauge => Self::Gauge,
        }
    }
}

pub fn histogram(
    family: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    times: &HistogramReading,
) -> fmt::Result {
    family
        .encode_family(labels)?
        .encode_histogram::<NoLabelSet>(times.sum, times.count, &times.buckets, None)
}
