//! `mainstay connect`: a client on stdio whose session survives restarts of the daemon.

mod attach;
pub mod front;
mod hand_over;
mod restarts;
mod shared;
mod through;
