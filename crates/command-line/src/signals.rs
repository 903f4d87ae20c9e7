//! The signals that end Mainstay.

use std::{io, time::Duration};

use tokio::time::Instant;

/// Service managers signal every process of a unit, so the daemon hears a signal from them and from its
/// guardian; clients kill Mainstay and close its stdin in one go. Within this time two signals count as
/// one.
const ECHO: Duration = Duration::from_millis(200);

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

    /// Ctrl-C.
    pub const fn is_interrupt(self) -> bool {
        self.number == 2
    }

    /// How shells report a program that this signal ended.
    pub const fn exit_code(self) -> u8 {
        128 + self.number
    }
}

/// From its making on, the signals no longer end the process by themselves.
#[derive(Debug)]
pub struct Signals {
    incoming: imp::Signals,
    /// The last time that we were asked to end, and by which signal, if by one.
    asked: Option<(Option<Signal>, Instant)>,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            incoming: imp::Signals::listen()?,
            asked: None,
        })
    }

    /// The next signal; one that comes twice in a moment counts once.
    pub async fn next(&mut self) -> Signal {
        loop {
            let signal = self.incoming.next().await;
            if !self.is_echo(signal) {
                return signal;
            }
        }
    }

    /// The next one that asks for the end while we are at it. A hangup does not: where the terminal has
    /// gone we end anyway, and there is nothing to be read again.
    pub async fn next_end(&mut self) -> Signal {
        loop {
            let signal = self.incoming.next().await;
            if !signal.is_hangup() && !self.is_echo(signal) {
                return signal;
            }
        }
    }

    fn is_echo(&mut self, signal: Signal) -> bool {
        let now = Instant::now();
        let before = self.asked.replace((Some(signal), now));
        before.is_some_and(|(by, at)| by.is_none_or(|it| it == signal) && now - at < ECHO)
    }

    /// The last one asked for something else than the end: the same again is not its echo.
    pub fn was_no_end(&mut self) {
        self.asked = None;
    }

    /// We were asked to end by other means: a signal of this moment says the same once more.
    pub fn asked_otherwise(&mut self) {
        self.asked = Some((None, Instant::now()));
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
