//! Requests in flight, over any transport: the link that sends them, the messages about them, and the
//! questions that a server asks meanwhile.

pub mod asker;
pub mod budget;
pub mod exchange;
pub mod frame;
pub mod interruption;
pub mod link;
pub mod message_router;
pub mod multiplexed;
pub mod pending;
pub mod per_request;
pub mod possible_suspect;
pub mod question;
pub mod reply_sink;
