//! Reads numbers with a unit or a range.

use std::{ops::RangeInclusive, time::Duration};

use crate::{
    read::{node::Node, report::FindingReport},
    words::schema::{Least, ValueShape},
};

/// Maximum of a time. Nobody waits longer, and much longer times would overflow clocks.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Minimum of a limit without a warning. A shorter limit for a call or a start is probably in the wrong
/// unit.
const LEAST_LIMIT: Duration = Duration::from_secs(1);

impl Node<'_> {
    /// Reads a time above zero.
    pub fn milliseconds(&self, report: &mut FindingReport<'_>) -> Option<Duration> {
        self.is_read(|shape| matches!(shape, ValueShape::Time(Least::AboveZero)));
        self.above_zero(report)
    }

    /// Reads a limit for a call or a start, and warns if it is implausibly short.
    pub fn limit(&self, report: &mut FindingReport<'_>) -> Option<Duration> {
        let limit = self.milliseconds(report)?;
        self.warn_of_short_limit(limit, "milliseconds", report);
        Some(limit)
    }

    /// Warns about a limit below a second, whose number is probably not in `unit`.
    pub fn warn_of_short_limit(&self, limit: Duration, unit: &str, report: &mut FindingReport<'_>) {
        if limit < LEAST_LIMIT {
            let message = format!("{} ms is too short for most servers", limit.as_millis());
            let hint = format!("the number is in {unit}");
            report.warn_with_hint(&self.place, message, Some(hint));
        }
    }

    fn above_zero(&self, report: &mut FindingReport<'_>) -> Option<Duration> {
        let milliseconds = self.written_milliseconds(report)?;
        self.seconds(milliseconds / 1000.0, report)
    }

    /// Reads a time that may be zero.
    pub fn milliseconds_or_zero(&self, report: &mut FindingReport<'_>) -> Option<Duration> {
        self.is_read(|shape| matches!(shape, ValueShape::Time(Least::Of(0))));
        let milliseconds = self.written_milliseconds(report)?;
        let time = Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
        let time = time.filter(|time| *time <= LONGEST);
        if time.is_none() {
            let message = "expected a time of at least 0 and at most a year";
            report.error(&self.place, message);
        }
        time
    }

    /// Reads a time of at least `least`.
    pub fn milliseconds_from(
        &self,
        least: Duration,
        report: &mut FindingReport<'_>,
    ) -> Option<Duration> {
        let is_least = |milliseconds: u32| u128::from(milliseconds) == least.as_millis();
        self.is_read(|shape| matches!(shape, ValueShape::Time(Least::Of(time)) if is_least(*time)));
        let time = self.above_zero(report)?;
        if time < least {
            let message = format!("expected at least {} ms", least.as_millis());
            report.error(&self.place, message);
            return None;
        }
        Some(time)
    }

    /// Converts seconds to a duration. Zero and more than a year are errors.
    pub fn seconds(&self, seconds: f64, report: &mut FindingReport<'_>) -> Option<Duration> {
        let time = Duration::try_from_secs_f64(seconds).ok();
        let time = time.filter(|time| !time.is_zero() && *time <= LONGEST);
        if time.is_none() {
            let message = "expected a time greater than 0 and of at most a year";
            report.error(&self.place, message);
        }
        time
    }

    fn written_milliseconds(&self, report: &mut FindingReport<'_>) -> Option<f64> {
        let number = self.as_number();
        if number.is_none() {
            let message = format!("expected milliseconds, found {}", self.kind());
            report.error(&self.place, message);
        }
        number
    }

    /// Reads a whole number. A number above `u32::MAX` becomes `u32::MAX`.
    pub fn count(&self, report: &mut FindingReport<'_>, least: u32) -> Option<u32> {
        let number = self.whole(report, least, None)?;
        Some(u32::try_from(number).unwrap_or(u32::MAX))
    }

    /// Reads a number within `range`. `words` describe the range in errors.
    pub fn number(
        &self,
        range: RangeInclusive<f64>,
        words: &str,
        report: &mut FindingReport<'_>,
    ) -> Option<f64> {
        let is_range = |least: f64, most: f64| {
            range.start().total_cmp(&least).is_eq() && range.end().total_cmp(&most).is_eq()
        };
        self.is_read(
            |shape| matches!(shape, ValueShape::Number(least, most) if is_range(*least, *most)),
        );
        let number = self.as_number().filter(|number| range.contains(number));
        if number.is_none() {
            report.error(&self.place, format!("expected a number {words}"));
        }
        number
    }
}
