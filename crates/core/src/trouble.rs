//! Why a server is down, in words for people: the reason, the process's last words, and the next step.

use crate::{display::escapes, lifecycle::State};

/// The longest line of stderr that is quoted, in bytes.
const LONGEST_LINE: usize = 240;

/// How much of a long line is quoted before the word that marks an error, in bytes.
const SHOWN_BEFORE: usize = 40;

/// How much behind such a word has to be quoted with it.
const LEAST_BEHIND: usize = 60;

/// Words by which programs mark what went wrong.
const MARKS: [&str; 16] = [
    "cannot",
    "can't",
    "could not",
    "denied",
    "error",
    "exception",
    "expected",
    "failed",
    "fatal",
    "invalid",
    "missing",
    "no such",
    "not found",
    "panic",
    "required",
    "usage:",
];

/// Lines by which programs end that say nothing of what went wrong.
const ENDINGS: [&str; 9] = [
    "A complete log of this run",
    "For more information",
    "Node.js v",
    "Run '",
    "See '",
    "exit status",
    "goroutine ",
    "note: run with `RUST_BACKTRACE",
    "npm notice",
];

/// The line of a process's last stderr that says best why it ended: the last one that is marked as an
/// error, else the last one that says anything.
pub fn telling_line(stderr: &[impl AsRef<str>]) -> Option<String> {
    let stderr: Vec<_> = stderr
        .iter()
        .map(|line| escapes::without(line.as_ref()))
        .collect();
    let lines: Vec<&str> = stderr.iter().map(AsRef::as_ref).collect();
    let line = of_npm(&lines).or_else(|| {
        let mut said = lines.iter().rev().filter(|line| says_something(line));
        let marked = said.clone().find(|line| is_marked(line));
        marked.or_else(|| said.next()).copied()
    })?;
    Some(shortened(line.trim()))
}

/// The first line of npm's that says more than an error's code: it wraps what it says, and adds advice.
fn of_npm<'l>(lines: &[&'l str]) -> Option<&'l str> {
    let said = |line: &&'l str| {
        let words = line.strip_prefix("npm error ");
        let words = words.or_else(|| line.strip_prefix("npm ERR! "));
        words.is_some_and(|words| !words.starts_with("code ") && words.trim().len() > 4)
    };
    lines.iter().copied().find(said)
}

fn says_something(line: &str) -> bool {
    let text = line.trim();
    let is_frame = text.starts_with("at ") && line.starts_with(char::is_whitespace);
    let has_word = text
        .split(|c: char| !c.is_alphanumeric())
        .any(|it| it.len() > 1);
    has_word && !is_frame && !ENDINGS.iter().any(|ending| text.starts_with(ending))
}

/// Indented lines belong to what stands above them.
fn is_marked(line: &str) -> bool {
    let lower = line.to_lowercase();
    !line.starts_with(char::is_whitespace) && MARKS.iter().any(|mark| lower.contains(mark))
}

/// The part of a line that is quoted: its beginning, or what is marked as an error where that stands
/// further back.
fn shortened(line: &str) -> String {
    if line.len() <= LONGEST_LINE {
        return line.to_owned();
    }
    let lower = line.to_ascii_lowercase();
    let mark = MARKS.iter().filter_map(|mark| lower.rfind(mark)).min();
    let is_behind = |mark: &usize| *mark + LEAST_BEHIND > LONGEST_LINE;
    let Some(mark) = mark.filter(is_behind) else {
        let end = line.floor_char_boundary(LONGEST_LINE);
        return format!("{}…", &line[..end]);
    };
    let start = line.floor_char_boundary(mark.saturating_sub(SHOWN_BEFORE));
    // From the beginning of a word, if there is one.
    let word = line[start..mark].find(char::is_whitespace);
    let start = word.map_or(mark, |space| start + space + 1);
    let end = line.floor_char_boundary((start + LONGEST_LINE).min(line.len()));
    let more = if end < line.len() { "…" } else { "" };
    format!("…{}{more}", line[start..end].trim())
}

/// The reason, with what the process said last: on stderr, or else on stdout, where only messages belong.
pub fn explained(reason: &str, stderr: &[impl AsRef<str>], stdout: Option<&str>) -> String {
    match (telling_line(stderr), stdout) {
        (Some(line), _) if !reason.contains(&line) => format!("{reason}: {line}"),
        (None, Some(line)) => format!("{reason}: it {}", misplaced(line)),
        _ => reason.to_owned(),
    }
}

/// What a process does that says this on stdout.
pub fn misplaced(line: &str) -> String {
    let line = escapes::without(line);
    let line = shortened(line.trim());
    format!("writes to stdout what is no MCP message: \"{line}\"")
}

/// What a person can do about a server that is not connected. The words for terminals and the code of the
/// REST API both come from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Nothing of it is started before a person approves it.
    Approve,
    Enable,
    /// Its entry cannot be used. The file has the entry, if its changes take effect at once.
    CorrectEntry {
        file: Option<String>,
    },
    /// Its operator has stopped it, or it does not start by itself.
    Start,
    /// It is down, and its process has written no log.
    TryAgain,
    /// It is down, and its process has written a log.
    SeeLogAndStart,
    /// It is tried again by itself, and its process has written a log.
    SeeLog,
    /// It is tried again by itself.
    Wait,
    /// The server accepts no credentials of the entry.
    SetCredentials,
}

impl NextStep {
    /// The step for a server that is to be up; `has_log` where its process has written something.
    pub fn of(state: State, unauthorized: bool, has_log: bool) -> Option<Self> {
        match (state, has_log) {
            (State::Connected | State::Connecting | State::Stopping, _) => None,
            _ if unauthorized => Some(Self::SetCredentials),
            (State::Reconnecting, true) => Some(Self::SeeLog),
            (State::Reconnecting, false) => Some(Self::Wait),
            (State::Disconnected | State::Error | State::Failed | State::Crashed, true) => {
                Some(Self::SeeLogAndStart)
            }
            (State::Disconnected | State::Error | State::Failed | State::Crashed, false) => {
                Some(Self::TryAgain)
            }
        }
    }

    /// In words for the server `name`; nothing where there is nothing to do.
    pub fn words(&self, name: &str) -> Option<String> {
        let start = format!("\"mainstay start {name}\"");
        let log = format!("\"mainstay logs {name}\"");
        Some(match self {
            Self::Approve => format!("approve it by \"mainstay approve {name}\""),
            Self::Enable => format!("enable it by \"mainstay enable {name}\""),
            Self::CorrectEntry { file: Some(file) } => {
                format!("correct its entry in {file}; the file is read again at once")
            }
            Self::CorrectEntry { file: None } => {
                "correct its entry in the configuration".to_owned()
            }
            Self::Start => format!("start it by {start}"),
            Self::TryAgain => format!("try again by {start}"),
            Self::SeeLogAndStart => format!("see {log}, then {start}"),
            Self::SeeLog => format!("see {log}"),
            Self::SetCredentials => format!("set its credentials, then {start}"),
            Self::Wait => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_tells_why_is_found() {
        let check = |stderr: &str, expected: Option<&str>| {
            let lines: Vec<&str> = stderr.lines().collect();
            assert_eq!(telling_line(&lines).as_deref(), expected, "{stderr}");
        };
        check("", None);
        check("\n  \n--\n", None);
        check("starting\nlistening on stdio\n", Some("listening on stdio"));
        check("no licence found\n\n", Some("no licence found"));
        // Node.js
        check(
            "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/x/y'\n    at Module._resolve (node:internal:1)\n    at Module._load {\n  code: 'MODULE_NOT_FOUND',\n  requireStack: []\n}\n\nNode.js v22.1.0\n",
            Some("Error: Cannot find module '/x/y'"),
        );
        // Python
        check(
            "Traceback (most recent call last):\n  File \"/x.py\", line 1, in <module>\n    import y\nModuleNotFoundError: No module named 'y'\n",
            Some("ModuleNotFoundError: No module named 'y'"),
        );
        // npm
        check(
            "npm error code E404\nnpm error 404 Not Found - GET https://registry.npmjs.org/nope - Not found\nnpm error 404\nnpm error 404  'nope@*' is not in this registry.\nnpm error 404 Note that you can also install from a\nnpm error A complete log of this run can be found in: /x.log\n",
            Some("npm error 404 Not Found - GET https://registry.npmjs.org/nope - Not found"),
        );
        // uv
        check(
            "  × No solution found when resolving tool dependencies:\n  ╰─▶ Because nope was not found in the package registry and you require nope, your requirements are unsatisfiable.\n",
            Some(
                "╰─▶ Because nope was not found in the package registry and you require nope, your requirements are unsatisfiable.",
            ),
        );
        // Docker, Go, Rust, a shell
        check(
            "docker: Error response from daemon: no such image.\n\nRun 'docker run --help' for more information\n",
            Some("docker: Error response from daemon: no such image."),
        );
        check(
            "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:3 +0x1d\nexit status 2\n",
            Some("panic: runtime error: index out of range"),
        );
        check("sh: 1: foo: not found\n", Some("sh: 1: foo: not found"));
        check(
            "Error: API_KEY environment variable is required\nshutting down\n",
            Some("Error: API_KEY environment variable is required"),
        );
        check(
            "\u{1b}[31mError:\u{1b}[0m no licence\n",
            Some("Error: no licence"),
        );
        let behind = format!("{} Error: no licence", ".".repeat(1000));
        check(&behind, Some("…Error: no licence"));
        let long = "e".repeat(1000);
        let shown = telling_line(&[&long]).expect("a line");
        assert_eq!(shown.chars().count(), LONGEST_LINE + 1);
    }

    #[test]
    fn a_reason_is_explained_once() {
        let explain = |reason, stderr: &[&str]| explained(reason, stderr, None);
        assert_eq!(explain("exited (code 7)", &[]), "exited (code 7)");
        assert_eq!(
            explain("exited (code 7)", &["no licence"]),
            "exited (code 7): no licence"
        );
        assert_eq!(
            explain("refused: no licence", &["no licence"]),
            "refused: no licence"
        );
        let nothing: [&str; 0] = [];
        assert_eq!(
            explained("exited (code 2)", &nothing, Some("usage: x")),
            "exited (code 2): it writes to stdout what is no MCP message: \"usage: x\""
        );
        assert_eq!(
            explained("exited (code 2)", &["no licence"], Some("usage: x")),
            "exited (code 2): no licence"
        );
    }

    #[test]
    fn what_is_down_has_a_next_step() {
        for state in State::ALL {
            let is_down = matches!(
                state,
                State::Disconnected | State::Error | State::Failed | State::Crashed
            );
            let is_retried = state == State::Reconnecting;
            let step = NextStep::of(state, false, false);
            assert_eq!(step.is_some(), is_down || is_retried, "{state}");
            let words = step.and_then(|step| step.words("fs"));
            assert_eq!(words.is_some(), is_down, "{state}");
            let step = NextStep::of(state, false, true);
            let words = step.and_then(|step| step.words("fs")).unwrap_or_default();
            let is_said = is_down || is_retried;
            assert_eq!(words.contains("mainstay logs fs"), is_said, "{state}");
            assert_eq!(words.contains("mainstay start fs"), is_down, "{state}");
            for has_log in [false, true] {
                let step = NextStep::of(state, true, has_log);
                assert_eq!(step == Some(NextStep::SetCredentials), is_said, "{state}");
            }
        }
    }
}
