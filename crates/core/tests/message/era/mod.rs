//! Tests of the differences between protocol revisions: their features, and the translation of
//! messages for the other era. Expected texts are from the specification where it has examples.

mod callers;
mod headers;
mod questions;
mod requests;
mod results;
mod revisions;
