//! Messages: their envelope, and what differs between protocol revisions.

mod envelope;
mod era;
mod json;
