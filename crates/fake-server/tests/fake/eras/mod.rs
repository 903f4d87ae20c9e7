//! The revisions a fake can be pinned to, and what differs between them.

mod headers;
mod http;
mod legacy;
mod questions;
mod stdio;
mod subscriptions;
mod tasks;
