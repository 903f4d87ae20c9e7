//! The endpoints: aggregate (several servers as one) and transparent (one server unchanged).

pub mod aggregate;
pub mod dispatch;
pub mod isolation;
mod lists;
pub mod request;
mod session_requests;
pub mod tasks;
pub mod transparent;
