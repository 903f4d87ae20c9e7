//! Logins to remote servers with OAuth 2.1.
//!
//! The files are pure but for requests through [`web::Web`].

pub mod assertion;
pub mod challenge;
pub mod discovery;
pub mod find;
pub mod flow;
pub mod grants;
pub mod identity;
pub mod scopes;
mod secret_text;
pub mod stored;
pub mod tokens;
pub mod upkeep;
pub mod web;
