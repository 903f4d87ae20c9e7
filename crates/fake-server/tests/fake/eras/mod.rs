//! The revisions a fake can be pinned to, and the differences between them.

mod headers;
mod http;
mod legacy;
mod questions;
mod stdio;
mod subscriptions;
mod tasks;
