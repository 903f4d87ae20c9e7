//! The terminal while `top` uses it: raw mode and the alternate screen. It is restored whenever the
//! program ends, except by SIGKILL.

use std::{
    io::{self, BufWriter, Stdout},
    panic,
};

use crossterm::{
    cursor::{Hide, Show},
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use mainstay_command_line::screen;
use ratatui::{
    Frame, Terminal,
    backend::CrosstermBackend,
    layout::{Position, Rect},
};

/// The terminal. It is restored when this value is dropped, and before a panic is printed.
pub struct Screen(Terminal<CrosstermBackend<BufWriter<Stdout>>>);

impl Screen {
    pub fn enter() -> io::Result<Self> {
        restore_before_panics(restore);
        take()?;
        // From here on, every failure must restore the terminal.
        match Terminal::new(CrosstermBackend::new(screen::canvas())) {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Takes the terminal again after another program has used it.
    pub fn retake(&mut self) -> io::Result<()> {
        // Restore first: the shell has left raw mode, so the recorded mode may be wrong.
        restore();
        take()?;
        self.clear()
    }

    /// Makes the next frame draw everything, not only changes.
    pub fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` would query the cursor position, and would wait for the answer among the key
        // presses.
        let size = self.0.size()?;
        self.0.resize(Rect::from((Position::ORIGIN, size)))
    }

    pub fn draw(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        self.0.draw(draw).map(drop)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    let mut canvas = screen::canvas();
    execute!(canvas, EnterAlternateScreen, Hide)
}

/// Restores the terminal. May be called several times.
pub fn restore() {
    // Ignore errors: without a terminal there is nothing to restore.
    let mut canvas = screen::canvas();
    execute!(canvas, LeaveAlternateScreen, Show).ok();
    disable_raw_mode().ok();
}

/// Restores the terminal before a panic is printed. The message would be lost on the alternate screen.
fn restore_before_panics(restore: fn()) {
    let tell = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        restore();
        tell(panic);
    }));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    use super::*;

    /// The numbers of the steps. An earlier step has a smaller number.
    static STEPS: AtomicU32 = AtomicU32::new(1);
    static RESTORED: AtomicU32 = AtomicU32::new(0);
    static TOLD: AtomicU32 = AtomicU32::new(0);

    #[test]
    fn a_panic_is_told_on_a_restored_terminal() {
        let before = panic::take_hook();
        panic::set_hook(Box::new(|_| TOLD.store(STEPS.fetch_add(1, SeqCst), SeqCst)));
        restore_before_panics(|| RESTORED.store(STEPS.fetch_add(1, SeqCst), SeqCst));
        let ended = std::thread::spawn(|| panic!("on purpose")).join();
        panic::set_hook(before);
        assert!(ended.is_err());
        assert_eq!((RESTORED.load(SeqCst), TOLD.load(SeqCst)), (1, 2));
    }
}
