//! The guardian on Linux: a sub-reaper with one thread.
//!
//! It runs on its own tokio runtime, without tokio's support for processes. It only uses the signal driver,
//! which the program needs anyway and which starts no thread.

use std::{
    env, ffi::CStr, fs::OpenOptions, io, os::unix::process::CommandExt as _, process::Command,
    time::Duration,
};

use rustix::process::{
    Pid, Signal, WaitOptions, WaitStatus, getpid, getppid, kill_process, set_child_subreaper,
    set_parent_process_death_signal, test_kill_process, wait,
};
use tokio::signal::unix::{self, SignalKind, signal};

use super::Post;
use crate::{
    huge_pages,
    processes::{self, GUARDIAN},
};

/// The time between SIGTERM and SIGKILL for processes that outlive the daemon.
const GRACE: Duration = Duration::from_secs(1);

/// The daemon's name. The guardian gets its name from the program's file.
const NAME: &CStr = c"mainstay";

/// Starts the daemon as a child process. In the daemon, returns at once. In the guardian, returns after the
/// daemon and all of its descendants have ended. Must be called before the process has a second thread.
pub fn take_post() -> io::Result<Post> {
    match processes::named_guardian() {
        Some(guardian) if getppid() == Some(guardian) => serve_under(guardian),
        // The guardian died before this process could bind itself to it.
        Some(guardian) if test_kill_process(guardian).is_err() => Ok(Post::Relieved {
            exit: killed_by(Signal::TERM),
        }),
        // The named guardian belongs to a Mainstay further up in the chain.
        Some(_) | None => guard(),
    }
}

fn serve_under(guardian: Pid) -> io::Result<Post> {
    // The signal is sent when the guardian's only thread ends.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    // Without this name, `ps` and `top` would show "exe", from the path that started the process.
    rustix::thread::set_name(NAME)?;
    Ok(if getppid() == Some(guardian) {
        Post::Daemon
    } else {
        Post::Relieved {
            exit: killed_by(Signal::TERM),
        }
    })
}

fn guard() -> io::Result<Post> {
    set_child_subreaper(Some(getpid()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let (stops, status) = runtime.block_on(async {
        // Listen before the daemon starts, so that no signal ends the guardian without the daemon.
        let mut signals = Signals::listen()?;
        let daemon = start_daemon()?;
        Ok::<_, io::Error>(signals.watch(daemon).await)
    })?;
    // After a second signal everything ends at once.
    let grace = if stops > 1 { Duration::ZERO } else { GRACE };
    let left = processes::end(|now| now.below(&[getpid()]), grace);
    if !left.is_empty() {
        tracing::warn!(pids = ?left, "processes cannot be ended, even by SIGKILL");
    }
    Ok(Post::Relieved {
        exit: exit_of(status),
    })
}

/// Starts this program again, by a path that works even if the file was replaced.
fn start_daemon() -> io::Result<Pid> {
    let mut arguments = env::args_os();
    let mut command = Command::new("/proc/self/exe");
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    if huge_pages::are_turned_off_by_us() {
        command.env(huge_pages::TURNED_OFF, "1");
    }
    // The daemon gets its own group, so that Ctrl-C reaches it only from the guardian and not also from the
    // terminal.
    let child = command
        .args(arguments)
        .env(GUARDIAN, getpid().as_raw_pid().to_string())
        .process_group(0)
        .spawn()?;
    // Only the daemon may hold stdin and stdout, so that their other ends detect the end of the daemon at
    // once.
    let nowhere = OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    rustix::stdio::dup2_stdout(&nowhere)?;
    Ok(Pid::from_child(&child))
}

struct Signals {
    child: unix::Signal,
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hangup: unix::Signal,
}

impl Signals {
    fn listen() -> io::Result<Self> {
        Ok(Self {
            child: signal(SignalKind::child())?,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Forwards signals until the daemon has ended. Returns the number of stop signals, and the daemon's
    /// status.
    async fn watch(&mut self, daemon: Pid) -> (u32, WaitStatus) {
        let mut stops = 0;
        loop {
            let signal = tokio::select! {
                _ = self.child.recv() => Signal::CHILD,
                _ = self.interrupt.recv() => Signal::INT,
                _ = self.terminate.recv() => Signal::TERM,
                _ = self.hangup.recv() => Signal::HUP,
            };
            if signal != Signal::CHILD {
                // SIGHUP makes the daemon reload its configuration.
                stops += u32::from(signal != Signal::HUP);
                // The daemon is not reaped yet, so the id is still its own.
                kill_process(daemon, signal).ok();
            } else if let Some(status) = reap(daemon) {
                return (stops, status);
            }
        }
    }
}

/// Reaps ended processes: the daemon, and descendants that the guardian adopted. No other code of this
/// process waits for children, so no status is lost.
fn reap(daemon: Pid) -> Option<WaitStatus> {
    let mut ended = None;
    while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
        if pid == daemon {
            ended = Some(status);
        }
    }
    ended
}

/// The exit code as shells report it: the exit code of the process, or 128 plus the signal.
fn exit_of(status: WaitStatus) -> u8 {
    let signalled = status.terminating_signal().map(|signal| 128 + signal);
    let exit = signalled.or(status.exit_status()).unwrap_or(1);
    u8::try_from(exit).unwrap_or(u8::MAX)
}

fn killed_by(signal: Signal) -> u8 {
    128 + signal.as_raw().unsigned_abs() as u8
}
