//! Logins to remote servers with OAuth 2.1.
//!
//! The entry point is [`logins::Logins`]. The decisions are pure: `upkeep`, `flow`, `discovery`, `identity`.

pub mod assertion;
pub mod challenge;
pub mod discovery;
pub mod find;
pub mod flow;
pub mod grant_answer;
pub mod grants;
pub mod identity;
pub mod keeper;
pub mod landing;
pub mod logins;
pub mod loopback;
pub mod person;
mod refresh;
pub mod report;
pub mod scopes;
mod secret_text;
pub mod server;
pub mod shared;
pub mod source;
mod started;
pub mod store;
pub mod stored;
pub mod tokens;
pub mod upkeep;
pub mod web;
pub mod web_client;
