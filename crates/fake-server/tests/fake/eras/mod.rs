//! Tests of revisions and the differences between them.

mod headers;
mod http;
mod legacy;
mod questions;
mod stdio;
mod subscriptions;
mod tasks;
