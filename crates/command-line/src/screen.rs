//! All output to stdout and stderr. Output may contain external text, so all of it is escaped by
//! [`mainstay_core::display`]: a terminal gets no character that it would interpret or hide. `clippy.toml`
//! forbids the handles everywhere else. `progress` draws the progress line.
//!
//! Text for people is escaped even if stdout is not a terminal, because it may be a pager. Data (`data`,
//! `bytes`, `json`) keeps its bytes unless stdout is a terminal. stderr has no data. Colours are put around
//! escaped text.
#![expect(clippy::disallowed_methods, reason = "this module is the way")]

use std::{
    borrow::Cow,
    env,
    ffi::OsString,
    io::{self, IsTerminal as _, Write},
    ops::ControlFlow,
    process::ExitCode,
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use mainstay_core::{display, message};
use serde::{Serialize, de::IgnoredAny};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWrite, BufReader};
use tracing::{Level, Metadata};
use tracing_subscriber::fmt::MakeWriter;

use super::{
    CommandError, progress,
    stderr_queue::LineQueue,
    style::{Palette, Tone},
    wrap::wrapped,
};

pub type Protocol = Box<dyn AsyncWrite + Unpin + Send>;

/// Bytes of the pipe between the protocol's writer and a terminal.
const PIPE: usize = 64 * 1024;

/// Time that the program's end waits for its last lines on stderr.
const STDERR_LIMIT: Duration = Duration::from_secs(1);

/// Size of the buffer for one screen in bytes, so that it is written at once.
const CANVAS: usize = 64 * 1024;

pub fn stdout_is_terminal() -> bool {
    io::stdout().is_terminal()
}

pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Stdout for a program that draws the whole screen. External text must be escaped by [`display::line`].
pub fn canvas() -> io::BufWriter<io::Stdout> {
    io::BufWriter::with_capacity(CANVAS, io::stdout())
}

/// The width of the terminal. `None` if stdout is not a terminal: programs get whole lines.
pub fn width() -> Option<usize> {
    let size = terminal_size::terminal_size_of(io::stdout());
    let (terminal_size::Width(width), _) = size.filter(|_| stdout_is_terminal())?;
    Some(width.into()).filter(|width| *width > 0)
}

/// The colours and symbols that stdout supports.
pub fn palette() -> Palette {
    Palette::for_stream(stdout_is_terminal())
}

/// Prints lines on stdout whose parts were escaped before they were coloured.
pub fn escaped(lines: &[String]) -> Result<(), CommandError> {
    print(lines.join("\n").as_bytes(), true)
}

/// Lines that are updated: in place on a terminal, otherwise below each other.
#[derive(Default)]
pub struct Redraw {
    /// The lines on the screen.
    rows: Vec<String>,
    /// The width of the terminal when they were printed.
    width: Option<usize>,
}

impl Redraw {
    /// Prints lines whose parts were escaped, unless they are unchanged. A terminal gets only as many lines
    /// as it is high, so that the first one can be overwritten.
    pub fn show(&mut self, mut lines: Vec<String>) -> Result<(), CommandError> {
        let (width, height) = (width(), height());
        if let Some(height) = height {
            lines.truncate(height.saturating_sub(1));
        }
        if self.rows == lines && self.width == width {
            return Ok(());
        }
        let back = match self.rows.len() {
            0 => String::new(),
            // Lines of another width may have been wrapped.
            _ if self.width != width => "\u{1b}[H\u{1b}[2J".to_owned(),
            lines => format!("\u{1b}[{lines}A\r\u{1b}[J"),
        };
        let back = if width.is_some() { &*back } else { "" };
        let between = if width.is_none() && !self.rows.is_empty() {
            "\n"
        } else {
            ""
        };
        print(
            format!("{back}{between}{}", lines.join("\n")).as_bytes(),
            true,
        )?;
        (self.rows, self.width) = (lines, width);
        Ok(())
    }

    /// Prints other output, unless it is unchanged.
    pub fn once(
        &mut self,
        text: String,
        print: impl FnOnce() -> Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        if self.rows.first() == Some(&text) {
            return Ok(());
        }
        self.rows = vec![text];
        print()
    }
}

/// The height of the terminal.
fn height() -> Option<usize> {
    let size = terminal_size::terminal_size_of(io::stdout());
    let (_, terminal_size::Height(height)) = size.filter(|_| stdout_is_terminal())?;
    Some(height.into()).filter(|height| *height > 0)
}

/// Prints a line for people on stdout.
pub fn line(text: &str) -> Result<(), CommandError> {
    print(display::line(text).as_bytes(), true)
}

/// Prints a sentence for people on stdout, escaped. On a terminal the sentence is wrapped between
/// words.
pub fn sentence(text: &str) -> Result<(), CommandError> {
    let escaped = display::line(text);
    let escaped = match width() {
        Some(width) => wrapped(&escaped, width).join("\n"),
        None => escaped.into_owned(),
    };
    print(escaped.as_bytes(), true)
}

/// Prints lines for people on stdout. External text in a line must be escaped by [`display::line`], because
/// it could otherwise look like another line.
pub fn text(text: &str) -> Result<(), CommandError> {
    print(display::lines(text).as_bytes(), true)
}

/// Prints text for programs on stdout. It is unchanged unless stdout is a terminal.
pub fn data(text: &str) -> Result<(), CommandError> {
    let visible = if stdout_is_terminal() {
        display::lines(text)
    } else {
        Cow::Borrowed(text)
    };
    print(visible.as_bytes(), true)
}

/// Prints lines of text or JSON for programs. Breaks if the reader is gone.
pub fn stream(lines: &str, are_json: bool) -> Result<ControlFlow<()>, CommandError> {
    let visible = match (stdout_is_terminal(), are_json) {
        (false, _) => Cow::Borrowed(lines),
        (true, false) => display::lines(lines),
        (true, true) => display::json(lines),
    };
    write(visible.as_bytes(), true)
}

/// Prints bytes, JSON or not. A pipe gets exactly these.
pub fn bytes(bytes: &[u8]) -> Result<(), CommandError> {
    if !stdout_is_terminal() {
        return print(bytes, false);
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if serde_json::from_str::<IgnoredAny>(text).is_ok() => {
            print(display::json(text).as_bytes(), true)
        }
        _ => print(display::bytes(bytes).as_bytes(), true),
    }
}

/// Prints data as one line of JSON on stdout; raw parts keep their bytes. On a terminal it is equivalent
/// JSON.
pub fn json(data: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string(data).map_err(|error| CommandError::Output(error.into()))?;
    json_text(&message::one_line(&text))
}

/// Like [`json`], on several lines.
pub fn pretty(data: &serde_json::Value) -> Result<(), CommandError> {
    json_text(&format!("{data:#}"))
}

fn json_text(text: &str) -> Result<(), CommandError> {
    let visible = if stdout_is_terminal() {
        display::json(text)
    } else {
        Cow::Borrowed(text)
    };
    print(visible.as_bytes(), true)
}

/// A reader that closes the pipe early (`| head`) is not an error.
fn print(bytes: &[u8], ends_line: bool) -> Result<(), CommandError> {
    write(bytes, ends_line).map(drop)
}

/// Breaks if the reader is gone.
fn write(bytes: &[u8], ends_line: bool) -> Result<ControlFlow<()>, CommandError> {
    let end: &[u8] = if ends_line && !bytes.ends_with(b"\n") {
        b"\n"
    } else {
        b""
    };
    let printed = progress::without_line(|| {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.write_all(end)?;
        stdout.flush()
    });
    match printed {
        Ok(()) => Ok(ControlFlow::Continue(())),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(ControlFlow::Break(())),
        Err(error) => Err(CommandError::Output(error)),
    }
}

/// The width of the terminal on stderr, in columns. `None` if stderr is not a terminal.
fn width_of_stderr() -> Option<usize> {
    let size = terminal_size::terminal_size_of(io::stderr());
    let (terminal_size::Width(width), _) = size.filter(|_| stderr_is_terminal())?;
    Some(width.into()).filter(|width| *width > 0)
}

/// Beginnings of lines that are sentences, which are broken between words on a terminal. Other lines are
/// printed exactly.
const SENTENCES: [&str; 4] = ["error:", "warning:", "note:", "  hint:"];

/// True if lines for people are JSON, too.
static NOTES_ARE_JSON: AtomicBool = AtomicBool::new(false);

/// Prints later lines for people on stderr as JSON, unless stderr is a terminal.
pub fn notes_as_json() {
    NOTES_ARE_JSON.store(!stderr_is_terminal(), Ordering::Relaxed);
}

/// A line for people as JSON: `{"note": …}`, `{"warning": …}` or `{"hint": …}`.
fn note_as_json(line: &str) -> Value {
    let line = line.trim();
    let kinds = ["warning", "hint", "note"].into_iter();
    let mut notes = kinds.filter_map(|kind| {
        let rest = line.strip_prefix(kind)?.strip_prefix(':')?;
        Some(json!({kind: rest.trim_start()}))
    });
    notes.next().unwrap_or_else(|| json!({"note": line}))
}

/// Prints a line on stderr. The word that classifies it is coloured.
pub fn complain(line: &str) {
    if NOTES_ARE_JSON.load(Ordering::Relaxed) {
        complain_json(&note_as_json(line));
        return;
    }
    let escaped = display::line(line);
    let is_sentence = SENTENCES.iter().any(|word| escaped.starts_with(word));
    let escaped = match width_of_stderr().filter(|_| is_sentence) {
        Some(width) => wrapped(&escaped, width).join("\n"),
        None => escaped.into_owned(),
    };
    let palette = Palette::for_stream(io::stderr().is_terminal());
    let tones = [
        ("error:", Tone::Bad),
        ("warning:", Tone::Busy),
        ("  hint:", Tone::Hint),
        ("  | ", Tone::Off),
    ];
    let prefixes = tones.into_iter();
    let mut prefixes =
        prefixes.filter_map(|(word, tone)| Some((word, escaped.strip_prefix(word)?, tone)));
    let line = match prefixes.next() {
        Some((word, rest, tone)) => palette.paint(word, tone) + rest,
        None => escaped,
    };
    write_to_stderr(&line);
}

/// Prints JSON as a line on stderr.
pub(crate) fn complain_json(value: &serde_json::Value) {
    write_to_stderr(&display::json(&value.to_string()));
}

/// The queue of lines for stderr, in a program that serves others.
static STDERR_QUEUE: OnceLock<&'static LineQueue> = OnceLock::new();

/// Starts a thread that writes to stderr, so that no other code waits for a terminal, a pipe or a disk.
pub(crate) fn queue_stderr() -> io::Result<()> {
    let queue: &LineQueue = Box::leak(Box::default());
    thread::Builder::new()
        .name("stderr".into())
        .spawn(|| queue.write_to(io::stderr()))?;
    STDERR_QUEUE.set(queue).ok();
    Ok(())
}

/// Waits a moment for queued lines to be written.
pub(crate) fn flush_stderr() {
    if let Some(queue) = STDERR_QUEUE.get() {
        queue.flush(STDERR_LIMIT);
    }
}

fn write_to_stderr(line: &str) {
    match STDERR_QUEUE.get() {
        Some(queue) => queue.push(line),
        // Without stderr the error cannot be reported.
        None => drop(progress::without_line(|| {
            writeln!(io::stderr().lock(), "{line}").ok()
        })),
    }
}

/// Prints a question on stderr. The answer is typed behind it.
pub fn ask(question: &str) {
    // The answer is typed on the same row.
    progress::clear();
    // Without stderr the question is not visible.
    write!(io::stderr().lock(), "{} ", display::line(question)).ok();
}

/// Prints an error about the arguments, which may be copied from a server's text; or the help that was
/// requested.
pub fn usage(mut error: clap::Error) -> ExitCode {
    escape_arguments(&mut error);
    let text = error.render().to_string();
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        text.lines().for_each(complain);
    } else if error.use_stderr() {
        usage_error(&text).report(asks_for_json(env::args_os().skip(1)));
    } else {
        // Without stdout there is no reader.
        error.print().ok();
    }
    u8::try_from(error.exit_code()).map_or(ExitCode::FAILURE, ExitCode::from)
}

/// Escapes the arguments that an error quotes, because a line break in one would begin another line. Of
/// several suggested commands, the nearest is named.
fn escape_arguments(error: &mut clap::Error) {
    let escaped = |text: &String| display::line(text).into_owned();
    let context = error.context().filter_map(|(kind, value)| {
        Some(match value {
            ContextValue::String(text) => (kind, ContextValue::String(escaped(text))),
            // clap puts the nearest last.
            ContextValue::Strings(texts) if kind == ContextKind::SuggestedSubcommand => {
                let nearest = texts.iter().rev().take(1).map(escaped).collect();
                (kind, ContextValue::Strings(nearest))
            }
            ContextValue::Strings(texts) => {
                let texts = texts.iter().map(escaped).collect();
                (kind, ContextValue::Strings(texts))
            }
            _ => return None,
        })
    });
    let context: Vec<_> = context.collect();
    for (kind, value) in context {
        error.insert(kind, value);
    }
}

/// True if `--json` or `-o json` is among the arguments, before those of a server's command.
fn asks_for_json(arguments: impl Iterator<Item = OsString>) -> bool {
    let ours = arguments.take_while(|argument| argument != "--");
    let ours: Vec<OsString> = ours.collect();
    let after = |word: &str| {
        ours.windows(2)
            .any(|pair| pair[0] == word && pair[1] == "json")
    };
    let whole = ["--json", "-ojson", "-o=json", "--output=json"];
    ours.iter()
        .any(|argument| whole.iter().any(|option| argument == option))
        || after("-o")
        || after("--output")
}

/// Turns an error of clap into ours. The message is its first paragraph. The hint is the advice in the next
/// ones, or the usage.
fn usage_error(text: &str) -> CommandError {
    let paragraph = |text: &str| {
        let words = text.lines().map(str::trim);
        words.collect::<Vec<_>>().join(" ")
    };
    let mut paragraphs = text.trim().split("\n\n");
    let message = paragraph(paragraphs.next().unwrap_or_default());
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    let rest: Vec<&str> = paragraphs.map(str::trim).collect();
    let tip = rest
        .iter()
        .find_map(|paragraph_text| paragraph_text.strip_prefix("tip: "));
    let usage = rest
        .iter()
        .find_map(|paragraph_text| paragraph_text.strip_prefix("Usage: "));
    let hint = match (tip, usage) {
        (Some(tip), _) => paragraph(tip),
        (None, Some(usage)) if !usage.contains('\n') => {
            format!("usage: {usage}; --help shows what can be given")
        }
        (None, _) => "--help shows what can be given".to_owned(),
    };
    CommandError::Usage {
        message: message.to_owned(),
        hint: Some(hint),
    }
}

/// The output of the protocol, and the task that prints it on a terminal until it is dropped. On a terminal a
/// person tries the protocol by hand, so messages are printed as equivalent JSON.
pub fn protocol() -> (Protocol, impl Future<Output = ()> + Send) {
    let is_terminal = stdout_is_terminal();
    let (writer, reader) = tokio::io::duplex(PIPE);
    let protocol: Protocol = if is_terminal {
        Box::new(writer)
    } else {
        Box::new(tokio::io::stdout())
    };
    let show = async move {
        if !is_terminal {
            return;
        }
        let mut messages = BufReader::new(reader).split(b'\n');
        // The task ends with the writer.
        while let Ok(Some(message)) = messages.next_segment().await {
            let message = String::from_utf8_lossy(&message);
            if print(display::json(&message).as_bytes(), true).is_err() {
                return;
            }
        }
    };
    (protocol, show)
}

/// Resolves when stdout cannot be read any more: the other end of its pipe is closed. Otherwise a
/// client that is gone would be noticed with the next message to it, which may never come.
#[cfg(unix)]
pub async fn gone() {
    use rustix::{
        event::{PollFd, PollFlags, poll},
        io::Errno,
    };
    let (report_closed, closed) = tokio::sync::oneshot::channel();
    // Files must be polled on a separate thread. It ends with the process.
    std::thread::spawn(move || {
        let stdout = io::stdout();
        // No event is requested: errors and the other end's close are always reported.
        let mut stdout = [PollFd::new(&stdout, PollFlags::empty())];
        let is_gone = loop {
            match poll(&mut stdout, None) {
                Err(Errno::INTR) | Ok(0) => {}
                polled => break polled.is_ok(),
            }
        };
        if is_gone {
            report_closed.send(()).ok();
        }
    });
    if closed.await.is_err() {
        std::future::pending().await
    }
}

#[cfg(not(unix))]
pub async fn gone() {
    std::future::pending().await
}

/// Writes lines of the log to stderr.
pub(crate) struct Log {
    colours: bool,
}

impl Log {
    /// With colours if stderr supports them.
    pub fn new() -> Self {
        Self {
            colours: Palette::for_stream(io::stderr().is_terminal()).colours,
        }
    }
}

impl MakeWriter<'_> for Log {
    type Writer = LogLine;

    fn make_writer(&self) -> LogLine {
        LogLine { level: None }
    }

    fn make_writer_for(&self, metadata: &Metadata<'_>) -> LogLine {
        LogLine {
            level: self.colours.then_some(*metadata.level()),
        }
    }
}

/// One line: the subscriber writes a whole event at a time.
pub(crate) struct LogLine {
    /// The level, if its word is coloured.
    level: Option<Level>,
}

impl Write for LogLine {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let escaped = display::bytes(event);
        let escaped = display::line(escaped.trim_end());
        let line = match self.level {
            Some(level) => coloured(&escaped, level),
            None => escaped.into_owned(),
        };
        write_to_stderr(&line);
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The level's word stands behind the time, and is the first of its kind in the line.
fn coloured(line: &str, level: Level) -> String {
    let colour = match level {
        Level::ERROR => 31,
        Level::WARN => 33,
        Level::INFO => 32,
        Level::DEBUG => 34,
        Level::TRACE => 35,
    };
    let word = level.as_str();
    line.replacen(word, &format!("\u{1b}[{colour}m{word}\u{1b}[0m"), 1)
}
