//! Servers as plain JSON: their status, lists, events and requests. REST and own tools share it, so
//! that both say the same.

pub mod calls;
pub mod events;
pub mod history;
pub mod lists;
pub mod logs;
pub mod records;
pub mod servers;
