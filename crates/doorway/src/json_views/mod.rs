//! The gateway's data in the format of REST. REST and own tools share this module.

pub mod calls;
pub mod events;
pub mod history;
pub mod lists;
pub mod logs;
pub mod records;
pub mod servers;
