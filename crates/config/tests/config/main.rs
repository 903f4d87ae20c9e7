//! Tests of the configuration with texts as users write them. Numbers in names are requirements.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod access;
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
