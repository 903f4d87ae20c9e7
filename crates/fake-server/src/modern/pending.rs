//! What the server remembers between two rounds of questions.

use serde_json::Value;

/// What one `requestState` stands for.
#[derive(Clone)]
pub(crate) struct Pending {
    /// Raw id of the request that was answered with it.
    pub(super) id: String,
    /// Method and params of that request, without what each retry may change.
    pub(super) asked: (String, Value),
    pub(super) round: usize,
    /// By key, raw.
    pub(super) answers: Vec<(&'static str, String)>,
}
