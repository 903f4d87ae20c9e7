//! Colours and symbols: whether a stream gets them, and the look of each status.
//!
//! A colour always comes with a word of the same meaning. Only escape sequences of this module reach a
//! terminal, around text that `screen` has escaped.

use std::{
    env,
    ffi::OsString,
    sync::atomic::{AtomicU8, Ordering::Relaxed},
};

use anstyle::{AnsiColor, Style};
use clap::ValueEnum;

/// The value of `--color`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ColourMode {
    /// On a terminal, unless `NO_COLOR` is set; elsewhere if `CLICOLOR_FORCE` is set
    #[default]
    Auto,
    Always,
    Never,
}

/// The value of `--color`. It is global, like the process's streams.
static WHEN: AtomicU8 = AtomicU8::new(ColourMode::Auto as u8);

impl ColourMode {
    /// Applies to all later output.
    pub fn hold(self) {
        #[cfg(windows)]
        anstyle_query::windows::enable_ansi_colors();
        WHEN.store(self as u8, Relaxed);
    }

    /// The value of `--color` in the process's arguments, before they are parsed.
    pub fn of_arguments() -> Self {
        let ours: Vec<OsString> = env::args_os()
            .take_while(|argument| argument != "--")
            .collect();
        let parse = |word: &str| Self::from_str(word, false).ok();
        let joined = ours
            .iter()
            .filter_map(|argument| parse(argument.to_str()?.strip_prefix("--color=")?));
        let apart = ours.windows(2).filter(|pair| pair[0] == "--color");
        let apart = apart.filter_map(|pair| parse(pair[1].to_str()?));
        joined.chain(apart).next().unwrap_or_default()
    }

    fn in_force() -> Self {
        match WHEN.load(Relaxed) {
            always if always == Self::Always as u8 => Self::Always,
            never if never == Self::Never as u8 => Self::Never,
            _ => Self::Auto,
        }
    }
}

impl From<ColourMode> for clap::ColorChoice {
    fn from(when: ColourMode) -> Self {
        match when {
            ColourMode::Auto => Self::Auto,
            ColourMode::Always => Self::Always,
            ColourMode::Never => Self::Never,
        }
    }
}

/// The meaning of a text, which decides its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    #[default]
    Plain,
    /// The head of a table.
    Head,
    /// Healthy.
    Good,
    /// In progress, or degraded.
    Busy,
    /// Down or failed.
    Bad,
    /// Off, or less important.
    Off,
    /// Advice.
    Hint,
}

impl Tone {
    /// The tone of a status word of servers, health or calls.
    pub fn for_status(status: &str) -> Self {
        match status {
            "connected" | "healthy" | "ok" | "on" => Self::Good,
            "connecting" | "reconnecting" | "stopping" | "degraded" | "pending" | "unhealthy"
            | "open" | "cancelled" => Self::Busy,
            "error" | "failed" | "crashed" | "timeout" | "unknown" | "refused" | "expired" => {
                Self::Bad
            }
            "disconnected" | "disabled" | "off" => Self::Off,
            _ => Self::Plain,
        }
    }

    fn style(self) -> Style {
        let colour = |colour: AnsiColor| colour.on_default();
        match self {
            Self::Plain => Style::new(),
            Self::Head => Style::new().bold(),
            Self::Good => colour(AnsiColor::Green),
            Self::Busy => colour(AnsiColor::Yellow),
            Self::Bad => colour(AnsiColor::Red).bold(),
            Self::Off => Style::new().dimmed(),
            Self::Hint => colour(AnsiColor::Cyan),
        }
    }

    /// A symbol one column wide. Each tone has a different shape, for readers who see no colours.
    pub fn symbol(self) -> Option<&'static str> {
        match self {
            Self::Good => Some("●"),
            Self::Busy => Some("◐"),
            Self::Bad => Some("✗"),
            Self::Off => Some("○"),
            Self::Plain | Self::Head | Self::Hint => None,
        }
    }
}

/// The colours and symbols that a stream supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Palette {
    pub colours: bool,
    pub symbols: bool,
}

impl Palette {
    /// Text only.
    pub const PLAIN: Self = Self {
        colours: false,
        symbols: false,
    };

    /// The palette of a stream of this process.
    pub fn for_stream(is_terminal: bool) -> Self {
        let var = |name: &str| env::var_os(name);
        Self {
            colours: has_colours(ColourMode::in_force(), is_terminal, var),
            symbols: has_symbols(is_terminal, var),
        }
    }

    /// Escaped text in the colour of its tone.
    pub fn paint(self, text: &str, tone: Tone) -> String {
        let style = tone.style();
        if !self.colours || text.is_empty() || style == Style::new() {
            return text.to_owned();
        }
        format!("{style}{text}{style:#}")
    }

    /// A status word behind its symbol, if symbols are supported.
    #[cfg(test)]
    pub fn word(self, status: &str) -> String {
        match Tone::for_status(status).symbol().filter(|_| self.symbols) {
            Some(symbol) => format!("{symbol} {status}"),
            None => status.to_owned(),
        }
    }
}

/// The option comes first, then <https://no-color.org>, then <https://bixense.com/clicolors>.
fn has_colours(
    when: ColourMode,
    is_terminal: bool,
    var: impl Fn(&str) -> Option<OsString>,
) -> bool {
    let set = |name| var(name).filter(|value| !value.is_empty());
    let is_dumb = || set("TERM").is_some_and(|term| term == "dumb");
    match when {
        ColourMode::Always => true,
        ColourMode::Never => false,
        ColourMode::Auto if set("NO_COLOR").is_some() => false,
        ColourMode::Auto if set("CLICOLOR_FORCE").is_some_and(|value| value != "0") => true,
        ColourMode::Auto if set("CLICOLOR").is_some_and(|value| value == "0") => false,
        ColourMode::Auto => is_terminal && !is_dumb(),
    }
}

/// True for a terminal whose character set is UTF-8 by the locale (POSIX, "Environment Variables").
fn has_symbols(is_terminal: bool, var: impl Fn(&str) -> Option<OsString>) -> bool {
    let set = |name: &str| var(name).filter(|value| !value.is_empty());
    if !is_terminal || set("TERM").is_some_and(|term| term == "dumb" || term == "linux") {
        return false;
    }
    if cfg!(windows) {
        return set("WT_SESSION").is_some() || set("TERM_PROGRAM").is_some();
    }
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    let locale = locale.unwrap_or_default().to_string_lossy().to_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

#[cfg(test)]
mod tests {
    use mainstay_core::lifecycle::SessionState;

    use super::*;

    fn variables<'v>(set: &'v [(&str, &str)]) -> impl Fn(&str) -> Option<OsString> + 'v {
        |name| {
            let found = set.iter().find(|(variable, _)| *variable == name)?;
            Some(found.1.into())
        }
    }

    #[test]
    fn the_option_wins_over_the_environment_and_the_environment_over_the_terminal() {
        use ColourMode::{Always, Auto, Never};
        for (when, is_terminal, set, expected) in [
            (Auto, true, &[][..], true),
            (Auto, false, &[], false),
            (Auto, true, &[("NO_COLOR", "1")], false),
            (Auto, true, &[("NO_COLOR", "")], true),
            (Auto, true, &[("TERM", "dumb")], false),
            (Auto, true, &[("CLICOLOR", "0")], false),
            (Auto, false, &[("CLICOLOR_FORCE", "1")], true),
            (Auto, false, &[("CLICOLOR_FORCE", "0")], false),
            (
                Auto,
                false,
                &[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")],
                false,
            ),
            (Always, false, &[("NO_COLOR", "1")], true),
            (Never, true, &[("CLICOLOR_FORCE", "1")], false),
        ] {
            let found = has_colours(when, is_terminal, variables(set));
            assert_eq!(found, expected, "{when:?} {is_terminal} {set:?}");
        }
    }

    #[test]
    fn symbols_need_a_terminal_of_utf_8() {
        for (is_terminal, set, expected) in [
            (true, &[("LANG", "en_GB.UTF-8")][..], true),
            (true, &[("LC_CTYPE", "C.utf8")], true),
            (true, &[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")], false),
            (true, &[("LANG", "en_GB.ISO-8859-1")], false),
            (true, &[("LANG", "C.UTF-8"), ("TERM", "linux")], false),
            (true, &[], false),
            (false, &[("LANG", "en_GB.UTF-8")], false),
        ] {
            if cfg!(unix) {
                let found = has_symbols(is_terminal, variables(set));
                assert_eq!(found, expected, "{is_terminal} {set:?}");
            }
        }
    }

    /// Each status has a tone, and each such tone a symbol, because a colour alone is not accessible.
    #[test]
    fn every_status_of_a_server_has_a_symbol() {
        let palette = Palette {
            colours: true,
            symbols: true,
        };
        let states = SessionState::ALL.map(SessionState::as_str);
        for status in states.into_iter().chain(["disabled", "pending"]) {
            let word = palette.word(status);
            assert_ne!(word, status);
            assert!(word.ends_with(status));
        }
        assert_eq!(Palette::PLAIN.word("connected"), "connected");
        assert_eq!(palette.paint("x", Tone::Plain), "x");
        assert_eq!(palette.paint("x", Tone::Good), "\u{1b}[32mx\u{1b}[0m");
        assert_eq!(Palette::PLAIN.paint("x", Tone::Good), "x");
    }
}
