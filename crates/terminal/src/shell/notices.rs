//! Notices of the daemon. They appear above the line that a person types, or on stderr while a command
//! runs.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use mainstay_command_line::{output, screen};
use mainstay_core::display;
use parking_lot::Mutex;
use reedline::ExternalPrinter;
use tokio::{sync::Notify, time::sleep};

/// The maximum number of rows that wait for the prompt. Further rows are dropped and counted.
const MOST: usize = 200;

/// The interval at which the editor checks for a new row.
pub const LOOK: Duration = Duration::from_millis(30);

#[derive(Clone, Default)]
pub struct Notices {
    state: Arc<Mutex<NoticeState>>,
    /// Notified when a row waits.
    waiting: Arc<Notify>,
}

struct NoticeState {
    /// The printer of the line editor, for rows above the typed line.
    printer: ExternalPrinter<String>,
    is_typing: bool,
    rows: VecDeque<String>,
    dropped: usize,
}

impl Default for NoticeState {
    fn default() -> Self {
        Self {
            printer: ExternalPrinter::new(1),
            is_typing: false,
            rows: VecDeque::new(),
            dropped: 0,
        }
    }
}

impl Notices {
    /// The printer to pass to the line editor.
    pub fn printer(&self) -> ExternalPrinter<String> {
        self.state.lock().printer.clone()
    }

    /// Shows later notices above the typed line.
    pub fn typing_begins(&self) {
        self.state.lock().is_typing = true;
    }

    /// Prints later notices on stderr.
    pub fn typing_ends(&self) {
        let mut state = self.state.lock();
        state.is_typing = false;
        for row in std::mem::take(&mut state.rows) {
            screen::complain(&row);
        }
        let dropped = std::mem::take(&mut state.dropped);
        if dropped > 0 {
            screen::complain(&format!(
                "… {} came too fast",
                output::count(dropped, "line")
            ));
        }
    }

    pub fn is_typing(&self) -> bool {
        self.state.lock().is_typing
    }

    /// Shows a line, escaped.
    pub fn tell(&self, line: &str) {
        // Hold the lock during the write, so that the line does not end up in the next prompt.
        let mut state = self.state.lock();
        if !state.is_typing {
            screen::complain(line);
            return;
        }
        // Send rows, not lines, because the editor counts rows.
        for row in output::rows(&display::line(line)) {
            if state.rows.len() < MOST {
                state.rows.push_back(row);
            } else {
                state.dropped += 1;
            }
        }
        self.waiting.notify_one();
    }

    /// Passes rows to the editor, one for each of its checks. If several rows waited, the editor would
    /// count wrongly and clear the screen.
    pub async fn hand_over(self) {
        loop {
            self.waiting.notified().await;
            while let Some((sender, row)) = self.next() {
                // The channel has room: only this function sends, and the editor has read the previous
                // row.
                sender(row);
                loop {
                    sleep(LOOK).await;
                    if self.state.lock().printer.receiver().is_empty() {
                        break;
                    }
                }
                sleep(LOOK).await;
            }
        }
    }

    fn next(&self) -> Option<(impl Fn(String) + use<>, String)> {
        let mut state = self.state.lock();
        let row = state.rows.pop_front()?;
        let sender = state.printer.sender();
        Some((move |row| drop(sender.try_send(row)), row))
    }
}
