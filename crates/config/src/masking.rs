//! Replaces a configuration's secrets by placeholders on the way out, and puts them back on the way in.
//!
//! A placeholder says where its secret stands in the file: `${secret:/mcpServers/fs/env/API_KEY}`. So
//! it means the same secret wherever it comes back, and nothing else can mean it.

use mainstay_core::redact::redact;
use serde_json::{Map, Value};

/// How a placeholder begins.
pub const START: &str = "${secret:";

/// Members all of whose texts are secret.
const SECRET_MEMBERS: [&str; 5] = ["env", "headers", "inputParams", "inputs", "webhook"];

/// Members that may hold secrets where an entry keeps for a client what was not understood. The client's
/// words for variables, headers and arguments are not known there.
const SECRET_KEPT_MEMBERS: [&str; 8] = [
    "args",
    "arguments",
    "cmd",
    "command",
    "environment",
    "envs",
    "header",
    "http_headers",
];

/// Words in the name of a member, an option or a variable that say that its value is secret.
const SECRET_WORDS: [&str; 11] = [
    "apikey",
    "auth",
    "bearer",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "pwd",
    "secret",
    "token",
];

/// Last words in the name of an option, a variable or a header that say the same. Members have them for
/// other things.
const LAST_SECRET_WORDS: [&str; 3] = ["key", "pass", "pat"];

/// Our own members whose names hold such a word, and whose values are no secrets.
const OPEN_MEMBERS: [&str; 1] = ["unauthorizedDelayMs"];

/// Beginnings by which secrets are known.
const SECRET_STARTS: [&str; 12] = [
    "AKIA",
    "AIza",
    "Bearer ",
    "eyJ",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "sk-",
    "sk_",
    "xoxb-",
    "xoxp-",
];

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} stands for a secret that the configuration does not have any more")]
pub struct UnknownSecret(String);

/// The value with placeholders for its secrets; `pointer` is where it stands in the file (RFC 6901).
pub fn masked(value: &Value, pointer: &str) -> Value {
    mask(value, pointer, Secrecy::Open)
}

/// The masked form of one entry.
pub fn masked_entry(entry: &Map<String, Value>, pointer: &str) -> Map<String, Value> {
    members(entry, pointer, Secrecy::Open)
}

/// Whether the value of this variable or header has to be hidden from who looks on: its name or its form says
/// so, and it is more than a reference.
pub fn is_secret_pair(name: &str, value: &str) -> bool {
    !is_reference(value) && (says_secret(name) || is_secret(value) || redact(value) != value)
}

/// The value with its placeholders replaced by what `file` has there.
pub fn unmasked(value: &Value, file: &Value) -> Result<Value, UnknownSecret> {
    Ok(match value {
        Value::String(text) => Value::String(restored(text, file)?),
        Value::Array(elements) => {
            let elements = elements.iter().map(|element| unmasked(element, file));
            Value::Array(elements.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let members = members
                .iter()
                .map(|(key, value)| Ok((key.clone(), unmasked(value, file)?)));
            Value::Object(members.collect::<Result<_, _>>()?)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Secrecy {
    Open,
    /// Every text below is secret.
    Secret,
}

pub(super) fn mask(value: &Value, pointer: &str, secrecy: Secrecy) -> Value {
    match value {
        Value::Object(object) => Value::Object(members(object, pointer, secrecy)),
        Value::Array(elements) => Value::Array(array(elements, pointer, secrecy)),
        Value::String(text) if is_reference(text) => value.clone(),
        Value::String(text) if secrecy == Secrecy::Secret || is_secret(text) => {
            Value::String(placeholder(pointer, ""))
        }
        Value::String(text) => match text.split_once('?') {
            // People put keys into the query of a URL.
            Some((url, query)) if url.contains("://") && !is_reference(query) => {
                Value::String(format!("{url}?{}", placeholder(pointer, "?")))
            }
            _ => value.clone(),
        },
        Value::Number(_) if secrecy == Secrecy::Secret => Value::String(placeholder(pointer, "")),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

fn members(object: &Map<String, Value>, pointer: &str, secrecy: Secrecy) -> Map<String, Value> {
    let member = |(key, value): (&String, &Value)| {
        let below = secrecy_of(key, value.is_object(), pointer, secrecy);
        let pointer = format!("{pointer}/{}", escaped(key));
        (key.clone(), mask(value, &pointer, below))
    };
    object.iter().map(member).collect()
}

/// How secret the member `key` of the object at `pointer` is.
pub(super) fn secrecy_of(key: &str, is_object: bool, pointer: &str, secrecy: Secrecy) -> Secrecy {
    // There the keys are names that people chose.
    let of_servers = matches!(pointer, "/mcpServers" | "/servers" | "/profiles");
    let named = SECRET_MEMBERS.contains(&key)
        || names_a_secret(key) && !is_object
        || is_kept_secret(key, pointer);
    // The description of an input is for people.
    let open = matches!(key, "id" | "type" | "description");
    if !open && (secrecy == Secrecy::Secret || named && !of_servers) {
        Secrecy::Secret
    } else {
        Secrecy::Open
    }
}

/// Whether the member `key` of what an entry keeps for a client (`_CLIENT`) may be a secret: what looks
/// like variables, headers or arguments, and everything within an object.
fn is_kept_secret(key: &str, pointer: &str) -> bool {
    let mut below = pointer.split('/').skip_while(|part| !part.starts_with('_'));
    if below.next().is_none() {
        return false;
    }
    // A member of a member that was kept by itself: `env.NAME`.
    let base = key.split('.').next().unwrap_or(key);
    let mut known = SECRET_MEMBERS.iter().chain(&SECRET_KEPT_MEMBERS);
    below.next().is_some() || known.any(|known| *known == base)
}

/// After an option that names a secret comes the secret: `--token T`, `--token=T`. Headers are given as
/// `Authorization: Bearer T`.
fn array(elements: &[Value], pointer: &str, secrecy: Secrecy) -> Vec<Value> {
    let mut after = Secrecy::Open;
    let mut shown = Vec::with_capacity(elements.len());
    for (index, element) in elements.iter().enumerate() {
        let pointer = format!("{pointer}/{index}");
        let secret = if secrecy == Secrecy::Secret {
            secrecy
        } else {
            after
        };
        after = Secrecy::Open;
        let text = element.as_str().filter(|_| secret == Secrecy::Open);
        let masked = match text.and_then(|text| option(text, &pointer)) {
            Some(SecretOption::WithValue(masked)) => Value::String(masked),
            Some(SecretOption::BeforeValue) => {
                after = Secrecy::Secret;
                element.clone()
            }
            None => mask(element, &pointer, secret),
        };
        shown.push(masked);
    }
    shown
}

/// An option that names a secret.
pub(super) enum SecretOption {
    /// `--token=T` or `Name: T`, masked.
    WithValue(String),
    /// `--token`: the next element is the secret.
    BeforeValue,
}

pub(super) fn option(text: &str, pointer: &str) -> Option<SecretOption> {
    if let Some((name, value)) = text.split_once(':')
        && name
            .bytes()
            .all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_'))
        && says_secret(name)
        && !value.starts_with("//")
        && !is_reference(value.trim())
    {
        let masked = format!("{name}:{}", placeholder(pointer, ":"));
        return Some(SecretOption::WithValue(masked));
    }
    match text.split_once('=') {
        Some((option, value))
            if !is_reference(value) && (says_secret(option) || carries_secret(value)) =>
        {
            let masked = format!("{option}={}", placeholder(pointer, "="));
            Some(SecretOption::WithValue(masked))
        }
        None if text.starts_with('-') && says_secret(text) => Some(SecretOption::BeforeValue),
        _ => None,
    }
}

/// Whether a value has parts of its own, one of which is a secret: `--env=API_TOKEN=T`, `--header=X-Api-Key: T`,
/// `Server=HOST;Password=T`.
fn carries_secret(value: &str) -> bool {
    value.split([';', '&', ',']).any(|part| {
        part.split_once(['=', ':']).is_some_and(|(name, secret)| {
            says_secret(name.trim()) && !secret.starts_with("//") && !is_reference(secret.trim())
        })
    })
}

/// Whether an option, a variable or a header names a secret.
fn says_secret(name: &str) -> bool {
    let last = name.rsplit(['-', '_']).next().unwrap_or_default();
    names_a_secret(name)
        || LAST_SECRET_WORDS
            .iter()
            .any(|word| last.eq_ignore_ascii_case(word))
}

pub(super) fn names_a_secret(name: &str) -> bool {
    if OPEN_MEMBERS.contains(&name) {
        return false;
    }
    let name = name.replace(['-', '_'], "").to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

pub(super) fn is_secret(text: &str) -> bool {
    let credentials = text.split_once("://").is_some_and(|(_, rest)| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        authority.contains('@')
    });
    credentials
        || SECRET_STARTS
            .iter()
            .any(|start| text.starts_with(start) && text.len() > start.len() + 8)
}

/// Whether the text only says where a secret is found, and has nothing else, such as a default.
pub(super) fn is_reference(text: &str) -> bool {
    let inside = text
        .strip_prefix("${")
        .and_then(|text| text.strip_suffix('}'));
    text.is_empty()
        || inside.is_some_and(|inside| !inside.contains(['{', '}']) && !inside.contains(":-"))
}

/// `part` is the character of the text behind which the secret begins, if it is not all of it.
fn placeholder(pointer: &str, part: &str) -> String {
    format!("{START}{pointer}{part}}}")
}

pub(super) fn restored(text: &str, file: &Value) -> Result<String, UnknownSecret> {
    let mut restored = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(START) {
        let (before, placeholder) = rest.split_at(at);
        let unknown = || UnknownSecret(placeholder.chars().take(200).collect());
        let end = placeholder.find('}').ok_or_else(unknown)?;
        let pointer = &placeholder[START.len()..end];
        restored.push_str(before);
        restored.push_str(
            &secret(pointer, file).ok_or_else(|| UnknownSecret(placeholder[..=end].to_owned()))?,
        );
        rest = &placeholder[end + 1..];
    }
    restored.push_str(rest);
    Ok(restored)
}

fn secret(pointer: &str, file: &Value) -> Option<String> {
    let (pointer, part) = match pointer.strip_suffix(['?', '=', ':']) {
        Some(whole) => (whole, pointer.chars().next_back()),
        None => (pointer, None),
    };
    let found = match file.pointer(
        &pointer
            .replace("~2", "}")
            .replace("~3", "?")
            .replace("~4", "=")
            .replace("~5", ":"),
    )? {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    match part {
        Some(mark) => Some(found.split_once(mark)?.1.to_owned()),
        None => Some(found),
    }
}

/// Escapes a key as RFC 6901 does, and what would end a placeholder likewise.
pub(super) fn escaped(key: &str) -> String {
    key.replace('~', "~0")
        .replace('/', "~1")
        .replace('}', "~2")
        .replace('?', "~3")
        .replace('=', "~4")
        .replace(':', "~5")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_shown_by_their_place() {
        let file = json!({"mcpServers": {"fs": {
            "command": "npx",
            "args": ["--api-key=s3cret", "--token", "s3cret", "--verbose", "sk-s3cret00000", "${HOME}", "postgres://me:s3cret@h/db",
                "--header", "Authorization: Bearer s3cret==", "X-API-Key:s3cret", "Authorization: ${AUTH}", "--key", "s3cret", "DB_PASS=s3cret",
                "--env=API_TOKEN=s3cret", "--header=X-Api-Key: s3cret", "Server=h;User=me;Password=s3cret;", "--env=A=${B}",
                "https://token:8080/keys"],
            "env": {"A/B": "s3cret", "C": "${C}", "D": "${D:-s3cret}", "PORT": 12345},
            "url": "https://h/mcp?key=s3cret",
            "headers": {"x": "s3cret"},
            "bearerToken": "s3cret",
            "inputParams": {"p": {"type": "text", "value": "s3cret"}},
        }}, "alerts": [{"webhook": {"url": "https://hooks/s3cret"}, "on": ["flapping"]}]});
        let shown = masked(&file, "");
        let text = shown.to_string();
        assert!(
            !text.contains("s3cret") && !text.contains("12345"),
            "{text}"
        );
        let fs = &shown["mcpServers"]["fs"];
        assert_eq!(
            fs["env"],
            json!({
                "A/B": "${secret:/mcpServers/fs/env/A~1B}",
                "C": "${C}",
                "D": "${secret:/mcpServers/fs/env/D}",
                "PORT": "${secret:/mcpServers/fs/env/PORT}",
            })
        );
        assert_eq!(fs["args"][0], "--api-key=${secret:/mcpServers/fs/args/0=}");
        assert_eq!(fs["args"][3], "--verbose");
        assert_eq!(fs["args"][5], "${HOME}");
        assert_eq!(
            fs["args"][8],
            "Authorization:${secret:/mcpServers/fs/args/8:}"
        );
        assert_eq!(fs["args"][10], "Authorization: ${AUTH}");
        assert_eq!(fs["args"][17], "--env=A=${B}");
        assert_eq!(fs["args"][18], "https://token:8080/keys");
        assert_eq!(fs["url"], "https://h/mcp?${secret:/mcpServers/fs/url?}");
        let mut back = unmasked(&shown, &file).expect("all known");
        back["mcpServers"]["fs"]["env"]["PORT"] = 12345.into();
        assert_eq!(back, file);
    }

    /// The words of the client are not known, so whatever may be a secret is one.
    #[test]
    fn what_is_kept_for_a_client_is_masked() {
        let file = json!({"mcpServers": {"fs": {"command": "npx", "_cursor": {
            "environment": {"DSN": "planted-1", "PIN": 1234},
            "header": {"X-Custom": "planted-2"},
            "args": "srv.py --key planted-3 --token planted-4",
            "env.LIST": ["planted-5"],
            "requestInit": {"deep": {"x": ["planted-6"]}},
            "alwaysAllow": ["read"],
            "trust": true,
            "description": "mine",
        }}}});
        let shown = masked(&file, "");
        let text = shown.to_string();
        assert!(
            !text.contains("planted") && !text.contains("1234"),
            "{text}"
        );
        let kept = &shown["mcpServers"]["fs"]["_cursor"];
        assert_eq!(kept["alwaysAllow"], json!(["read"]));
        assert_eq!(kept["description"], "mine");
        let mut back = unmasked(&shown, &file).expect("all known");
        back["mcpServers"]["fs"]["_cursor"]["environment"]["PIN"] = 1234.into();
        assert_eq!(back, file);
    }

    /// Names that people chose say nothing of what stands there.
    #[test]
    fn a_server_may_be_called_token() {
        let file =
            json!({"mcpServers": {"token": {"command": "x"}, "env": {"command": "y", "cwd": "/"}}});
        assert_eq!(masked(&file, ""), file);
    }

    /// A placeholder may come back elsewhere: under another name, or in another place of a list.
    #[test]
    fn a_placeholder_means_one_secret_wherever_it_comes_back() {
        let file = json!({"mcpServers": {"a": {"args": ["--token", "one"]}}});
        let moved = json!({"mcpServers": {"b": {"args": ["x", "--token", "${secret:/mcpServers/a/args/1}"]}}});
        let back = unmasked(&moved, &file).expect("known");
        assert_eq!(back["mcpServers"]["b"]["args"][2], "one");
        for unknown in ["${secret:/gone}", "${secret:/mcpServers", "${secret:}"] {
            unmasked(&json!([unknown]), &file).expect_err(unknown);
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_comes_back(key in ".{0,12}", secret in ".{1,20}", url in "https://h/[a-z?=&]{0,12}") {
            prop_assume!(!secret.contains("${"));
            let file = json!({"mcpServers": {"s": {"env": {key: secret.clone()}, "args": [format!("--token={secret}")], "url": url}}});
            let shown = masked(&file, "");
            prop_assert_eq!(unmasked(&shown, &file), Ok(file));
        }
    }
}
