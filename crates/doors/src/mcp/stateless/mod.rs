//! Clients without a session (2026-07-28). `_meta` of each request describes its client, and each
//! request is a scope of its own. A request is cancelled when the stream of its answer is closed.

mod answer;
mod call;
pub mod context;
mod discovery;
mod listening;
pub mod pipe;
pub mod suspended;
mod task_news;

pub use self::{
    answer::{admit, answer, refusal_text},
    call::Call,
};
