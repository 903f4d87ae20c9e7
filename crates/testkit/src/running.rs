//! A running program, and its stderr.

use std::{fmt::Write as _, process::ExitStatus};

use rustix::process::{Pid, Signal, kill_process};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader, Lines},
    process::{Child, ChildStderr, Command},
};

use crate::{limits::PROGRAMS, soon};

pub struct Running {
    pub child: Child,
    stderr: Lines<BufReader<ChildStderr>>,
    /// The text that [`Self::wait_for_stderr`] has read from stderr so far.
    pub stderr_text: String,
}

impl Running {
    /// Starts a command with a pipe for stderr.
    pub fn start(mut command: Command) -> Self {
        let mut child = command.spawn().expect("it starts");
        let stderr = lines(child.stderr.take());
        Self {
            child,
            stderr,
            stderr_text: String::new(),
        }
    }

    /// Reads stderr up to a line that contains `words`, and returns that line.
    pub async fn wait_for_stderr(&mut self, words: &str) -> String {
        loop {
            let line = soon(PROGRAMS, words, self.stderr.next_line()).await;
            let Some(line) = line.expect("UTF-8") else {
                panic!("{words:?} was never said:\n{}", self.stderr_text)
            };
            let _ = writeln!(self.stderr_text, "{line}");
            if line.contains(words) {
                return line;
            }
        }
    }

    /// The id of the started process. For `serve` and `mcp`, that is the guardian.
    pub fn pid(&self) -> Pid {
        let id = self.child.id().expect("it runs");
        Pid::from_raw(id.cast_signed()).expect("a process id")
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it can be signalled");
    }

    pub async fn ended(&mut self) -> ExitStatus {
        let ended = soon(PROGRAMS, "its end", self.child.wait()).await;
        ended.expect("it can be waited for")
    }
}

pub fn lines<R: AsyncRead + Unpin>(pipe: Option<R>) -> Lines<BufReader<R>> {
    BufReader::new(pipe.expect("a pipe")).lines()
}
