//! The terminal while `top` has it: raw mode and the other screen. It is given back whatever ends the
//! program, other than SIGKILL.

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

/// A terminal that is given back when the value is dropped, and before a panic is told.
pub struct Screen(Terminal<CrosstermBackend<BufWriter<Stdout>>>);

impl Screen {
    pub fn enter() -> io::Result<Self> {
        restore_before_panics(restore);
        take()?;
        // From here on, whatever fails gives the terminal back.
        match Terminal::new(CrosstermBackend::new(screen::canvas())) {
            Ok(terminal) => Ok(Self(terminal)),
            Err(error) => {
                restore();
                Err(error)
            }
        }
    }

    /// Takes the terminal again, whoever had it meanwhile.
    pub fn retake(&mut self) -> io::Result<()> {
        // The mode that a shell has set is not raw, whatever was noted of it.
        restore();
        take()?;
        self.clear()
    }

    /// Draws everything at the next frame, not only what changes.
    pub fn clear(&mut self) -> io::Result<()> {
        // `Terminal::clear` would ask the terminal for the cursor, and wait for the answer among the keys.
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

/// Gives the terminal back. Harmless where that was done already.
pub fn restore() {
    // A terminal that is gone needs nothing.
    let mut canvas = screen::canvas();
    execute!(canvas, LeaveAlternateScreen, Show).ok();
    disable_raw_mode().ok();
}

/// What a panic says would be lost on the other screen.
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

    /// What happened first has the smaller number.
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
