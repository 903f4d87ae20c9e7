//! What a person types while a command runs: it is not echoed into the command's output, and waits for the
//! next prompt as it was typed.

#[cfg(unix)]
mod imp {
    use std::io;

    use rustix::termios::{InputModes, LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

    /// Dropped, it gives the terminal back as it was.
    pub struct TypedAhead(Termios);

    impl TypedAhead {
        /// Keys are neither echoed nor changed: otherwise Enter would come as another key. Ctrl-C stays a signal.
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
            // A terminal that is gone needs nothing.
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
