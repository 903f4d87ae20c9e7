//! Tests of the fake: transports, revisions, and the gate.

mod common;

mod eras;
mod gate;
mod http;
mod sse;
mod stdio;
