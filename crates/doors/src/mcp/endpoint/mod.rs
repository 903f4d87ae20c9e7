//! The endpoints: several servers as one (the aggregate), or one server unchanged (transparent).

pub mod aggregate;
pub mod dispatch;
pub mod isolation;
mod lists;
pub mod request;
mod session_requests;
pub mod tasks;
pub mod transparent;
