//! The signals that stop Mainstay.

use std::{io, time::Duration};

use tokio::time::Instant;

/// Time within which two signals count as one. Service managers signal every process of a unit, so the daemon
/// gets a signal from them and from its guardian. Clients kill Mainstay and close its stdin at the same time.
const ECHO: Duration = Duration::from_millis(200);

/// A signal that was received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal {
    pub name: &'static str,
    number: u8,
}

impl Signal {
    /// True for SIGHUP: daemons reload their configuration.
    pub const fn is_hangup(self) -> bool {
        self.number == 1
    }

    /// True for Ctrl-C.
    pub const fn is_interrupt(self) -> bool {
        self.number == 2
    }

    /// The exit code that shells report for this signal.
    pub const fn exit_code(self) -> u8 {
        128 + self.number
    }
}

/// Receives signals. While it exists, they do not end the process by themselves.
#[derive(Debug)]
pub struct Signals {
    incoming: imp::PlatformSignals,
    /// The time of the last request to stop, and its signal. The signal is `None` if the request was not a
    /// signal.
    last_stop: Option<(Option<Signal>, Instant)>,
}

impl Signals {
    pub fn listen() -> io::Result<Self> {
        Ok(Self {
            incoming: imp::PlatformSignals::listen()?,
            last_stop: None,
        })
    }

    /// The next signal. A repeated signal within a moment counts once.
    pub async fn next(&mut self) -> Signal {
        loop {
            let signal = self.incoming.next().await;
            if !self.is_echo(signal) {
                return signal;
            }
        }
    }

    /// The next signal to stop while the process is stopping. Ignores SIGHUP: without a terminal the process
    /// stops anyway, and a reload is pointless.
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
        let before = self.last_stop.replace((Some(signal), now));
        before.is_some_and(|(by, at)| {
            by.is_none_or(|by_signal| by_signal == signal) && now - at < ECHO
        })
    }

    /// Records that the last signal did not stop the process, so that the same signal is not ignored as an
    /// echo.
    pub fn was_no_end(&mut self) {
        self.last_stop = None;
    }

    /// Records a request to stop that was not a signal. A signal within a moment repeats this request and is
    /// ignored.
    pub fn ended_without_signal(&mut self) {
        self.last_stop = Some((None, Instant::now()));
    }
}

#[cfg(unix)]
mod imp {
    use std::io;

    use tokio::signal::unix::{self, SignalKind, signal};

    use super::Signal;

    #[derive(Debug)]
    pub struct PlatformSignals {
        interrupt: unix::Signal,
        terminate: unix::Signal,
        /// SIGHUP: the terminal is gone, or a reload is requested.
        hangup: unix::Signal,
    }

    impl PlatformSignals {
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
    pub struct PlatformSignals(windows::CtrlC);

    impl PlatformSignals {
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
