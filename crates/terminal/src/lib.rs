//! Programs that use the terminal until the user leaves: `top` draws the whole screen, and `shell` edits
//! lines.
//!
//! They depend on no other command. The program runs the lines of the shell as its own commands
//! ([`mainstay_command_line::host::Host::typed`]).

mod shell;
mod top;

pub use self::{shell::Shell, top::Top};
