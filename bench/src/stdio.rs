//! The load generator's stdio client: one child, many calls in flight on its pipe.

use std::io;
use std::process::{ExitStatus, Stdio};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::Instant;

use crate::PATIENCE;
use crate::calls::{self, Answer, Calls, Wrong};
use crate::report::{Latencies, Window};

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the pipe to the server failed")]
    Io(#[from] io::Error),
    #[error("the server closed its output")]
    Closed,
    #[error("no answer came in time")]
    Hung(#[from] tokio::time::error::Elapsed),
    #[error("an answer came that nobody waits for")]
    Stray,
    #[error(transparent)]
    Wrong(#[from] Wrong),
}

/// A server that has shaken hands.
pub struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: ChildStdout,
    incoming: Vec<u8>,
    outgoing: Vec<u8>,
}

impl Server {
    /// Starts `command` (a program and its arguments, separated by spaces).
    pub async fn start(command: &str) -> Result<Self, Error> {
        let mut words = command.split_whitespace();
        let mut child = Command::new(words.next().unwrap_or_default())
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdin = child.stdin.take().expect("stdin is piped");
        let stdout = child.stdout.take().expect("stdout is piped");
        let mut server = Self {
            child,
            stdin,
            stdout,
            incoming: Vec::new(),
            outgoing: Vec::new(),
        };
        tokio::time::timeout(PATIENCE, server.shake_hands()).await??;
        Ok(server)
    }

    async fn shake_hands(&mut self) -> Result<(), Error> {
        self.stdin.write_all(calls::initialize().as_bytes()).await?;
        self.stdin.write_all(b"\n").await?;
        while !self.incoming.ends_with(b"\n") {
            if self.stdout.read_buf(&mut self.incoming).await? == 0 {
                return Err(Error::Closed);
            }
        }
        Answer::parse(&self.incoming)?.check_handshake()?;
        self.incoming.clear();
        self.stdin.write_all(calls::INITIALIZED.as_bytes()).await?;
        Ok(self.stdin.write_all(b"\n").await?)
    }

    /// Keeps one call of each worker in flight until the window ends.
    pub async fn drive(
        &mut self,
        mut workers: Vec<Calls>,
        window: Window,
    ) -> Result<Latencies, Error> {
        let mut latencies = Latencies::new(window);
        let mut began = vec![Some(Instant::now()); workers.len()];
        for worker in &mut workers {
            push_call(worker, &mut self.outgoing);
        }
        while began.iter().any(Option::is_some) {
            // Both directions at once: with one at a time both pipes could fill up and stall.
            tokio::select! {
                read = self.stdout.read_buf(&mut self.incoming) => if read? == 0 {
                    return Err(Error::Closed);
                },
                written = self.stdin.write(&self.outgoing), if !self.outgoing.is_empty() => {
                    self.outgoing.drain(..written?);
                    continue;
                }
            }
            let mut consumed = 0;
            for end in memchr::memchr_iter(b'\n', &self.incoming) {
                let answer = Answer::parse(&self.incoming[consumed..end])?;
                consumed = end + 1;
                let index = Calls::worker_of(answer.id, workers.len());
                let sent = began[index].take().ok_or(Error::Stray)?;
                workers[index].check(&answer)?;
                if latencies.record(sent) {
                    began[index] = Some(Instant::now());
                    push_call(&mut workers[index], &mut self.outgoing);
                }
            }
            self.incoming.drain(..consumed);
            self.incoming.reserve(64 * 1024);
        }
        Ok(latencies)
    }

    /// Closes the server's input and waits for it to go.
    pub async fn stop(self) -> Result<ExitStatus, Error> {
        let Self {
            mut child, stdin, ..
        } = self;
        drop(stdin);
        Ok(tokio::time::timeout(PATIENCE, child.wait()).await??)
    }
}

fn push_call(worker: &mut Calls, outgoing: &mut Vec<u8>) {
    worker.write_next(outgoing);
    outgoing.push(b'\n');
}
