//! The configuration, read as its users write it. Numbers in names are requirements.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod alerts;
mod clients;
mod entry;
mod expand;
mod file;
mod file_view;
mod journal;
mod listener;
mod location;
mod network;
mod plan;
mod policies;
mod profiles;
mod properties;
mod telemetry;
mod world;
