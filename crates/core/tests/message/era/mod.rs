//! The differences between protocol revisions: what each can do, and what becomes of a message on its
//! way to the other era. Expected texts are the specification's where it has any.

mod callers;
mod headers;
mod questions;
mod requests;
mod results;
mod revisions;
