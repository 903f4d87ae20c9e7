//! Figures of calls for `/metrics` and `GET /api/figures`. They are counted where calls end, and read when a scraper
//! asks; for the last minutes they are read every five seconds.
//!
//! A call looks its tool up once and then touches atomics that only calls of its server share. Figures
//! belong to their server and go with it. Figures that the rest of Mainstay can tell on request are not
//! counted here (`rest::metrics`).

mod count;
mod figures;
mod histogram;
mod readings;
mod window;

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mainstay_core::failure::FailureKind;

pub use self::{
    count::{Count, Ended},
    figures::{Figures, Series},
    histogram::{Histogram, Times},
    readings::Readings,
    window::{Point, Recent, STEP, Totals},
};

/// The code of a result that says it is an error.
pub const TOOL_ERROR: &str = "tool_error";

/// How often something failed, by the kind of failure.
#[derive(Debug, Default)]
pub struct Failures([AtomicU64; FailureKind::ALL.len()]);

impl Failures {
    pub fn add(&self, kind: FailureKind) {
        self.0[kind as usize].fetch_add(1, Relaxed);
    }

    /// The kinds that there were.
    pub fn read(&self) -> impl Iterator<Item = (FailureKind, u64)> {
        let counts = self.0.iter().map(|count| count.load(Relaxed));
        FailureKind::ALL
            .into_iter()
            .zip(counts)
            .filter(|(_, count)| *count > 0)
    }
}
