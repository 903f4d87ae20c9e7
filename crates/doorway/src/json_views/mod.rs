//! Servers as plain JSON: their status, lists, events and requests. REST and own tools share this module, so
//! that both return the same data.

pub mod calls;
pub mod events;
pub mod history;
pub mod lists;
pub mod logs;
pub mod records;
pub mod servers;
