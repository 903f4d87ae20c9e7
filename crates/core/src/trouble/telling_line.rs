//! Finds the line of a process's stderr that best explains the exit.

use crate::display::escapes;

/// Maximum length of a quoted line of stderr, in bytes.
const MAX_QUOTED_LINE: usize = 240;

/// Maximum number of bytes to quote before the error mark of a long line.
const MAX_QUOTED_BEFORE_MARK: usize = 40;

/// Minimum number of bytes to quote after the error mark of a long line.
const MIN_QUOTED_AFTER_MARK: usize = 60;

/// Words that begin an error, possibly after a time and a program's name.
const ERROR_WORDS: [&str; 5] = ["error", "exception", "fatal", "critical", "panic"];

/// Words that mark an error anywhere in a line.
const ERROR_MARKS: [&str; 17] = [
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
    "is not ",
    "missing",
    "no such",
    "not found",
    "panic",
    "required",
    "unable to",
];

/// Log levels of lines that are not errors.
const HARMLESS_LEVELS: [&str; 6] = ["DEBUG", "INFO", "TRACE", "WARN", "WARNING", "Warning"];

/// Beginnings of last lines that do not explain the exit.
const FINAL_LINES: [&str; 9] = [
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

const TRACEBACK: &str = "Traceback (most recent call last)";

/// Returns the line of stderr that best explains the exit. In order of preference: the error of an
/// installer, the exception of the last traceback, the first line that begins like an error, the
/// last line with an error mark, the last line before a usage text. If a line only announces the
/// next one, both lines are joined.
pub fn telling_line(stderr: &[impl AsRef<str>]) -> Option<String> {
    let stderr: Vec<_> = stderr
        .iter()
        .map(|line| escapes::without(line.as_ref()))
        .collect();
    let lines: Vec<&str> = stderr.iter().map(AsRef::as_ref).collect();
    // A usage text does not explain the exit.
    let usage = lines.iter().position(|line| is_usage(line));
    let lines_before_usage = &lines[..usage.unwrap_or(lines.len())];
    let index = installer_error(&lines)
        .or_else(|| traceback_error(&lines))
        .or_else(|| lines.iter().position(|line| is_error(line)))
        .or_else(|| lines_before_usage.iter().rposition(|line| is_marked(line)))
        .or_else(|| {
            lines_before_usage
                .iter()
                .rposition(|line| says_something(line))
        })
        .or_else(|| lines.iter().rposition(|line| says_something(line)))?;
    let (line, next_line) = (lines[index].trim(), lines.get(index + 1));
    let next_line =
        next_line.filter(|next_line| line.ends_with([':', '{', '[']) && says_something(next_line));
    Some(shortened(&match next_line {
        Some(next_line) => format!("{line} {}", next_line.trim()),
        None => line.to_owned(),
    }))
}

/// The first line of npm that is more than an error code, or the first line of uv with a reason.
/// Both installers add advice after it.
fn installer_error(lines: &[&str]) -> Option<usize> {
    lines.iter().position(|line| {
        let message = line.strip_prefix("npm error ");
        let message = message.or_else(|| line.strip_prefix("npm ERR! "));
        message.is_some_and(|message| !message.starts_with("code ") && message.trim().len() > 4)
            || line.trim_start().starts_with("╰─▶")
    })
}

/// The exception of the last traceback, which is the first line after its frames.
fn traceback_error(lines: &[&str]) -> Option<usize> {
    let start = lines.iter().rposition(|line| line.contains(TRACEBACK))?;
    let lines_after = lines[start + 1..]
        .iter()
        .position(|line| !line.starts_with(char::is_whitespace) && says_something(line))?;
    Some(start + 1 + lines_after)
}

fn says_something(line: &str) -> bool {
    let text = line.trim();
    let is_frame = text.starts_with("at ") && line.starts_with(char::is_whitespace);
    let has_word = text
        .split(|c: char| !c.is_alphanumeric())
        .any(|word| word.len() > 1);
    has_word && !is_frame && !FINAL_LINES.iter().any(|ending| text.starts_with(ending))
}

fn is_usage(line: &str) -> bool {
    line.trim_start()
        .get(..6)
        .is_some_and(|word| word.eq_ignore_ascii_case("usage:"))
}

/// True if a line begins like an error: with an error word or type (`ModuleNotFoundError:`),
/// possibly after a time and a program's name. An indented line continues the line before.
pub fn is_error(line: &str) -> bool {
    if line.starts_with(char::is_whitespace) || is_other_level(line) {
        return false;
    }
    let mut words = line.split_whitespace().take(6);
    words.any(|word| {
        let name = word.trim_matches(|c: char| !c.is_alphanumeric());
        let is_level = name.len() > 4 && name.chars().all(|c| c.is_ascii_uppercase());
        let is_ended = word.ends_with([':', ']']) || is_level;
        let lower_name = name.to_lowercase();
        is_ended && ERROR_WORDS.iter().any(|error| lower_name.ends_with(error))
    }) || ["Error ", "Exception in ", "thread '", "docker: Error "]
        .iter()
        .any(|prefix| line.starts_with(prefix))
}

fn is_other_level(line: &str) -> bool {
    let mut words = line.split(|c: char| !c.is_alphanumeric()).take(16);
    words.any(|word| HARMLESS_LEVELS.contains(&word))
}

/// True if a line contains an error mark. An indented line continues the line before.
fn is_marked(line: &str) -> bool {
    let lower_line = line.to_lowercase();
    !line.starts_with(char::is_whitespace)
        && !is_other_level(line)
        && ERROR_MARKS.iter().any(|mark| lower_line.contains(mark))
}

/// Cuts a long line to its beginning, or to the part around an error mark that comes later.
pub(super) fn shortened(line: &str) -> String {
    if line.len() <= MAX_QUOTED_LINE {
        return line.to_owned();
    }
    let lower_line = line.to_ascii_lowercase();
    let mark = ERROR_MARKS
        .iter()
        .filter_map(|mark| lower_line.rfind(mark))
        .min();
    let is_behind = |mark: &usize| *mark + MIN_QUOTED_AFTER_MARK > MAX_QUOTED_LINE;
    let Some(mark) = mark.filter(is_behind) else {
        let end = line.floor_char_boundary(MAX_QUOTED_LINE);
        return format!("{}…", &line[..end]);
    };
    let start = line.floor_char_boundary(mark.saturating_sub(MAX_QUOTED_BEFORE_MARK));
    // Begin with a whole word if possible.
    let word_start = line[start..mark].find(char::is_whitespace);
    let start = word_start.map_or(mark, |space| start + space + 1);
    let end = line.floor_char_boundary((start + MAX_QUOTED_LINE).min(line.len()));
    let ellipsis = if end < line.len() { "…" } else { "" };
    format!("…{}{ellipsis}", line[start..end].trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_explaining_line_is_found() {
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
        let late_error = format!("{} Error: no licence", ".".repeat(1000));
        check(&late_error, Some("…Error: no licence"));
        let long_line = "e".repeat(1000);
        let quoted_line = telling_line(&[&long_line]).expect("a line");
        assert_eq!(quoted_line.chars().count(), MAX_QUOTED_LINE + 1);
    }

    /// Real messages of servers that do not start: missing keys, databases, packages or native
    /// code.
    #[test]
    fn the_reason_precedes_usage_and_advice() {
        let table = [
            // A Go program prints its usage after the error.
            (
                "Error: no current-context is set\nUsage:\n  tool [flags]\n\nFlags:\n      --port string\n      --version   Print version information and quit\n",
                "Error: no current-context is set",
            ),
            (
                "error: unknown flag: --sse\nSee 'tool --help'\n",
                "error: unknown flag: --sse",
            ),
            // Python's argparse prints the usage before the error.
            (
                "usage: server [-h] --db DB\nserver: error: the following arguments are required: --db\n",
                "server: error: the following arguments are required: --db",
            ),
            (
                "Usage: server.py [OPTIONS]\nTry 'server.py --help' for help.\n\nError: Missing option '--token'.\n",
                "Error: Missing option '--token'.",
            ),
            (
                "Please give a database URL.\nUsage: server <url>\n  server sqlite:///x.db --read-only\n",
                "Please give a database URL.",
            ),
            // The first error is the reason, and the next line only its consequence.
            (
                "Error: An API key is required, set SEARCH_API_KEY\nInvalid configuration\n",
                "Error: An API key is required, set SEARCH_API_KEY",
            ),
            (
                "Error: no access token was given. Pass --access-token or set TRACKER_TOKEN\n\nExamples:\ntracker-mcp --access-token=TOKEN --provider=x\n",
                "Error: no access token was given. Pass --access-token or set TRACKER_TOKEN",
            ),
            (
                "ERROR [11:10:03] TRACKER_TOKEN environment variable is not set\nWaiting for input\n",
                "ERROR [11:10:03] TRACKER_TOKEN environment variable is not set",
            ),
            (
                "2026-11-28 10:00:00,123 - server - INFO - starting\n2026-11-28 10:00:01,004 - server - ERROR - connection refused: db:5432\n2026-11-28 10:00:01,005 - server - INFO - shutdown, no errors expected\n",
                "2026-11-28 10:00:01,004 - server - ERROR - connection refused: db:5432",
            ),
            (
                "[FATAL] cannot read /etc/x.toml\nbye\n",
                "[FATAL] cannot read /etc/x.toml",
            ),
            (
                "{\"level\":30,\"msg\":\"up\"}\nFatal error: listen EADDRINUSE 127.0.0.1:3000\n",
                "Fatal error: listen EADDRINUSE 127.0.0.1:3000",
            ),
            // A warning does not explain the exit.
            (
                "(node:7) Warning: an experimental feature failed to load\nSLACK_TOKEN is required\n",
                "SLACK_TOKEN is required",
            ),
            (
                "WARN: config.json not found, using defaults\nno licence\n",
                "no licence",
            ),
            // Node.js: the file that requires a missing module is not the reason.
            (
                "node:internal/modules/cjs/loader:1228\n  throw err;\n  ^\n\nError: Cannot find module '/x/dist/index.js'\nRequire stack:\n- /x/bin/server.js\n    at Module._resolve (node:internal:1)\n\nNode.js v20.1.0\n",
                "Error: Cannot find module '/x/dist/index.js'",
            ),
            (
                "file:///x/a.js:3\nimport { b } from './b'\n         ^\nSyntaxError: The requested module './b' does not provide an export named 'b'\n    at ModuleJob._instantiate\n",
                "SyntaxError: The requested module './b' does not provide an export named 'b'",
            ),
            (
                "Error: could not load the native sqlite addon\nTry: npm rebuild, or install the build tools\nsee https://example.com/help\n",
                "Error: could not load the native sqlite addon",
            ),
            (
                "MongoServerSelectionError: connect ECONNREFUSED 127.0.0.1:27017\n    at Topology.selectServer {\n  reason: TopologyDescription {\n",
                "MongoServerSelectionError: connect ECONNREFUSED 127.0.0.1:27017",
            ),
            // The reason comes after a line that announces it.
            (
                "Invalid environment variables: {\n  API_KEY: [ 'Required' ]\n}\n",
                "Invalid environment variables: { API_KEY: [ 'Required' ]",
            ),
            (
                "Error: the configuration is incomplete:\n  - figma.token is missing\n  - figma.team is missing\n",
                "Error: the configuration is incomplete: - figma.token is missing",
            ),
            (
                "thread 'main' panicked at src/main.rs:7:5:\nDATABASE_URL must be set\nnote: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
                "thread 'main' panicked at src/main.rs:7:5: DATABASE_URL must be set",
            ),
            // The last traceback caused the exit. The first line after it has the reason.
            (
                "Traceback (most recent call last):\n  File \"/a.py\", line 1, in f\nKeyError: 'TOKEN'\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"/a.py\", line 9, in <module>\n    main()\nRuntimeError: set TOKEN first\n",
                "RuntimeError: set TOKEN first",
            ),
            (
                "Traceback (most recent call last):\n  File \"/a.py\", line 1, in <module>\n    Settings()\npydantic_core._pydantic_core.ValidationError: 1 validation error for Settings\napi_key\n  Field required [type=missing]\n    For further information visit https://example.com\n",
                "pydantic_core._pydantic_core.ValidationError: 1 validation error for Settings",
            ),
            (
                "  + Exception Group Traceback (most recent call last):\n  |   File \"/a.py\", line 1\nExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)\n",
                "ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)",
            ),
            (
                "Exception in thread \"main\" java.lang.UnsupportedClassVersionError: App has been compiled by a newer Java\n\tat java.lang.ClassLoader.defineClass1\n",
                "Exception in thread \"main\" java.lang.UnsupportedClassVersionError: App has been compiled by a newer Java",
            ),
            // Installers.
            (
                "  × No solution found when resolving tool dependencies:\n  ╰─▶ Because the current Python version (3.11.7) does not satisfy Python>=3.12 and notes==1.0 depends on it, we can conclude that notes==1.0 cannot be used.\n      And because only notes==1.0 is available, your requirements are unsatisfiable.\n",
                "╰─▶ Because the current Python version (3.11.7) does not satisfy Python>=3.12 and notes==1.0 depends on it, we can conclude that notes==1.0 cannot be used.",
            ),
            (
                "npm warn deprecated x@1\nnpm error code EBADENGINE\nnpm error engine Unsupported engine\nnpm error engine Not compatible with your version of node\n",
                "npm error engine Unsupported engine",
            ),
            (
                "Installed 31 packages in 88ms\nAn executable named `notes` is not provided by package `notes-mcp`.\nThe following executables are available:\n- notes-server\n",
                "An executable named `notes` is not provided by package `notes-mcp`.",
            ),
            // No line has an error mark.
            (
                "Connecting to http://127.0.0.1:8888\nthe notebook server does not run\n",
                "the notebook server does not run",
            ),
            (
                "\u{1b}[31mERROR\u{1b}[39m [11:10] \u{1b}[36mno token\u{1b}[39m\n",
                "ERROR [11:10] no token",
            ),
        ];
        for (stderr, expected) in table {
            let lines: Vec<&str> = stderr.lines().collect();
            assert_eq!(telling_line(&lines).as_deref(), Some(expected), "{stderr}");
        }
    }
}
