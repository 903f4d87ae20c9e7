//! The differences between protocol revisions: their features, and the translation of messages for
//! the other era. Expected texts come from the specification where it has any.

mod callers;
mod headers;
mod questions;
mod requests;
mod results;
mod revisions;
