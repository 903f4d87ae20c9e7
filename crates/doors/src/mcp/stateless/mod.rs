//! Clients without a session (2026-07-28). The `_meta` of each request describes the client. Over
//! HTTP, a client cancels a request by closing its stream.

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
