//! `mainstay connect`: a client on stdin and stdout, whose session survives restarts of the daemon.

mod attach;
pub mod front;
mod hand_over;
mod restarts;
mod shared;
mod through;
