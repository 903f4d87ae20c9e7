//! Names for completion. They come from the running daemon, or else from the configuration's file.
//!
//! A shell waits for the names at each Tab, so a lookup has the time limit [`LIMIT`]. A name becomes part
//! of a command line, so names with characters that a shell interprets are left out.

use std::{
    env,
    ffi::{OsStr, OsString},
    path::PathBuf,
    sync::mpsc,
    thread,
    time::Duration,
};

use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter as _};
use mainstay_api::{Client, ClientError};
use mainstay_client_files::ClientKind as Program;
use mainstay_command_line::{completion_names::CompletionTarget, connect};
use mainstay_config::{Syntax, edit::Document};
use mainstay_core::{
    display,
    ids::ProfileName,
    record::{Door, Status},
};
use mainstay_platform::{
    environment::{ConfigurationSource, Process},
    state::{StateDir, read_private},
};

/// The time limit of a lookup.
const LIMIT: Duration = Duration::from_millis(280);

/// The part of [`LIMIT`] for a request to the daemon.
const DAEMON_LIMIT: Duration = Duration::from_millis(200);

pub fn servers() -> Vec<CompletionCandidate> {
    within_limit(|| all_servers().into_iter().filter_map(named).collect())
}

fn all_servers() -> Vec<(String, String)> {
    let answer = ask(async |client| client.servers().await);
    match answer {
        Some(listed) => listed
            .servers
            .into_iter()
            .map(|server| (server.name, server.status))
            .collect(),
        None => in_file(|document| {
            let entries = document.entries().into_iter();
            entries
                .map(|(name, _)| (name.to_string(), String::new()))
                .collect()
        }),
    }
}

/// Names of tools. Without a daemon, prefixes with the names of servers, because only the daemon knows
/// tools.
pub fn tools() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let answer = ask(async |client| client.tools().await);
        let Some(listed) = answer else {
            return prefixes();
        };
        listed
            .tools
            .iter()
            .map(CompletionTarget::from)
            .filter_map(offered)
            .collect()
    })
}

/// Names of tools as their servers define them.
pub fn own_tools() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let listed = ask(async |client| client.tools().await);
        let tools = listed.into_iter().flat_map(|listed| listed.tools);
        let mut names: Vec<String> = tools.map(|tool| tool.original_name).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().filter_map(without_description).collect()
    })
}

pub fn prompts() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let answer = ask(async |client| client.prompts().await);
        let Some(listed) = answer else {
            return prefixes();
        };
        listed
            .prompts
            .iter()
            .map(CompletionTarget::from)
            .filter_map(offered)
            .collect()
    })
}

pub fn servers_and_tools() -> Vec<CompletionCandidate> {
    let mut both = servers();
    both.extend(tools());
    both
}

/// Names of servers with a slash: `server/`.
fn prefixes() -> Vec<CompletionCandidate> {
    let servers = all_servers().into_iter();
    let prefixes = servers.map(|(name, about)| (format!("{name}/"), about));
    prefixes.filter_map(named).collect()
}

pub fn profiles() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let mut names: Vec<String> = in_file(|document| {
            let whole = document.value().unwrap_or_default();
            let profiles = whole["profiles"].as_object().into_iter().flatten();
            profiles.map(|(name, _)| name.clone()).collect()
        });
        for name in [ProfileName::default().as_str(), ProfileName::META] {
            if !names.iter().any(|listed| listed == name) {
                names.push(name.to_owned());
            }
        }
        names.into_iter().filter_map(without_description).collect()
    })
}

/// Clients that have a token.
pub fn tokens() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let names = ask(async |client| client.client_tokens().await);
        let names = names.map(|listed| listed.tokens.into_iter().map(|token| token.name).collect());
        sorted(names.unwrap_or_else(stored_tokens))
    })
}

/// Clients that have a token, switches, or a session.
pub fn clients() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let connected_names = ask(async |client| {
            let tokens = client.client_tokens().await?;
            let names = tokens.tokens.into_iter().map(|token| token.name);
            let switched = client.switches().await?.clients.into_keys();
            let sessions = client.sessions().await?.sessions.into_iter();
            let connected = sessions.filter_map(|session| Some(session.client?.name));
            Ok::<Vec<_>, ClientError>(names.chain(switched).chain(connected).collect())
        });
        sorted(connected_names.unwrap_or_else(|| {
            let mut names = stored_tokens();
            names.extend(stored_switches());
            names
        }))
    })
}

fn sorted(mut names: Vec<String>) -> Vec<CompletionCandidate> {
    names.sort_unstable();
    names.dedup();
    names.into_iter().filter_map(without_description).collect()
}

/// The clients that have a token in the state directory.
fn stored_tokens() -> Vec<String> {
    let state = StateDir::locate(&Process).ok();
    let tokens = state.and_then(|state| mainstay_tokens::read(&state).ok());
    tokens
        .into_iter()
        .flatten()
        .map(|token| token.name.to_string())
        .collect()
}

/// The clients that have switches in the state directory.
fn stored_switches() -> Vec<String> {
    let read = || {
        let state = StateDir::locate(&Process).ok()?;
        state.check().ok()?;
        let text = read_private(&state.switches()).ok()?;
        serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&text).ok()
    };
    read().into_iter().flatten().map(|(name, _)| name).collect()
}

/// The statuses of calls.
pub fn statuses() -> Vec<CompletionCandidate> {
    words(Status::ALL.iter().map(|status| status.as_str()))
}

/// The doors of calls.
pub fn doors() -> Vec<CompletionCandidate> {
    // Leave out the bridge: calls never use it yet.
    let doors = Door::ALL.iter().filter(|door| **door != Door::Bridge);
    words(doors.map(|door| door.as_str()))
}

fn words(words: impl Iterator<Item = &'static str>) -> Vec<CompletionCandidate> {
    words.map(CompletionCandidate::new).collect()
}

pub fn programs() -> Vec<CompletionCandidate> {
    let programs = Program::ALL.into_iter();
    programs
        .map(|program| CompletionCandidate::new(program.id()).help(Some(program.name().into())))
        .collect()
}

pub fn programs_and_files(typed: &OsStr) -> Vec<CompletionCandidate> {
    let has_prefix = |candidate: &CompletionCandidate| {
        let value = candidate.get_value().to_string_lossy();
        value.starts_with(&*typed.to_string_lossy())
    };
    let programs = programs().into_iter().filter(has_prefix);
    programs
        .chain(PathCompleter::file().complete(typed))
        .collect()
}

/// `key=` and `key=value` for the tool or prompt earlier in the line. Handles both kinds of shells: bash
/// splits words at `=`, others do not.
pub fn arguments(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy().into_owned();
    within_limit(move || {
        let (before, is_prompt) = (
            typed_before(),
            typed_words().iter().any(|word| word == "prompts"),
        );
        let Some(name) = before.iter().find(|word| word.contains('/')) else {
            return Vec::new();
        };
        let offers: Option<Vec<CompletionTarget>> = if is_prompt {
            let answer = ask(async |client| client.prompts().await);
            answer.map(|listed| listed.prompts.iter().map(CompletionTarget::from).collect())
        } else {
            let answer = ask(async |client| client.tools().await);
            answer.map(|listed| listed.tools.iter().map(CompletionTarget::from).collect())
        };
        let offer = offers
            .into_iter()
            .flatten()
            .find(|offer| offer.name == *name);
        let Some(offer) = offer else {
            return Vec::new();
        };
        candidates_of(&offer, &before, &typed)
    })
}

fn candidates_of(
    offer: &CompletionTarget,
    before: &[String],
    typed: &str,
) -> Vec<CompletionCandidate> {
    let find = |name: &str| {
        offer
            .arguments
            .iter()
            .find(|argument| argument.name == name)
    };
    let last = match before {
        [.., key, equals] if equals == "=" => Some(key),
        [.., key] if !key.contains('=') => Some(key),
        _ => None,
    };
    let (key, prefix, value) = match typed.split_once('=') {
        Some((key, value)) => (find(key), format!("{key}="), value),
        None => (last.and_then(|key| find(key)), String::new(), typed),
    };
    let has_prefix = |candidate: &CompletionCandidate| {
        candidate.get_value().to_string_lossy().starts_with(typed)
    };
    let found: Vec<_> = match key {
        Some(argument) => argument
            .values
            .iter()
            .filter(|choice| choice.starts_with(value))
            .filter_map(|choice| without_description(format!("{prefix}{choice}")))
            .collect(),
        None => {
            let is_given = |name: &str| {
                before
                    .iter()
                    .any(|word| word.split('=').next() == Some(name))
            };
            let open = offer
                .arguments
                .iter()
                .filter(|argument| !is_given(&argument.name));
            open.filter_map(|argument| {
                named((format!("{}=", argument.name), argument.about.clone()))
            })
            .collect()
        }
    };
    found.into_iter().filter(has_prefix).collect()
}

fn offered(offer: CompletionTarget) -> Option<CompletionCandidate> {
    named((offer.name, offer.about))
}

/// Like [`named`], without a description.
fn without_description(name: String) -> Option<CompletionCandidate> {
    named((name, String::new()))
}

/// A candidate with a description. `None` for a name that a shell would interpret.
fn named((name, about): (String, String)) -> Option<CompletionCandidate> {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./@%+=,".contains(c);
    let is_word = !name.is_empty() && name.chars().all(is_plain) && !name.starts_with('-');
    if !is_word || display::line(&name) != name {
        return None;
    }
    let about = display::line(&about).into_owned();
    let about = Some(about).filter(|about| !about.is_empty());
    Some(CompletionCandidate::new(name).help(about.map(Into::into)))
}

/// Runs a lookup on another thread, and gives up after [`LIMIT`]. A file may be on a mount that does not
/// respond.
fn within_limit<T: Default + Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    // The thread is not joined, because the process ends now.
    thread::spawn(move || sender.send(look()).ok());
    receiver.recv_timeout(LIMIT).unwrap_or_default()
}

/// Asks the daemon. Returns `None` without a daemon, with `--config`, or after the time limit.
fn ask<T>(question: impl AsyncFnOnce(&Client) -> Result<T, ClientError>) -> Option<T> {
    if typed_option("--config").is_some() {
        return None;
    }
    let client = connect::running(typed_option("--url")).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let answer = runtime.block_on(async {
        let answer = tokio::time::timeout(DAEMON_LIMIT, question(&client)).await;
        answer.ok()?.ok()
    });
    // Do not wait for a pending DNS lookup.
    runtime.shutdown_background();
    answer
}

/// Reads the configuration's file: the file of `--config`, the daemon's file, or the default file.
fn in_file<T: Default>(read: impl FnOnce(&Document) -> T) -> T {
    let served = || connect::locate(None).ok()?.file?.config.map(PathBuf::from);
    let origin = ConfigurationSource {
        flag: typed_option("--config").map(PathBuf::from).or_else(served),
        ..ConfigurationSource::default()
    };
    let text = origin.text().ok().flatten();
    let syntax = Syntax::of_path(&origin.path().unwrap_or_default());
    let document = text.and_then(|text| Document::read(&text, syntax).ok());
    document.map(|document| read(&document)).unwrap_or_default()
}

/// The words of the line on which Tab was pressed, the program's name first.
fn typed_words() -> Vec<String> {
    let words = env::args_os().skip_while(|word| word != "--").skip(1);
    words
        .map(|word: OsString| word.to_string_lossy().into_owned())
        .collect()
}

/// The words before the word to complete.
fn typed_before() -> Vec<String> {
    let mut words = typed_words();
    let index = env::var("_CLAP_COMPLETE_INDEX").ok();
    let index = index.and_then(|index| index.parse().ok());
    words.truncate(index.unwrap_or(words.len().saturating_sub(1)));
    words
}

/// The value of an option in the line on which Tab was pressed.
fn typed_option(name: &str) -> Option<String> {
    let words = typed_words();
    let joined = words
        .iter()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let apart = || {
        let at = words.iter().position(|word| word == name)?;
        // bash splits words at `=`.
        let value = words[at + 1..].iter().find(|word| *word != "=")?;
        Some(value.as_str())
    };
    let value = joined.or_else(apart)?;
    Some(value.to_owned()).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    fn values(found: Vec<CompletionCandidate>) -> Vec<String> {
        found
            .into_iter()
            .map(|candidate| candidate.get_value().to_string_lossy().into_owned())
            .collect()
    }

    /// A completed line runs when the person presses Enter, so a name must not contain shell syntax.
    #[test]
    fn no_name_is_offered_that_a_shell_would_read() {
        for name in ["files/read", "files/läs", "a.b-c_d", "漢字", "files/"] {
            assert!(named((name.to_owned(), String::new())).is_some(), "{name}");
        }
        for name in [
            "",
            "a b",
            "$(reboot)",
            "`reboot`",
            "a;b",
            "a|b",
            "a&b",
            "a>b",
            "*",
            "a?",
            "[a]",
            "{a,b}",
            "~root",
            "!x",
            "#x",
            "a\\b",
            "a'b",
            "a\"b",
            "a\nb",
            "--url",
            "a\u{1b}[2J",
            "a\u{202e}b",
            "a:b",
            "(a)",
        ] {
            assert!(
                named((name.to_owned(), String::new())).is_none(),
                "{name:?}"
            );
        }
    }

    #[test]
    fn arguments_are_completed_by_name_and_by_value() {
        let schema: Value = serde_json::json!({"properties": {
            "mode": {"enum": ["fast", "slow", "$(x)"]}, "text": {}, "flag": {"type": "boolean"},
        }});
        let offer = CompletionTarget::from_schema("s/t", "", &schema.to_string());
        let check = |before: &[&str], typed: &str, expected: &[&str]| {
            let before: Vec<String> = before.iter().map(ToString::to_string).collect();
            let found = values(candidates_of(&offer, &before, typed));
            assert_eq!(found, expected, "{before:?} {typed}");
        };
        check(&["call", "s/t"], "", &["mode=", "text=", "flag="]);
        check(&["call", "s/t"], "m", &["mode="]);
        check(&["call", "s/t", "mode=fast"], "", &["text=", "flag="]);
        check(&["call", "s/t"], "mode=", &["mode=fast", "mode=slow"]);
        check(&["call", "s/t"], "mode=s", &["mode=slow"]);
        // bash passes these words.
        check(&["call", "s/t", "mode", "="], "f", &["fast"]);
        check(&["call", "s/t", "flag"], "", &["true", "false"]);
        check(
            &["call", "s/t", "mode", "=", "fast"],
            "",
            &["text=", "flag="],
        );
    }
}
