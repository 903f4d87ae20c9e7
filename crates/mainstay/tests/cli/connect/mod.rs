//! `mainstay connect`: a client on stdin and stdout whose session outlives the daemon's restarts.

mod attach;
mod front;
mod restarts;
mod shared;
mod through;
