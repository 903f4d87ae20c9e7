//! Tests of messages: the envelope, and the differences between protocol revisions.

mod envelope;
mod era;
mod json;
