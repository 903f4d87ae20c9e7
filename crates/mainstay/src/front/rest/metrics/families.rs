//! Families of samples, as `prometheus-client` writes them.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric, MetricEncoder, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};

use crate::metrics::Histogram;

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

    pub fn counter<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&'static Unit>,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.family(name, help, unit, MetricType::Counter)?;
        for (labels, value) in values {
            ConstCounter::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }

    /// A counter without labels.
    pub fn total(&mut self, name: &str, help: &str, value: Option<u64>) -> fmt::Result {
        let family = self.family(name, help, None, MetricType::Counter)?;
        value.map_or(Ok(()), |value| ConstCounter::new(value).encode(family))
    }

    /// A gauge without labels.
    pub fn level(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&'static Unit>,
        value: Option<u64>,
    ) -> fmt::Result {
        let family = self.family(name, help, unit, MetricType::Gauge)?;
        value.map_or(Ok(()), |value| ConstGauge::new(value).encode(family))
    }

    pub fn gauge<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<&'static Unit>,
        values: impl IntoIterator<Item = (L, u64)>,
    ) -> fmt::Result {
        let mut family = self.family(name, help, unit, MetricType::Gauge)?;
        for (labels, value) in values {
            ConstGauge::new(value).encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

pub fn histogram(
    family: &mut MetricEncoder<'_>,
    labels: &impl EncodeLabelSet,
    histogram: &Histogram,
) -> fmt::Result {
    let times = histogram.read();
    family
        .encode_family(labels)?
        .encode_histogram::<NoLabelSet>(times.sum, times.count, &times.buckets, None)
}
