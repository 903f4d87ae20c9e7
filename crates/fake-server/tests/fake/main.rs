//! The fake itself: each transport, each revision, and the gate in front.

mod common;

mod eras;
mod gate;
mod http;
mod sse;
mod stdio;
