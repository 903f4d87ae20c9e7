//! Programs that hold the terminal until the person leaves: `top` draws the whole screen, `shell` edits lines.
//!
//! They know no other command. What a line of the shell asks for, the program's own commands do
//! ([`mainstay_command_line::host::Host::typed`]).

mod shell;
mod top;

pub use self::{shell::Shell, top::Top};
