//! Programs that use the terminal until the user leaves: `top` draws the whole screen, `shell` edits lines.
//!
//! They know no other command. Lines of the shell are run by the program's own commands
//! ([`mainstay_command_line::host::Host::typed`]).

mod shell;
mod top;

pub use self::{shell::Shell, top::Top};
