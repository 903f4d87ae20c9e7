//! The names that there are: those of the running daemon, or else of the configuration's file.
//!
//! A shell waits for them at every Tab, so a lookup has [`LIMIT`] in all. A name becomes part of the line
//! that is typed, where a server's words must do no harm: names with characters that a shell reads are left
//! out.

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
use mainstay_client_files::Client as Program;
use mainstay_command_line::{connect, known::Offer};
use mainstay_config::{Syntax, edit::Document};
use mainstay_core::{
    display,
    ids::ProfileName,
    record::{Door, Status},
};
use mainstay_platform::{
    environment::{Origin, Process},
    state::{StateDir, read_private},
};

/// What a lookup may take.
const LIMIT: Duration = Duration::from_millis(280);

/// What the daemon may take of it.
const OF_DAEMON: Duration = Duration::from_millis(200);

pub fn servers() -> Vec<CompletionCandidate> {
    within_limit(|| all_servers().into_iter().filter_map(named).collect())
}

fn all_servers() -> Vec<(String, String)> {
    let asked = ask(async |client| client.servers().await);
    match asked {
        Some(known) => {
            let servers = known.servers.into_iter();
            servers.map(|it| (it.name, it.status)).collect()
        }
        None => in_file(|document| {
            let entries = document.entries().into_iter();
            entries
                .map(|(name, _)| (name.to_string(), String::new()))
                .collect()
        }),
    }
}

/// Without a daemon the servers, for their tools are not known.
pub fn tools() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let asked = ask(async |client| client.tools().await);
        let Some(known) = asked else {
            return prefixes();
        };
        let tools = known.tools.iter().map(Offer::from);
        tools.filter_map(offered).collect()
    })
}

/// Tools by the names that their servers give them.
pub fn own_tools() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let known = ask(async |client| client.tools().await);
        let tools = known.into_iter().flat_map(|known| known.tools);
        let mut names: Vec<String> = tools.map(|tool| tool.original_name).collect();
        names.sort_unstable();
        names.dedup();
        let names = names.into_iter().map(|name| (name, String::new()));
        names.filter_map(named).collect()
    })
}

pub fn prompts() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let asked = ask(async |client| client.prompts().await);
        let Some(known) = asked else {
            return prefixes();
        };
        let prompts = known.prompts.iter().map(Offer::from);
        prompts.filter_map(offered).collect()
    })
}

pub fn servers_and_tools() -> Vec<CompletionCandidate> {
    let mut both = servers();
    both.extend(tools());
    both
}

/// `server/`, to go on typing behind it.
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
            if !names.iter().any(|it| it == name) {
                names.push(name.to_owned());
            }
        }
        let names = names.into_iter().map(|name| (name, String::new()));
        names.filter_map(named).collect()
    })
}

/// Clients that have a token.
pub fn tokens() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let asked = ask(async |client| client.client_tokens().await);
        let asked = asked.map(|known| known.tokens.into_iter().map(|token| token.name).collect());
        sorted(asked.unwrap_or_else(kept_tokens))
    })
}

/// Clients that have a token, switches, or a session.
pub fn clients() -> Vec<CompletionCandidate> {
    within_limit(|| {
        let asked = ask(async |client| {
            let tokens = client.client_tokens().await?;
            let names = tokens.tokens.into_iter().map(|token| token.name);
            let switched = client.switches().await?.clients.into_keys();
            let sessions = client.sessions().await?.sessions.into_iter();
            let connected = sessions.filter_map(|session| Some(session.client?.name));
            Ok::<Vec<_>, ClientError>(names.chain(switched).chain(connected).collect())
        });
        sorted(asked.unwrap_or_else(|| {
            let mut names = kept_tokens();
            names.extend(kept_switches());
            names
        }))
    })
}

fn sorted(mut names: Vec<String>) -> Vec<CompletionCandidate> {
    names.sort_unstable();
    names.dedup();
    let names = names.into_iter().map(|name| (name, String::new()));
    names.filter_map(named).collect()
}

/// The clients that have a token, as the state directory knows them.
fn kept_tokens() -> Vec<String> {
    let state = StateDir::locate(&Process).ok();
    let tokens = state.and_then(|state| mainstay_tokens::read(&state).ok());
    let tokens = tokens.into_iter().flatten();
    tokens.map(|token| token.name.to_string()).collect()
}

/// The clients that have switches, as the state directory knows them.
fn kept_switches() -> Vec<String> {
    let read = || {
        let state = StateDir::locate(&Process).ok()?;
        state.check().ok()?;
        let text = read_private(&state.switches()).ok()?;
        serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(&text).ok()
    };
    read().into_iter().flatten().map(|(name, _)| name).collect()
}

/// How a call ends.
pub fn statuses() -> Vec<CompletionCandidate> {
    words(Status::ALL.iter().map(|status| status.as_str()))
}

/// Where calls come in.
pub fn doors() -> Vec<CompletionCandidate> {
    // No call comes over a bridge yet.
    let doors = Door::ALL.iter().filter(|door| **door != Door::Bridge);
    words(doors.map(|door| door.as_str()))
}

fn words(words: impl Iterator<Item = &'static str>) -> Vec<CompletionCandidate> {
    words.map(CompletionCandidate::new).collect()
}

pub fn programs() -> Vec<CompletionCandidate> {
    let programs = Program::ALL.into_iter();
    programs
        .map(|it| CompletionCandidate::new(it.id()).help(Some(it.name().into())))
        .collect()
}

pub fn programs_and_files(typed: &OsStr) -> Vec<CompletionCandidate> {
    let begins = |it: &CompletionCandidate| {
        let value = it.get_value().to_string_lossy();
        value.starts_with(&*typed.to_string_lossy())
    };
    let programs = programs().into_iter().filter(begins);
    programs
        .chain(PathCompleter::file().complete(typed))
        .collect()
}

/// `key=` and `key=value` of the tool or prompt that was typed before. bash cuts words at `=`, the other
/// shells do not.
pub fn arguments(typed: &OsStr) -> Vec<CompletionCandidate> {
    let typed = typed.to_string_lossy().into_owned();
    within_limit(move || {
        let (before, is_prompt) = (
            typed_before(),
            typed_words().iter().any(|it| it == "prompts"),
        );
        let Some(name) = before.iter().find(|word| word.contains('/')) else {
            return Vec::new();
        };
        let offers: Option<Vec<Offer>> = if is_prompt {
            let asked = ask(async |client| client.prompts().await);
            asked.map(|known| known.prompts.iter().map(Offer::from).collect())
        } else {
            let asked = ask(async |client| client.tools().await);
            asked.map(|known| known.tools.iter().map(Offer::from).collect())
        };
        let offer = offers.into_iter().flatten().find(|it| it.name == *name);
        let Some(offer) = offer else {
            return Vec::new();
        };
        candidates_of(&offer, &before, &typed)
    })
}

fn candidates_of(offer: &Offer, before: &[String], typed: &str) -> Vec<CompletionCandidate> {
    let find = |name: &str| offer.arguments.iter().find(|it| it.name == name);
    let last = match before {
        [.., key, equals] if equals == "=" => Some(key),
        [.., key] if !key.contains('=') => Some(key),
        _ => None,
    };
    let (key, prefix, value) = match typed.split_once('=') {
        Some((key, value)) => (find(key), format!("{key}="), value),
        None => (last.and_then(|key| find(key)), String::new(), typed),
    };
    let begins = |it: &CompletionCandidate| it.get_value().to_string_lossy().starts_with(typed);
    let found: Vec<_> = match key {
        Some(argument) => {
            let values = argument.values.iter().filter(|it| it.starts_with(value));
            values
                .filter_map(|it| named((format!("{prefix}{it}"), String::new())))
                .collect()
        }
        None => {
            let given = |name: &str| {
                before
                    .iter()
                    .any(|word| word.split('=').next() == Some(name))
            };
            let open = offer.arguments.iter().filter(|it| !given(&it.name));
            open.filter_map(|it| named((format!("{}=", it.name), it.about.clone())))
                .collect()
        }
    };
    found.into_iter().filter(begins).collect()
}

fn offered(offer: Offer) -> Option<CompletionCandidate> {
    named((offer.name, offer.about))
}

/// A name, with what is said of it. `None` for one that a shell would not take as it stands.
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

/// Looks something up, and gives up after [`LIMIT`]: a file may lie on a mount that hangs.
fn within_limit<T: Default + Send + 'static>(look: impl FnOnce() -> T + Send + 'static) -> T {
    let (found, told) = mpsc::channel();
    // Not joined: the process ends.
    thread::spawn(move || found.send(look()).ok());
    told.recv_timeout(LIMIT).unwrap_or_default()
}

/// What the daemon answers, if one is there and answers in time. `--config` does without one.
fn ask<T>(question: impl AsyncFnOnce(&Client) -> Result<T, ClientError>) -> Option<T> {
    if typed_option("--config").is_some() {
        return None;
    }
    let client = connect::running(typed_option("--url")).ok()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let answered = runtime.block_on(async {
        let answered = tokio::time::timeout(OF_DAEMON, question(&client)).await;
        answered.ok()?.ok()
    });
    // A name that is being looked up is not waited for.
    runtime.shutdown_background();
    answered
}

/// What the configuration's file has: that of `--config`, of the daemon, or the usual one.
fn in_file<T: Default>(read: impl FnOnce(&Document) -> T) -> T {
    let served = || connect::locate(None).ok()?.file?.config.map(PathBuf::from);
    let origin = Origin {
        flag: typed_option("--config").map(PathBuf::from).or_else(served),
        ..Origin::default()
    };
    let text = origin.text().ok().flatten();
    let syntax = Syntax::of_path(&origin.path().unwrap_or_default());
    let document = text.and_then(|text| Document::read(&text, syntax).ok());
    document.map(|document| read(&document)).unwrap_or_default()
}

/// The words of the line that is being typed, the program's name first.
fn typed_words() -> Vec<String> {
    let words = env::args_os().skip_while(|word| word != "--").skip(1);
    words
        .map(|word: OsString| word.to_string_lossy().into_owned())
        .collect()
}

/// The words before the one that is completed.
fn typed_before() -> Vec<String> {
    let mut words = typed_words();
    let index = env::var("_CLAP_COMPLETE_INDEX").ok();
    let index = index.and_then(|index| index.parse().ok());
    words.truncate(index.unwrap_or(words.len().saturating_sub(1)));
    words
}

/// The value of an option on that line.
fn typed_option(name: &str) -> Option<String> {
    let words = typed_words();
    let joined = words
        .iter()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='));
    let apart = || {
        let at = words.iter().position(|word| word == name)?;
        // bash cuts words at `=`.
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
        let values = found.into_iter();
        values
            .map(|it| it.get_value().to_string_lossy().into_owned())
            .collect()
    }

    /// What is completed is run when the person presses Enter.
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
        let offer = Offer::of("s/t", "", &schema.to_string());
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
        // As bash cuts it.
        check(&["call", "s/t", "mode", "="], "f", &["fast"]);
        check(&["call", "s/t", "flag"], "", &["true", "false"]);
        check(
            &["call", "s/t", "mode", "=", "fast"],
            "",
            &["text=", "flag="],
        );
    }
}
