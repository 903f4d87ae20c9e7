//! `mainstay connect`: a client on stdio keeps its session while the daemon restarts.

mod attach;
pub mod front;
mod hand_over;
mod restarts;
mod shared;
mod through;
