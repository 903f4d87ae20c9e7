//! Metrics of calls for `/metrics` and `GET /api/figures`. They are counted at the end of each
//! call, and read when a client requests them. For the past minutes they are read every five
//! seconds.
//!
//! A call looks up its tool once and then updates atomics that only calls of its server share. The
//! counts belong to their server and disappear with it. Metrics that other parts of Mainstay can
//! compute on request are not counted here (`rest::metrics`).

mod count;
mod figures;
mod histogram;
mod readings;
mod window;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mainstay_core::failure::FailureKind;

pub use self::{
    count::{CallEnd, Count},
    figures::{Figures, Series},
    histogram::{Histogram, HistogramReading},
    readings::Readings,
    window::{Point, Recent, STEP, Totals},
};

/// The error code of a result with `isError` set.
pub const TOOL_ERROR: &str = "tool_error";

/// Number of failures, by kind.
#[derive(Debug)]
pub struct Failures([AtomicU64; FailureKind::ALL.len()]);

impl Default for Failures {
    fn default() -> Self {
        Self([const { AtomicU64::new(0) }; FailureKind::ALL.len()])
    }
}

impl Failures {
    pub fn add(&self, kind: FailureKind) {
        self.0[kind as usize].fetch_add(1, Relaxed);
    }

    /// The kinds that occurred, with their numbers.
    pub fn read(&self) -> impl Iterator<Item = (FailureKind, u64)> {
        let counts = self.0.iter().map(|count| count.load(Relaxed));
        FailureKind::ALL
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
    }
}
