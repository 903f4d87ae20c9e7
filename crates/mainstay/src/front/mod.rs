//! The front doors: where clients, people and programs come in.

pub mod connections;
pub mod entrance;
pub mod guard;
pub mod http;
pub mod mcp;
pub mod plain;
mod rare;
pub mod rest;
mod traffic;
