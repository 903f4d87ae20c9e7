//! Requests that wait for a retry.

use serde_json::Value;

/// The request that a `requestState` belongs to.
#[derive(Clone)]
pub(crate) struct PendingRequest {
    /// Raw id of the last attempt.
    pub(super) id: String,
    /// Method and params, without the members that a retry may change.
    pub(super) request: (String, Value),
    pub(super) round: usize,
    /// Answers by key, raw.
    pub(super) answers: Vec<(&'static str, String)>,
}
