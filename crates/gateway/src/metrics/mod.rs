//! Metrics of calls, for `/metrics` and `GET /api/figures`. A call is counted when it ends. The
//! counters are read on request, and every [`STEP`] for the windows of the last minutes.
//!
//! A call looks up its tool once. It then updates atomics that only calls of its server share. The
//! counts of a server are dropped with the server. `rest::metrics` computes the other metrics on
//! request.

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

/// The number of failures of each kind.
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

    /// The kinds that occurred, and the number of failures of each.
    pub fn read(&self) -> impl Iterator<Item = (FailureKind, u64)> {
        let counts = self.0.iter().map(|count| count.load(Relaxed));
        FailureKind::ALL
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
    }
}
