//! The line editor. It has its own thread because it blocks.

use std::{
    borrow::Cow,
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use nu_ansi_term::Style;
use parking_lot::Mutex;
use reedline::{
    Color, ColumnarMenu, Completer, EditCommand, EditMode, Emacs, FileBackedHistory, Highlighter,
    History as _, HistoryItem, KeyCode, KeyModifiers, MenuBuilder as _, PromptEditMode,
    PromptHistorySearch, Reedline, ReedlineEvent, ReedlineMenu, ReedlineRawEvent, Signal, Span,
    StyledText, Suggestion, default_emacs_keybindings,
};
use tokio::sync::mpsc as async_mpsc;

use super::{
    complete::complete,
    notices::{LOOK, Notices},
    watch::Names,
};

const MENU: &str = "completion";

/// The user's input.
#[derive(Debug)]
pub enum Input {
    Line(String),
    /// Ctrl-C: the line is discarded.
    Cleared,
    /// Ctrl-D, or the terminal is gone.
    End,
    Failed(io::Error),
}

/// The time limit for the end of the editor's thread, and the interval of checks.
const GIVEN_BACK_WITHIN: Duration = Duration::from_millis(500);
const GLANCE: Duration = Duration::from_millis(5);

/// The thread that edits lines.
pub struct Prompt {
    /// Each message requests one line.
    requests: mpsc::Sender<()>,
    inputs: async_mpsc::Receiver<Input>,
    /// True to stop the editing of a line.
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
    notices: Notices,
}

impl Prompt {
    /// Starts the thread. `lines` is the history, oldest first.
    pub fn start(lines: &[String], names: Names, notices: &Notices) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let mut editor = editor(lines, names, notices)
            .map_err(io::Error::other)?
            .with_break_signal(Arc::clone(&stop));
        let (requests, incoming) = mpsc::channel::<()>();
        let (tell, inputs) = async_mpsc::channel(1);
        let thread = thread::Builder::new().name("prompt".to_owned());
        let thread = thread.spawn(move || {
            while incoming.recv().is_ok() {
                let input = match editor.read_line(&Plain) {
                    Ok(Signal::Success(line)) => Input::Line(line),
                    Ok(Signal::CtrlC) => Input::Cleared,
                    // These are the break signal and signals of later versions of the crate.
                    Ok(_) => Input::End,
                    Err(error) => Input::Failed(error),
                };
                if tell.blocking_send(input).is_err() {
                    return;
                }
            }
        })?;
        Ok(Self {
            requests,
            inputs,
            stop,
            thread,
            notices: notices.clone(),
        })
    }

    /// Shows the prompt, and waits for a line. Notices appear above the prompt during the wait.
    pub async fn line(&mut self) -> Input {
        self.notices.typing_begins();
        if self.requests.send(()).is_err() {
            return Input::End;
        }
        let input = self.inputs.recv().await;
        self.notices.typing_ends();
        // No input means that the thread has panicked.
        input.unwrap_or(Input::End)
    }

    /// Ends the thread, which restores the terminal. If the terminal has gone, the thread may block until
    /// the process ends.
    pub fn end(self) {
        let Self {
            requests,
            inputs,
            stop,
            thread,
            ..
        } = self;
        stop.store(true, Ordering::Relaxed);
        drop((requests, inputs));
        let until = Instant::now() + GIVEN_BACK_WITHIN;
        while !thread.is_finished() {
            if Instant::now() >= until {
                return;
            }
            thread::sleep(GLANCE);
        }
        if thread.join().is_err() {
            tracing::error!("the prompt failed");
        }
    }
}

fn editor(lines: &[String], names: Names, notices: &Notices) -> reedline::Result<Reedline> {
    let mut history = FileBackedHistory::new(lines.len() + 10_000)?;
    for line in lines {
        history.save(HistoryItem::from_command_line(line))?;
    }
    let line = Line::default();
    let mut keys = default_emacs_keybindings();
    let next = ReedlineEvent::UntilFound(vec![
        ReedlineEvent::Menu(MENU.to_owned()),
        ReedlineEvent::MenuNext,
        ReedlineEvent::Edit(vec![EditCommand::Complete]),
    ]);
    keys.add_binding(KeyModifiers::NONE, KeyCode::Tab, next);
    keys.add_binding(
        KeyModifiers::SHIFT,
        KeyCode::BackTab,
        ReedlineEvent::MenuPrevious,
    );
    // Show the selection in reverse. Colours would have to respect NO_COLOR.
    let chosen = Style::new().reverse();
    let menu = ColumnarMenu::default()
        .with_name(MENU)
        .with_marker("")
        .with_text_style(Style::new())
        .with_match_text_style(Style::new())
        .with_description_text_style(Style::new())
        .with_selected_text_style(chosen)
        .with_selected_match_text_style(chosen);
    Ok(Reedline::create()
        .with_history(Box::new(history))
        .with_completer(Box::new(FromNames(Arc::clone(&names))))
        .with_quick_completions(true)
        .with_partial_completions(true)
        .with_menu(ReedlineMenu::EngineCompleter(Box::new(menu)))
        .with_edit_mode(Box::new(Keys {
            emacs: Emacs::new(keys),
            names,
            line: Arc::clone(&line),
        }))
        .with_external_printer(notices.printer())
        .with_poll_interval(LOOK)
        .with_highlighter(Box::new(Seen(line)))
        .use_bracketed_paste(true))
}

/// The key bindings of Emacs. They open the menu of completions only if it has entries, because Enter in an
/// empty menu would only close the menu.
struct Keys {
    emacs: Emacs,
    names: Names,
    line: Line,
}

impl EditMode for Keys {
    fn parse_event(&mut self, event: ReedlineRawEvent) -> ReedlineEvent {
        let event = self.emacs.parse_event(event);
        match event {
            // Close an empty menu first, so that Enter submits the line.
            ReedlineEvent::Enter if !self.any_fits() => {
                ReedlineEvent::Multiple(vec![ReedlineEvent::Esc, ReedlineEvent::Submit])
            }
            ReedlineEvent::UntilFound(events)
                if matches!(events.first(), Some(ReedlineEvent::Menu(menu)) if menu == MENU)
                    && !self.any_fits() =>
            {
                ReedlineEvent::Esc
            }
            event => event,
        }
    }

    fn edit_mode(&self) -> PromptEditMode {
        self.emacs.edit_mode()
    }
}

impl Keys {
    fn any_fits(&self) -> bool {
        let names = Arc::clone(&self.names.lock());
        let line = self.line.lock();
        !complete(&line.0, line.1, &names).is_empty()
    }
}

struct FromNames(Names);

impl Completer for FromNames {
    fn complete(&mut self, line: &str, place: usize) -> Vec<Suggestion> {
        let names = Arc::clone(&self.0.lock());
        let candidates = complete(line, place, &names).into_iter();
        candidates
            .map(|candidate| Suggestion {
                value: candidate.text,
                description: Some(candidate.about).filter(|about| !about.is_empty()),
                span: Span::new(candidate.from, candidate.until),
                append_whitespace: candidate.is_whole,
                ..Suggestion::default()
            })
            .collect()
    }
}

/// A prompt without colours.
struct Plain;

/// The last displayed line, and the offset of the cursor.
type Line = Arc<Mutex<(String, usize)>>;

/// A highlighter that stores each displayed line for [`Keys`], and adds no colours.
struct Seen(Line);

impl Highlighter for Seen {
    fn highlight(&self, line: &str, place: usize) -> StyledText {
        *self.0.lock() = (line.to_owned(), place);
        StyledText {
            buffer: vec![(Style::new(), line.to_owned())],
        }
    }
}

impl reedline::Prompt for Plain {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("mainstay> ")
    }

    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_indicator(&self, _: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("")
    }

    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("        > ")
    }

    fn get_prompt_color(&self) -> Color {
        Color::Reset
    }

    fn get_prompt_right_color(&self) -> Color {
        Color::Reset
    }

    fn get_indicator_color(&self) -> Color {
        Color::Reset
    }

    fn get_prompt_multiline_color(&self) -> nu_ansi_term::Color {
        nu_ansi_term::Color::Default
    }

    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }
}
