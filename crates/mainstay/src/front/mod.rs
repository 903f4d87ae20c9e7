//! The front doors: where clients, people and programs come in.

pub mod entrance;
pub mod guard;
pub mod http;
pub mod mcp;
mod rare;
pub mod rest;
