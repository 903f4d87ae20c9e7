//! Supervisors: one task for each server. The task owns the server's upstream sessions, carries out
//! the effects of their lifecycles, and publishes a server view.
//!
//! Calls never pass through this task. It handles the events of connections, opens and closes
//! connections, and keeps the server's catalog current.

mod attempt;
mod catalog_file;
mod cold_packages;
mod command;
mod declared;
mod entries;
mod fleet;
mod held_requests;
mod inbox;
mod isolated_session;
mod kept_down;
mod legacy_twin;
mod listing;
mod listing_schedule;
mod managed_session;
mod open_questions;
mod pace;
mod probe;
mod queue;
mod reason;
mod server;
mod server_view;
mod session_key;
mod session_settings;
mod shares;
mod sole;
mod suspect_calls;
mod task;
mod usage;

pub use self::{
    catalog_file::names as names_with_catalogs,
    command::Operation,
    entries::Entries,
    fleet::{Fleet, SupervisorReport},
    held_requests::HeldRequests,
    isolated_session::IsolatedSession,
    kept_down::KeptDown,
    open_questions::{Answerer, OpenQuestion, OpenQuestions},
    pace::Pace,
    queue::{Cause, Queue, Queued},
    server::{ServerHandle, supervise},
    server_view::{Crash, Crashes, ServerView},
    session_settings::SessionSettings,
    shares::reserve,
    sole::{Asks, Sole},
    usage::UseGuard,
};
