//! Describes a server that waits for approval: the command that would run, and doubts about it.

use chrono::{DateTime, Local};
use mainstay_api as api;
use mainstay_core::display::{self, lookalike::lookalikes, word};
use serde_json::Value;

use super::{output, time};

/// Doubtful characters that are named. All of them are escaped anyway.
const MAX_DOUBTS: usize = 10;

/// Bytes of a command that fits on any screen. The program is repeated below a longer one.
const LONG_COMMAND: usize = 1000;

/// One line with the command as a person would type it, and the names of its variables.
pub fn summary(pending: &api::Pending) -> String {
    let mut text = started(pending);
    if let Some(cwd) = &pending.cwd {
        text = format!("{text} (in {})", word(cwd));
    }
    if !pending.env.is_empty() {
        let names: Vec<String> = pending.env.keys().map(|name| word(name)).collect();
        text = format!("{text} (with {})", names.join(", "));
    }
    text
}

/// The command, or the URL.
fn started(pending: &api::Pending) -> String {
    let words = pending.command.iter().chain(&pending.url);
    words.map(|text| word(text)).collect::<Vec<_>>().join(" ")
}

/// All settings, a line each. The command comes last, so that long settings do not scroll it away. Doubts
/// stand above it.
pub fn whole(pending: &api::Pending) -> Vec<String> {
    let mut lines = Vec::new();
    for (key, value) in &pending.entry {
        match (key.as_str(), value) {
            ("command" | "args" | "url", _) => {}
            (_, Value::Object(members)) => {
                let member = |(name, value): (&String, &Value)| {
                    format!("  {} {}={}", word(key), word(name), value_text(value))
                };
                lines.extend(members.iter().map(member));
            }
            _ => lines.push(format!("  {} {}", word(key), value_text(value))),
        }
    }
    lines.extend(requested(pending).map(|line| format!("  {line}")));
    if let Some(formerly) = &pending.formerly {
        lines.push(format!("  ! {}", before(formerly)));
    }
    let doubts = doubts(pending);
    let visible_doubts = doubts.get(..MAX_DOUBTS).unwrap_or(&doubts);
    lines.extend(visible_doubts.iter().map(|doubt| format!("  ! {doubt}")));
    if doubts.len() > visible_doubts.len() {
        lines.push(format!(
            "  ! and {} more",
            doubts.len() - visible_doubts.len()
        ));
    }
    let command = started(pending);
    let is_long = command.len() > LONG_COMMAND;
    lines.push(format!("  {command}"));
    if let Some((program, arguments)) = pending.command.split_first()
        && is_long
    {
        let arguments = output::count(arguments.len(), "argument");
        lines.push(format!("  that is {} with {arguments}", word(program)));
    }
    lines
}

/// The client that requests the server, and the time.
fn requested(pending: &api::Pending) -> Option<String> {
    let by = pending.requested_by.as_ref()?;
    let client = by.client.as_deref().map_or("a client".into(), word);
    let principal = by
        .principal
        .as_deref()
        .map(|principal| format!(", {}", word(principal)));
    let millis = i64::try_from(pending.requested_at?).ok()?;
    let requested_at = DateTime::from_timestamp_millis(millis)?.with_timezone(&Local);
    Some(format!(
        "wanted by {client} ({}{}) at {}",
        by.door,
        principal.unwrap_or_default(),
        time::with_day(requested_at)
    ))
}

/// The server that the name meant before.
fn before(formerly: &api::Formerly) -> String {
    let words = formerly.command.iter().chain(&formerly.url);
    let mut target = words.map(|text| word(text)).collect::<Vec<_>>().join(" ");
    if target.is_empty() {
        return "this name was another server's before; which is not known".to_owned();
    }
    let along = formerly.env.iter().chain(&formerly.headers);
    let along: Vec<String> = along.map(|name| word(name)).collect();
    if !along.is_empty() {
        target = format!("{target} (with {})", along.join(", "));
    }
    format!("this name had another target before: {target}")
}

fn value_text(value: &Value) -> String {
    match value {
        Value::String(text) => word(text),
        other => display::json(&other.to_string()).into_owned(),
    }
}

/// Doubts about texts that look like others.
fn doubts(pending: &api::Pending) -> Vec<String> {
    let mut doubts: Vec<String> = pending
        .url
        .iter()
        .flat_map(|url| doubts_of_host(url))
        .collect();
    let mut texts = Vec::new();
    texts.extend(
        pending
            .command
            .iter()
            .chain(&pending.url)
            .map(String::as_str),
    );
    for (key, value) in pending
        .entry
        .iter()
        .filter(|(key, _)| !matches!(key.as_str(), "command" | "args" | "url"))
    {
        texts.push(key);
        gather(value, &mut texts);
    }
    for text in texts {
        let of_text = lookalikes(text).into_iter();
        doubts.extend(of_text.map(|doubt| format!("{}: {doubt}", word(text))));
    }
    doubts
}

/// Doubts about hosts that are easily mistaken for others.
fn doubts_of_host(url: &str) -> Vec<String> {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let mut doubts = Vec::new();
    let host = match authority.rsplit_once('@') {
        Some((_, host)) => {
            doubts.push(format!(
                "the host is {}: what stands before @ is none",
                word(host)
            ));
            host
        }
        None => authority,
    };
    let is_encoded = |label: &str| {
        label
            .get(..4)
            .is_some_and(|prefix| prefix.eq_ignore_ascii_case("xn--"))
    };
    if host.split('.').any(is_encoded) {
        doubts.push(format!(
            "{} stands for letters that are not ASCII",
            word(host)
        ));
    }
    doubts
}

/// The texts in a value, including its keys.
fn gather<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| gather(item, texts)),
        Value::Object(members) => {
            for (key, value) in members {
                texts.push(key);
                gather(value, texts);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The environment matters, too: `PATH`, `LD_PRELOAD` and the like are shown with their values.
    #[test]
    fn everything_is_shown_and_nothing_hides() {
        let entry = json!({
            "command": "npx", "args": ["-y", "a b", "x\u{202e}y", ""],
            "env": {"PATH": "/evil:/bin"}, "cwd": "/tmp", "inheritEnv": "none",
        });
        let pending = api::Pending {
            digest: None,
            command: vec!["npx", "-y", "a b", "x\u{202e}y", ""]
                .into_iter()
                .map(str::to_owned)
                .collect(),
            cwd: Some("/tmp".to_owned()),
            env: entry["env"].as_object().expect("variables").clone(),
            url: None,
            entry: entry.as_object().expect("an entry").clone(),
            formerly: Some(api::Formerly {
                command: vec!["old\u{202e}".to_owned(), "x".to_owned()],
                env: vec!["KEY".to_owned()],
                ..api::Formerly::default()
            }),
            requested_by: Some(api::RequestedBy {
                client: Some("hand\u{202e}".to_owned()),
                door: "mcp_http".to_owned(),
                principal: Some("operator".to_owned()),
            }),
            requested_at: Some(1_700_000_000_123),
        };
        let command = r#"npx -y "a b" "x\u{202e}y" """#;
        let at = DateTime::from_timestamp_millis(1_700_000_000_123).expect("a time");
        let at = time::with_day(at.with_timezone(&Local));
        assert_eq!(
            whole(&pending),
            [
                "  env PATH=/evil:/bin".to_owned(),
                "  cwd /tmp".to_owned(),
                "  inheritEnv none".to_owned(),
                format!(r#"  wanted by "hand\u{{202e}}" (mcp_http, operator) at {at}"#),
                r#"  ! this name had another target before: "old\u{202e}" x (with KEY)"#.to_owned(),
                format!("  {command}"),
            ]
        );
        assert_eq!(
            summary(&pending),
            format!("{command} (in /tmp) (with PATH)")
        );
    }

    fn pending(entry: &Value) -> api::Pending {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let arguments = entry["args"].as_array().into_iter().flatten();
        let command = text(&entry["command"]);
        api::Pending {
            digest: None,
            command: command
                .into_iter()
                .chain(arguments.filter_map(text))
                .collect(),
            cwd: None,
            env: entry["env"].as_object().cloned().unwrap_or_default(),
            url: text(&entry["url"]),
            entry: entry.as_object().expect("an entry").clone(),
            formerly: None,
            requested_by: None,
            requested_at: None,
        }
    }

    /// Homoglyphs in names, commands and hosts, and hosts that stand behind others.
    #[test]
    fn what_looks_like_something_else_is_marked_above_the_command() {
        let command = pending(
            &json!({"command": "n\u{440}x", "env": {"P\u{410}TH": "/bin"}, "x": [{"y": "\u{ff0f}"}]}),
        );
        assert_eq!(
            whole(&command),
            [
                r#"  env "P\u{410}TH"=/bin"#,
                r#"  x [{"y":"／"}]"#,
                r#"  ! "n\u{440}x": U+0440 looks like 'p'"#,
                r#"  ! "P\u{410}TH": U+0410 looks like 'A'"#,
                r#"  ! "\u{ff0f}": U+FF0F looks like '/'"#,
                r#"  "n\u{440}x""#,
            ]
        );
        let url = pending(&json!({"url": "https://example.com@xn--e1aybc.com/x"}));
        assert_eq!(
            whole(&url),
            [
                "  ! the host is xn--e1aybc.com: what stands before @ is none",
                "  ! xn--e1aybc.com stands for letters that are not ASCII",
                "  https://example.com@xn--e1aybc.com/x",
            ]
        );
    }

    /// Neither variables nor doubts nor arguments scroll the program away.
    #[test]
    fn the_program_is_in_the_last_lines_whatever_else_there_is() {
        let variables = (0..500).map(|n| (format!("V{n}"), Value::from("\u{430}\u{435}")));
        let env: serde_json::Map<String, Value> = variables.collect();
        let lines = whole(&pending(
            &json!({"command": "sh", "args": ["-c", "x"], "env": env}),
        ));
        assert_eq!(lines.last().map(String::as_str), Some("  sh -c x"));
        assert_eq!(lines.len(), 500 + MAX_DOUBTS + 2);
        let long = vec!["harmless\n"; 500];
        let lines = whole(&pending(&json!({"command": "sh", "args": long})));
        assert_eq!(
            lines.last().map(String::as_str),
            Some("  that is sh with 500 arguments")
        );
    }
}
