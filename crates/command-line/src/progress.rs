//! The line on stderr that says what is under way, on a terminal only. It is drawn by `indicatif`, above which
//! everything else is written.

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

/// What takes longer is told of.
pub const PATIENCE: Duration = Duration::from_millis(500);

/// How often it is shown how long something takes.
const TICK: Duration = Duration::from_millis(100);

/// There is one terminal.
static LINE: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Whether lines of this kind can be shown.
fn is_shown() -> bool {
    let is_dumb = || env::var_os("TERM").is_some_and(|term| term == "dumb");
    is_terminal() && !is_dumb()
}

#[expect(clippy::disallowed_methods, reason = "nothing is written to it here")]
fn is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Shows a line in the place of the last one. It is escaped, and cut to one row.
pub fn show(line: &str) {
    if !is_shown() {
        return;
    }
    let mut shown = LINE.lock();
    let bar = shown.get_or_insert_with(bar);
    bar.set_message(display::line(line).into_owned());
    bar.tick();
}

fn bar() -> ProgressBar {
    let target = ProgressDrawTarget::stderr_with_hz(10);
    let bar = ProgressBar::with_draw_target(None, target);
    let turns = if Palette::of(true).symbols {
        "◐◓◑◒ "
    } else {
        "|/-\\ "
    };
    let style = ProgressStyle::with_template("{spinner} {wide_msg}");
    // The template is known to be right.
    style.map_or(bar.clone(), |style| bar.with_style(style.tick_chars(turns)))
}

/// Takes the line away, if there is one.
pub fn clear() {
    if let Some(bar) = LINE.lock().take() {
        bar.finish_and_clear();
    }
}

/// Writes to the terminal while the line is away.
pub fn beside<T>(write: impl FnOnce() -> T) -> T {
    match &*LINE.lock() {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Takes the line away when it is dropped, also where its work is given up.
struct Cleared;

impl Drop for Cleared {
    fn drop(&mut self) {
        clear();
    }
}

/// Does work, and calls `tick` again and again once it takes longer than [`PATIENCE`].
pub async fn ticking<T>(work: impl Future<Output = T>, mut tick: impl FnMut(Duration)) -> T {
    let begun = Instant::now();
    let mut ticks = interval(TICK);
    let mut work = pin!(work);
    let _cleared = Cleared;
    loop {
        tokio::select! {
            done = &mut work => return done,
            _ = ticks.tick() => {
                let took = begun.elapsed();
                if took >= PATIENCE {
                    tick(took);
                }
            }
        }
    }
}
