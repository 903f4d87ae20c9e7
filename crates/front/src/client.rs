//! Reads the client's stdin and feeds it to a door in the same process (`mainstay mcp`). After a
//! handover, a front continues to read from it.

use std::{
    collections::VecDeque,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use mainstay_core::message::{MessageKind, Method};
use mainstay_transport::{Frame, InputLine, LineReader};
use tokio::{
    io::{AsyncRead, ReadBuf},
    sync::{mpsc, watch},
};
use tokio_util::sync::CancellationToken;

use super::session::ClientSession;

/// Maximum number of bytes of held-back requests. Reading pauses above it.
const MAX_HELD: usize = 16 * 1024 * 1024;

/// Bytes by which a substitute line exceeds the door's limit, so that the door rejects it in any
/// case. A door's reader reads less than this at a time.
const MARGIN: usize = 256 * 1024;

/// The lines of a client on stdin, and the settings of its session.
pub struct ClientInput<R> {
    lines: LineReader<R>,
    max_message: usize,
    /// Requests held back during a handover. No door has received them.
    held: VecDeque<Bytes>,
    held_bytes: usize,
    pub session: ClientSession,
}

/// Signals of a handover from a door to a front.
#[derive(Default)]
pub struct Leaving {
    /// Cancelled when the handover starts.
    pub requested: CancellationToken,
    /// Cancelled when the door has processed every line that it received. The handover continues.
    pub leave: CancellationToken,
}

impl<R: AsyncRead + Unpin> ClientInput<R> {
    /// Reads lines of at most `max_message` bytes.
    pub fn new(input: R, max_message: usize) -> Self {
        Self {
            lines: LineReader::new(input, max_message),
            max_message,
            held: VecDeque::new(),
            held_bytes: 0,
            session: ClientSession::default(),
        }
    }

    /// Returns the next line. Held-back lines come first. `None` at the end of stdin.
    pub async fn next(&mut self) -> io::Result<Option<InputLine>> {
        match self.held.pop_front() {
            Some(held) => Ok(Some(InputLine::Whole(held))),
            None => self.lines.next().await,
        }
    }

    /// Feeds the client's lines to a door until the client or the door ends. During a handover,
    /// requests are held back. Notifications and responses still reach the door, because they
    /// belong to its running requests.
    pub async fn feed(&mut self, mut door: DoorFeed, leave_state: &Leaving) {
        let mut is_leaving = false;
        loop {
            let has_room = self.held_bytes < MAX_HELD;
            let line = tokio::select! {
                biased;
                () = door.lines.closed() => return,
                () = leave_state.requested.cancelled(), if !is_leaving => {
                    is_leaving = true;
                    door.processed().await;
                    leave_state.leave.cancel();
                    continue;
                }
                line = self.lines.next(), if has_room => line,
            };
            let line = match line {
                Ok(Some(InputLine::Whole(line))) if is_leaving => self.hold(line),
                Ok(Some(InputLine::Whole(line))) => {
                    self.session.sent(&line);
                    Some(line)
                }
                // Send the door an oversized line, so that it answers with its usual error.
                Ok(Some(InputLine::TooLong { .. })) => {
                    Some(vec![b'x'; self.max_message.saturating_add(MARGIN)].into())
                }
                Ok(None) | Err(_) => return,
            };
            if let Some(line) = line {
                door.give(line).await;
            }
        }
    }

    /// Holds a request back. Returns the line if it is a message that the door must get.
    fn hold(&mut self, line: Bytes) -> Option<Bytes> {
        let frame = Frame::read(line.clone());
        let kind = frame.as_ref().map(|frame| frame.envelope().kind);
        match kind {
            Ok(MessageKind::Response { .. }) => return Some(line),
            Ok(MessageKind::Notification { method }) => {
                let cancels = frame.ok().filter(|_| method == Method::Cancelled);
                if cancels.is_some_and(|frame| self.drop_held(frame.param("requestId"))) {
                    return None;
                }
                self.session.notified(method);
                return Some(line);
            }
            // Hold batches and unreadable lines, too. The front answers them.
            Ok(MessageKind::Request { .. }) | Err(_) => {}
        }
        self.held_bytes += line.len();
        self.held.push_back(line);
        None
    }

    /// Drops the held request with this id (JSON text). Returns true if there was one.
    fn drop_held(&mut self, id: Option<&str>) -> bool {
        let is_cancelled = |line: &Bytes| {
            Frame::read(line.clone()).is_ok_and(|frame| frame.id().is_some() && frame.id() == id)
        };
        let Some(index) = self.held.iter().position(is_cancelled) else {
            return false;
        };
        let removed_line = self.held.remove(index);
        self.held_bytes -= removed_line.map_or(0, |line| line.len());
        true
    }
}

/// The sending end of a [`DoorInput`].
pub struct DoorFeed {
    lines: mpsc::Sender<Bytes>,
    sent: u64,
    /// Number of lines that the door has finished processing.
    dealt_with: watch::Receiver<u64>,
}

impl DoorFeed {
    async fn give(&mut self, line: Bytes) {
        self.sent += 1;
        // An error means that the door has ended. `feed` sees that in `closed`.
        self.lines.send(line).await.ok();
    }

    /// Waits until the door has processed all lines, or ends.
    async fn processed(&mut self) {
        let sent_count = self.sent;
        self.dealt_with
            .wait_for(|count| *count >= sent_count)
            .await
            .ok();
    }
}

/// The input stream of a door. It yields one line at a time. A read of the next line shows that the
/// door has processed the line before.
pub struct DoorInput {
    lines: mpsc::Receiver<Bytes>,
    line: Bytes,
    is_line_ended: bool,
    read: u64,
    dealt_with: watch::Sender<u64>,
}

/// Creates the input stream of a door and the end that feeds it.
pub fn door_input() -> (DoorFeed, DoorInput) {
    let (sender, receiver) = mpsc::channel(1);
    let (tell, counts) = watch::channel(0);
    let feed = DoorFeed {
        lines: sender,
        sent: 0,
        dealt_with: counts,
    };
    let input = DoorInput {
        lines: receiver,
        line: Bytes::new(),
        is_line_ended: true,
        read: 0,
        dealt_with: tell,
    };
    (feed, input)
}

impl AsyncRead for DoorInput {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.line.is_empty() && self.is_line_ended {
            let read_count = self.read;
            self.dealt_with.send_replace(read_count);
            let Some(line) = ready!(self.lines.poll_recv(context)) else {
                return Poll::Ready(Ok(()));
            };
            self.line = line;
            self.is_line_ended = false;
            self.read += 1;
        }
        let piece = self.line.len().min(buffer.remaining());
        buffer.put_slice(&self.line[..piece]);
        self.line.advance(piece);
        if self.line.is_empty() && buffer.remaining() > 0 {
            buffer.put_slice(b"\n");
            self.is_line_ended = true;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, duplex};

    use super::*;

    const MAX: usize = 1024;

    fn request(id: u32) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"x"}}}}"#)
    }

    /// The door keeps requests that came before the handover. Later requests are held back, unless
    /// the client cancels them. Notifications and responses reach the door.
    #[tokio::test]
    async fn requests_are_held_back_while_the_door_is_left() {
        let (mut client, stdin) = duplex(MAX);
        let mut input = ClientInput::new(stdin, MAX);
        let (feed, door) = door_input();
        let leave_state = Leaving::default();
        let mut door = BufReader::with_capacity(16, door).lines();
        let line_bytes = |line: String| format!("{line}\n").into_bytes();
        let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}"#;
        let scene = async {
            client
                .write_all(&line_bytes(initialize.into()))
                .await
                .expect("written");
            client
                .write_all(&line_bytes(request(1)))
                .await
                .expect("written");
            for expected in [initialize.to_owned(), request(1)] {
                let line = door.next_line().await.expect("UTF-8");
                assert_eq!(line, Some(expected));
            }
            leave_state.requested.cancel();
            let answer = r#"{"jsonrpc":"2.0","id":7,"result":{}}"#;
            let cancel = |id| {
                let method = "notifications/cancelled";
                format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{{"requestId":{id}}}}}"#)
            };
            // The door reads again only after it has processed the last line.
            let line = {
                let mut reading = pin!(door.next_line());
                tokio::select! {
                    biased;
                    line = &mut reading => panic!("{line:?}"),
                    () = leave_state.leave.cancelled() => {}
                }
                for line in [request(2), request(3), cancel(2), answer.into(), cancel(1)] {
                    client.write_all(&line_bytes(line)).await.expect("written");
                }
                reading.await.expect("UTF-8")
            };
            assert_eq!(line.as_deref(), Some(answer));
            let line = door.next_line().await.expect("UTF-8");
            assert_eq!(line, Some(cancel(1)));
            drop(door);
        };
        tokio::join!(input.feed(feed, &leave_state), scene);
        client
            .write_all(&line_bytes(request(4)))
            .await
            .expect("written");
        for expected in [request(3), request(4)] {
            let line = input.next().await.expect("a line");
            assert_eq!(line, Some(InputLine::Whole(expected.into())));
        }
        assert!(input.session.initialize().is_some());
        drop(client);
        assert_eq!(input.next().await.expect("the end"), None);
    }

    /// The handover waits until the door has processed the line that it is reading.
    #[tokio::test]
    async fn a_door_is_left_when_it_has_dealt_with_every_line() {
        let (mut client, stdin) = duplex(MAX);
        let mut input = ClientInput::new(stdin, MAX);
        let (feed, mut door) = door_input();
        let leave_state = Leaving::default();
        let scene = async {
            let line = format!("{}\n", request(1));
            client.write_all(line.as_bytes()).await.expect("written");
            let mut content = vec![0; line.len()];
            tokio::io::AsyncReadExt::read_exact(&mut door, &mut content)
                .await
                .expect("the line");
            leave_state.requested.cancel();
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert!(!leave_state.leave.is_cancelled());
            let mut extra_byte = [0];
            tokio::select! {
                biased;
                content = tokio::io::AsyncReadExt::read(&mut door, &mut extra_byte) => panic!("{content:?}"),
                () = leave_state.leave.cancelled() => {}
            }
            drop(door);
        };
        tokio::join!(input.feed(feed, &leave_state), scene);
    }

    #[tokio::test]
    async fn a_line_that_is_too_long_is_too_long_for_the_door() {
        // Larger than one read of the pipe.
        const LIMIT: usize = 1024 * 1024;
        let (mut client, stdin) = duplex(MAX);
        let mut input = ClientInput::new(stdin, LIMIT);
        let (feed, door) = door_input();
        let mut door = LineReader::new(door, LIMIT);
        let write_task = Leaving::default();
        let writing = async {
            let lines = format!("{}\n{}\n", "y".repeat(3 * LIMIT), request(1));
            client.write_all(lines.as_bytes()).await.expect("written");
            drop(client);
        };
        let reading = async {
            let first = door.next().await.expect("a line");
            assert!(matches!(first, Some(InputLine::TooLong { .. })));
            let second_line = door.next().await.expect("a line");
            assert_eq!(second_line, Some(InputLine::Whole(request(1).into())));
            assert_eq!(door.next().await.expect("the end"), None);
        };
        tokio::join!(input.feed(feed, &write_task), writing, reading);
    }
}
