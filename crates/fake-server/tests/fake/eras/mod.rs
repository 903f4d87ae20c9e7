//! The revisions a fake can be pinned to, and what differs between them.

#[path = "../common/mod.rs"]
mod common;

mod headers;
mod http;
mod legacy;
mod questions;
mod stdio;
mod subscriptions;
mod tasks;
