//! Servers in plain JSON: how they are, what they offer, what they are asked and what happened to
//! them. For REST and for Mainstay's own tools, which say the same.

pub mod calls;
pub mod events;
pub mod lists;
pub mod records;
pub mod servers;
