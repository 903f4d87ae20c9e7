//! Families of samples, as `prometheus-client` writes them.

use std::fmt;

use mainstay_gateway::metrics::Times;
use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

pub static SECONDS: Unit = Unit::Seconds;
pub static BYTES: Unit = Unit::Bytes;

/// Writes one family after the other. Names are without the unit and what a type adds.
pub struct Families<'a>(pub DescriptorEncoder<'a>);

impl Families<'_> {
    /// A family, which need not have samples.
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
        kind: Kind,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.family(name, help, unit, kind.into())?;
        for (labels, value) in values {
            kind.encode(value, family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// One without labels, if there is one.
    pub fn single(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&'static Unit>,
        kind: Kind,
        value: Option<u64>,
    ) -> fmt::Result {
        let family = self.family(name, help, unit, kind.into())?;
        value.map_or(Ok(()), |value| kind.encode(value, family))
    }
}

/// What a whole number tells.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Counter,
    Gauge,
}

impl Kind {
    fn encode(self, value: u64, encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter => ConstCounter::new(value).encode(encoder),
            Self::Gauge => ConstGauge::new(value).encode(encoder),
        }
    }
}

impl From<Kind> for MetricType {
    fn from(kind: Kind) -> Self {
        match kind {
            Kind::Counter => Self::Counter,
            Kind::Gauge => Self::Gauge,
        }
    }
}

pub fn histogram(
    family: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    times: &Times,
) -> fmt::Result {
    family
        .encode_family(labels)?
        .encode_histogram::<NoLabelSet>(times.sum, times.count, &times.buckets, None)
}
