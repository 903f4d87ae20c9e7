//! `mainstay connect`: a client on stdin and stdout whose session outlives the daemon's restarts.

mod attach;
pub mod front;
mod hand_over;
mod restarts;
mod shared;
mod through;
