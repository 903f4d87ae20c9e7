//! The stdio transport. One thread reads lines, another one writes them.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::action::ServiceAction;
use crate::legacy;
use crate::message::{self, RpcError, RpcMessage};
use crate::modern;
use crate::run::run;
use crate::script::Script;
use crate::service::{Received, Service};
use crate::session::{FakeSession, Outgoing};

/// The output of `--noise` before each message: garbage, half a message, invalid UTF-8, JSON
/// without JSON-RPC, blank lines.
const NOISE: &[u8] =
    b"Server ready on stdio!\n{\"jsonrpc\":\"2.0\",\"id\":\n\xff\xfe\x80\n[1,2\n{\"a\":1}\n\n  \n\r\n";

/// Serves one session until stdin ends.
pub(crate) async fn serve(service: Arc<Service>) -> io::Result<()> {
    let script = service.script();
    let session = service.open_session();
    let (outlet, message_receiver) = mpsc::unbounded_channel();
    session.attach(outlet);
    // One line at a time, because a hanging server must not read.
    let (lines, mut incoming_lines) = mpsc::channel(1);
    // Threads, because the runtime must not wait for stdin at its end.
    let close_limit = script.close_stdin_after;
    std::thread::spawn(move || read(&lines, close_limit));
    let writer = std::thread::spawn({
        let script = script.clone();
        move || write(message_receiver, &script)
    });

    while let Some(line) = incoming_lines.recv().await {
        let line = line?;
        service.record(Received {
            at: std::time::Instant::now(),
            verb: String::new(),
            path: String::new(),
            headers: hyper::HeaderMap::new(),
            body: String::from_utf8_lossy(&line).into_owned(),
        });
        let turn = service.turn().await;
        match RpcMessage::parse(&line) {
            Ok(message) => {
                let call = match message {
                    RpcMessage::Request { id, .. } => Some(id),
                    RpcMessage::Notification { .. } | RpcMessage::Response { .. } => None,
                };
                let actions = receive(&service, &session, message);
                run(&service, &session, call, actions, None, turn);
            }
            Err(invalid) => session.publish(message::error("null", &RpcError::from(invalid))),
        }
    }
    if script.ignore_stdin_eof || script.close_stdin_after.is_some() {
        std::future::pending::<()>().await;
    }
    // Wait until the published messages are written. Calls in flight end.
    session.close();
    match writer.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// Returns the actions for one message. A pipe serves both eras at once.
fn receive(
    service: &Arc<Service>,
    session: &Arc<FakeSession>,
    message: RpcMessage,
) -> Vec<ServiceAction> {
    match message {
        RpcMessage::Request { id, method, params } if modern::claims(&service.script(), params) => {
            modern::receive(service, session, id, &method, params)
        }
        message => legacy::receive(service, session, message),
    }
}

/// Forwards lines without line breaks, and skips blank lines.
fn read(lines: &mpsc::Sender<io::Result<Vec<u8>>>, close_limit: Option<usize>) {
    let mut stdin = io::stdin().lock();
    let mut calls = 0;
    loop {
        let mut line = Vec::new();
        match stdin.read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => {}
            Err(error) => {
                // The receiver is dropped only at exit.
                let _ = lines.blocking_send(Err(error));
                return;
            }
        }
        line.truncate(line.trim_ascii_end().len());
        if line.is_empty() {
            continue;
        }
        if is_call(&line) {
            calls += 1;
        }
        // Close stdin before the answer is sent, so that the client sees it closed.
        let is_last = close_limit == Some(calls);
        if is_last {
            close_stdin();
        }
        if lines.blocking_send(Ok(line)).is_err() || is_last {
            return;
        }
    }
}

fn is_call(line: &[u8]) -> bool {
    matches!(RpcMessage::parse(line), Ok(RpcMessage::Request { method, .. }) if method == "tools/call")
}

/// Closes stdin. Later writes fail with EPIPE.
#[cfg(unix)]
fn close_stdin() {
    std::fs::File::open("/dev/null")
        .and_then(|null| Ok(rustix::stdio::dup2_stdin(null)?))
        .expect("stdin can be replaced");
}

#[cfg(not(unix))]
fn close_stdin() {
    panic!("--close-stdin-after needs Unix");
}

fn write(
    mut message_receiver: mpsc::UnboundedReceiver<Outgoing>,
    script: &Script,
) -> io::Result<()> {
    while let Some(message_receiver) = message_receiver.blocking_recv() {
        // Lock for one message, so that floods can interleave.
        let mut stdout = io::stdout().lock();
        let text = match message_receiver {
            Outgoing::Message { text, .. } => text,
            Outgoing::Half(text) => {
                stdout.write_all(text.as_bytes())?;
                stdout.flush()?;
                // A pipe breaks only when its reader exits.
                std::process::exit(3);
            }
            Outgoing::Cut => continue,
        };
        if script.noise {
            stdout.write_all(NOISE)?;
        }
        let line = format!("{text}\n");
        if script.half_lines {
            for piece in line.as_bytes().chunks(line.len().div_ceil(5)) {
                stdout.write_all(piece)?;
                stdout.flush()?;
            }
        } else {
            stdout.write_all(line.as_bytes())?;
        }
        stdout.flush()?;
    }
    Ok(())
}
