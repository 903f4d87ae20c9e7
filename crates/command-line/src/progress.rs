//! The progress line on stderr, on a terminal only. `indicatif` draws it, and all other output is written
//! above it.

use std::{
    env,
    io::{self, IsTerminal as _},
    pin::pin,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use mainstay_core::display;
use parking_lot::Mutex;
use tokio::time::{Instant, interval};

use super::style::Palette;

/// Work that takes longer is shown.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// Time between two updates of the elapsed time.
const TICK: Duration = Duration::from_millis(100);

/// There is one terminal.
static LINE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// True if progress lines can be shown.
fn is_shown() -> bool {
    let is_dumb = || env::var_os("TERM").is_some_and(|term| term == "dumb");
    is_terminal() && !is_dumb()
}

#[expect(clippy::disallowed_methods, reason = "nothing is written to it here")]
fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Shows a line in place of the last one. It is escaped, and cut to one row.
pub fn show(line: &str) {
    if !is_shown() {
        return;
    }
    let mut line_bar = LINE.lock();
    let bar = line_bar.get_or_insert_with(bar);
    bar.set_message(display::line(line).into_owned());
    bar.tick();
}

fn bar() -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(10);
    let bar = ProgressBar::with_draw_target(None, target);
    let turns = if Palette::for_stream(true).symbols {
        "◐◓◑◒ "
    } else {
        "|/-\\ "
    };
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    // The template is valid.
    style.map_or(bar.clone(), |style| bar.with_style(style.tick_chars(turns)))
}

/// Removes the line, if there is one.
pub fn clear() {
    if let Some(bar) = LINE.lock().take() {
        bar.finish_and_clear();
    }
}

/// Writes to the terminal while the line is removed.
pub fn without_line<T>(write: impl FnOnce() -> T) -> T {
    match &*LINE.lock() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Removes the line when it is dropped, also when its work is cancelled.
struct Cleared;

impl Drop for Cleared {
    fn drop(&mut self) {
        clear();
    }
}

/// Runs work, and calls `tick` repeatedly once it takes longer than [`PATIENCE`].
pub async fn ticking<T>(work: impl Future<Output = T>, mut tick: impl FnMut(Duration)) -> T {
    let started_at = Instant::now();
    let mut ticks = interval(TICK);
    let mut work = pin!(work);
    let _cleared = Cleared;
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => {
                let elapsed = started_at.elapsed();
                if elapsed >= PATIENCE {
                    tick(elapsed);
                }
            }
        }
    }
}
