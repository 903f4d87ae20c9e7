//! Replaces a configuration's secrets by placeholders in output, and restores them in input.
//!
//! A placeholder contains the path of its secret in the file: `${secret:/mcpServers/fs/env/API_KEY}`. So it stands
//! for the same secret at any place of the input, and for no other.

use mainstay_core::redact::redact;
use serde_json::{Map, Value};

/// The beginning of a placeholder.
pub const START: &str = "${secret:";

/// Members in which every text is secret.
const SECRET_MEMBERS: [&str; 5] = ["env", "headers", "inputParams", "inputs", "webhook"];

/// Members that may hold secrets within the part of an entry that is kept for another client. Mainstay does not
/// know that client's keys for variables, headers and arguments.
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

/// Words that mark a member, an option or a variable as secret.
const SECRET_WORDS: [&str; 12] = [
    "apikey",
    "auth",
    "bearer",
    "cookie",
    "credential",
    "passphrase",
    "passwd",
    "password",
    "privatekey",
    "pwd",
    "secret",
    "token",
];

/// Words that mark an option, a variable or a header as secret if they end its name. Members with such names may be
/// open.
const LAST_SECRET_WORDS: [&str; 3] = ["key", "pass", "pat"];

/// Members of our own whose names contain a secret word, but whose values are not secret.
const OPEN_MEMBERS: [&str; 1] = ["unauthorizedDelayMs"];

/// Prefixes of secrets of well-known services.
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

/// Replaces secrets by placeholders. `pointer` is the place of the value in the file (RFC 6901).
pub fn masked(value: &Value, pointer: &str) -> Value {
    mask(value, pointer, Secrecy::Open)
}

/// Masks one entry.
pub fn masked_entry(entry: &Map<String, Value>, pointer: &str) -> Map<String, Value> {
    members(entry, pointer, Secrecy::Open)
}

/// True if the value of this variable or header must be hidden: its name or its form marks a secret, and it is not
/// just a reference.
pub fn is_secret_pair(name: &str, value: &str) -> bool {
    !is_reference(value) && (marks_secret(name) || is_secret(value) || redact(value) != value)
}

/// Replaces placeholders by the secrets of `file`. A placeholder without a secret there is an error.
pub fn unmasked(value: &Value, file: &Value) -> Result<Value, UnknownSecret> {
    Ok(match value {
        Value::String(text) => Value::String(restored(text, file)?),
        Value::Array(elements) => {
            let restored = elements.iter().map(|element| unmasked(element, file));
            Value::Array(restored.collect::<Result<_, _>>()?)
        }
        Value::Object(members) => {
            let restored = members
                .iter()
                .map(|(key, value)| Ok((key.clone(), unmasked(value, file)?)));
            Value::Object(restored.collect::<Result<_, _>>()?)
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
        let below = if holds_credentials(key, pointer, value.as_str()) {
            Secrecy::Secret
        } else {
            secrecy_of(key, value.is_object(), pointer, secrecy)
        };
        let pointer = format!("{pointer}/{}", escaped(key));
        (key.clone(), mask(value, &pointer, below))
    };
    object.iter().map(member).collect()
}

/// True for a `proxy` with credentials, even in an invalid URL, and for a `headersHelper` command that contains a
/// secret. `pointer` is the place of the object with the key.
pub(super) fn holds_credentials(key: &str, pointer: &str, text: Option<&str>) -> bool {
    let Some(text) = text else {
        return false;
    };
    match key {
        "proxy" => text.contains('@'),
        "headersHelper" => has_secret_word(text),
        "command" if pointer.ends_with("/headersHelper") => has_secret_word(text),
        _ => false,
    }
}

/// Minimum length of a word of a command line that may be a secret because it looks random.
const MIN_SECRET_WORD: usize = 16;

/// True if a command line may contain a secret: it sets a variable, names a secret, or has a long word of letters
/// and digits that is not a path, an option or a URL.
fn has_secret_word(command: &str) -> bool {
    let mut words = command.split_whitespace();
    words.any(|word| {
        let word = word.trim_matches(['\'', '"']);
        let sets_variable = !word.starts_with('-') && word.contains('=');
        let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
        let is_random = word.len() >= MIN_SECRET_WORD
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_alphabetic)
            && !word.starts_with(['/', '~', '.', '-', '$'])
            && !word.contains("://");
        sets_variable || is_random || option(word, "").is_some()
    })
}

/// Members whose value is a secret text. An object as the value is a mistake, but may hold the secret.
pub const SECRET_TEXTS: [&str; 5] = [
    "bearerToken",
    "clientSecret",
    "client_secret",
    "CLIENT_SECRET",
    "privateKey",
];

/// The secrecy of the member `key` of the object at `pointer`.
pub(super) fn secrecy_of(key: &str, is_object: bool, pointer: &str, secrecy: Secrecy) -> Secrecy {
    // The keys of these objects are names that people chose, so they mark no secrets.
    let of_servers = matches!(pointer, "/mcpServers" | "/servers" | "/profiles");
    let named = SECRET_MEMBERS.contains(&key)
        || names_a_secret(key) && (!is_object || SECRET_TEXTS.contains(&key))
        || is_kept_secret(key, pointer);
    // People read these members of an input.
    let open = matches!(key, "id" | "type" | "description");
    if !open && (secrecy == Secrecy::Secret || named && !of_servers) {
        Secrecy::Secret
    } else {
        Secrecy::Open
    }
}

/// True if the member `key` within the part that an entry keeps for a client (`_CLIENT`) may be secret: it looks
/// like variables, headers or arguments, or it is in an inner object.
fn is_kept_secret(key: &str, pointer: &str) -> bool {
    let mut below = pointer.split('/').skip_while(|part| !part.starts_with('_'));
    if below.next().is_none() {
        return false;
    }
    // A member may be kept apart from its object, such as `env.NAME`.
    let base = key.split('.').next().unwrap_or(key);
    let mut names = SECRET_MEMBERS.iter().chain(&SECRET_KEPT_MEMBERS);
    below.next().is_some() || names.any(|name| *name == base)
}

/// Masks the elements of an array. In arguments, a secret follows the option that names it: `--token T`,
/// `--token=T`. Headers have the form `Authorization: Bearer T`.
fn array(elements: &[Value], pointer: &str, secrecy: Secrecy) -> Vec<Value> {
    let mut after = Secrecy::Open;
    let mut masked_elements = Vec::with_capacity(elements.len());
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
        masked_elements.push(masked);
    }
    masked_elements
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
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        && marks_secret(name)
        && !value.starts_with("//")
        && !is_reference(value.trim())
    {
        let masked = format!("{name}:{}", placeholder(pointer, ":"));
        return Some(SecretOption::WithValue(masked));
    }
    match text.split_once('=') {
        Some((option, value))
            if !is_reference(value) && (marks_secret(option) || carries_secret(value)) =>
        {
            let masked = format!("{option}={}", placeholder(pointer, "="));
            Some(SecretOption::WithValue(masked))
        }
        None if text.starts_with('-') && marks_secret(text) => Some(SecretOption::BeforeValue),
        _ => None,
    }
}

/// True if a part of the value is a secret: `--env=API_TOKEN=T`, `--header=X-Api-Key: T`,
/// `Server=HOST;Password=T`.
fn carries_secret(value: &str) -> bool {
    value.split([';', '&', ',']).any(|part| {
        part.split_once(['=', ':']).is_some_and(|(name, secret)| {
            marks_secret(name.trim()) && !secret.starts_with("//") && !is_reference(secret.trim())
        })
    })
}

/// True if the name of an option, a variable or a header marks a secret.
fn marks_secret(name: &str) -> bool {
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
        // A `/` in a password that is not encoded ends the authority early. Then the text after the colon is
        // not a port, because a port has digits only.
        let (_, port) = authority.rsplit_once(':').unwrap_or_default();
        let is_password =
            !authority.starts_with('[') && !port.bytes().all(|byte| byte.is_ascii_digit());
        authority.contains('@') || is_password && rest.contains('@')
    });
    credentials
        || SECRET_STARTS
            .iter()
            .any(|start| text.starts_with(start) && text.len() > start.len() + 8)
}

/// True if the text is empty, or is one reference without a default.
pub(super) fn is_reference(text: &str) -> bool {
    let inside = text
        .strip_prefix("${")
        .and_then(|text| text.strip_suffix('}'));
    text.is_empty()
        || inside.is_some_and(|inside| !inside.contains(['{', '}']) && !inside.contains(":-"))
}

/// Makes a placeholder. `part` is the character before the secret if the secret is only a part of the text.
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

/// Escapes a key by RFC 6901. Also escapes the characters that would end a placeholder.
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
            "proxy": "http://me:s3cret/?@proxy:3128",
            "inputParams": {"p": {"type": "text", "value": "s3cret"}},
        }}, "alerts": [{"webhook": {"url": "https://hooks/s3cret"}, "on": ["flapping"]}]});
        let masked_file = masked(&file, "");
        let text = masked_file.to_string();
        assert!(
            !text.contains("s3cret") && !text.contains("12345"),
            "{text}"
        );
        let fs = &masked_file["mcpServers"]["fs"];
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
        assert_eq!(fs["proxy"], "${secret:/mcpServers/fs/proxy}");
        let mut back = unmasked(&masked_file, &file).expect("all known");
        back["mcpServers"]["fs"]["env"]["PORT"] = 12345.into();
        assert_eq!(back, file);
    }

    /// Mainstay does not know the keys of other clients, so it masks everything that may be a secret.
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
        let masked_file = masked(&file, "");
        let text = masked_file.to_string();
        assert!(
            !text.contains("planted") && !text.contains("1234"),
            "{text}"
        );
        let client_part = &masked_file["mcpServers"]["fs"]["_cursor"];
        assert_eq!(client_part["alwaysAllow"], json!(["read"]));
        assert_eq!(client_part["description"], "mine");
        let mut back = unmasked(&masked_file, &file).expect("all known");
        back["mcpServers"]["fs"]["_cursor"]["environment"]["PIN"] = 1234.into();
        assert_eq!(back, file);
    }

    #[test]
    fn a_proxy_is_shown_unless_it_has_a_password() {
        for (proxy, is_shown) in [
            (json!("http://proxy:3128"), true),
            (json!(false), true),
            (json!("${env:PROXY}"), true),
            (json!("http://${env:USER}@proxy:3128"), false),
            (json!("me:s3cret@proxy:3128"), false),
            (json!("http://me:a?s3cret@proxy"), false),
        ] {
            let file = json!({"mcpServers": {"s": {"url": "https://h", "proxy": proxy}}});
            let masked_file = masked(&file, "");
            assert_eq!(masked_file == file, is_shown, "{masked_file}");
            assert_eq!(unmasked(&masked_file, &file), Ok(file));
        }
    }

    /// Names that people chose do not mark secrets.
    #[test]
    fn a_server_may_be_called_token() {
        let file =
            json!({"mcpServers": {"token": {"command": "x"}, "env": {"command": "y", "cwd": "/"}}});
        assert_eq!(masked(&file, ""), file);
    }

    /// A placeholder may be restored at another place: under another name, or elsewhere in a list.
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
            let masked_file = masked(&file, "");
            prop_assert_eq!(unmasked(&masked_file, &file), Ok(file));
        }
    }
}
