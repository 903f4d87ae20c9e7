//! Input that a person types while a command runs. It is not echoed into the command's output, and appears
//! at the next prompt.

#[cfg(unix)]
mod imp {
    use std::io;

    use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

    /// The earlier mode of the terminal. Dropping this value restores it.
    pub struct TypedAhead(Termios);

    impl TypedAhead {
        /// Disables echo, and the translation of keys, which would turn Enter into another key. Ctrl-C
        /// still sends a signal.
        pub fn keep() -> io::Result<Self> {
            let before = tcgetattr(io::stdin())?;
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            modes.input_modes -= InputModes::ICRNL;
            tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
            Ok(Self(before))
        }
    }

    impl Drop for TypedAhead {
        fn drop(&mut self) {
            // Ignore the error: without a terminal there is nothing to restore.
            tcsetattr(io::stdin(), OptionalActions::Now, &self.0).ok();
        }
    }
}

#[cfg(not(unix))]
mod imp {
    use std::io;

    pub struct TypedAhead;

    impl TypedAhead {
        pub fn keep() -> io::Result<Self> {
            Ok(Self)
        }
    }
}

pub use imp::TypedAhead;
