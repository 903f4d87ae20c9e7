//! The signals by which people and service managers end us.

use std::io;

/// A signal that came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    pub name: &'static str,
    number: u8,
}

impl Signal {
    /// Daemons read their configuration again at it (`kill -HUP`).
    pub const fn is_hangup(self) -> bool {
        self.number == 1
    }

    /// How shells report a program that this signal ended.
    pub const fn exit_code(self) -> u8 {
        128 + self.number
    }
}

/// From its making on, the signals no longer end the process by themselves.
#[derive(Debug)]
pub struct Signals(imp::Signals);

impl Signals {
    pub fn listen() -> io::Result<Self> {
        imp::Signals::listen().map(Self)
    }

    pub async fn next(&mut self) -> Signal {
        self.0.next().await
    }
}

#[cfg(unix)]
mod imp {
    use std::io;

    use tokio::signal::unix::{self, SignalKind, signal};

    use super::Signal;

    #[derive(Debug)]
    pub struct Signals {
        interrupt: unix::Signal,
        terminate: unix::Signal,
        /// The terminal has gone.
        hangup: unix::Signal,
    }

    impl Signals {
        pub fn listen() -> io::Result<Self> {
            Ok(Self {
                interrupt: signal(SignalKind::interrupt())?,
                terminate: signal(SignalKind::terminate())?,
                hangup: signal(SignalKind::hangup())?,
            })
        }

        pub async fn next(&mut self) -> Signal {
            tokio::select! {
                _ = self.interrupt.recv() => Signal { name: "SIGINT", number: 2 },
                _ = self.terminate.recv() => Signal { name: "SIGTERM", number: 15 },
                _ = self.hangup.recv() => Signal { name: "SIGHUP", number: 1 },
            }
        }
    }
}

#[cfg(windows)]
mod imp {
    use std::io;

    use tokio::signal::windows::{self, ctrl_c};

    use super::Signal;

    #[derive(Debug)]
    pub struct Signals(windows::CtrlC);

    impl Signals {
        pub fn listen() -> io::Result<Self> {
            ctrl_c().map(Self)
        }

        pub async fn next(&mut self) -> Signal {
            self.0.recv().await;
            Signal {
                name: "Ctrl-C",
                number: 2,
            }
        }
    }
}
