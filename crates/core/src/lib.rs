//! Mainstay's decisions, without I/O: no function waits, opens a file or socket, or starts a
//! process.
//!
//! Other packages carry out the decisions. The manifest has no async runtime, so that no decision
//! can hide an await (ARCHITECTURE.md, invariant 1).

pub mod access;
pub mod alert;
pub mod builtin;
pub mod catalog;
pub mod certificate;
pub mod config;
pub mod display;
pub mod era;
pub mod event;
pub mod failure;
pub mod health;
pub mod ids;
pub mod lifecycle;
pub mod message;
pub mod names;
pub mod principal;
pub mod programs;
pub mod proxy;
pub mod record;
pub mod redact;
pub mod spelling;
pub mod start;
pub mod suspects;
pub mod switches;
pub mod trace;
pub mod trouble;
pub mod well_known;
pub mod words;
