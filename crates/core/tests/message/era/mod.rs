//! Tests of the differences between protocol revisions: features, and translation to the other era.
//! Expected texts are the specification's examples where there are some.

mod callers;
mod headers;
mod questions;
mod requests;
mod results;
mod revisions;
