//! Turns published servers into entries of a configuration. The publishers are not trusted.
//!
//! A registry's answer ([`listing`]) contains [`offer`]s, and a bundle contains a [`manifest`]. Both have
//! [`question`]s. With the answers they become a [`recipe`], which gives the entry. All of this is pure. Only
//! [`unpack`] touches files, and nothing here uses the network.

pub mod bundle;
pub mod command;
pub mod inputs;
pub mod listing;
mod literal;
pub mod manifest;
pub mod offer;
pub mod question;
pub mod recipe;
pub mod system;
pub mod unpack;
pub mod zip;
