//! Clients without a session (2026-07-28). The `_meta` of each request describes its client.
//! Closing the answer's stream cancels the request.

mod answer;
mod call;
pub mod context;
mod discovery;
mod listening;
pub mod pipe;
mod request;
pub mod suspended;
mod task_news;

pub use self::{
    answer::{admit, answer, refusal_text},
    call::StatelessCall,
};
