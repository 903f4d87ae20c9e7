//! Requests that wait for the next round of answers.

use serde_json::Value;

/// The request behind one `requestState`.
#[derive(Clone)]
pub(crate) struct PendingRequest {
    /// Raw id of the request that was answered with it.
    pub(super) id: String,
    /// Method and params of that request, without what each retry may change.
    pub(super) request: (String, Value),
    pub(super) round: usize,
    /// Answers by key, raw.
    pub(super) answers: Vec<(&'static str, String)>,
}
