//! References in the texts of an entry: [`parse_entry`] against a reader that works character by character.
//!
//! The first byte defines the type of server, and whether its references are replaced. Each following line is
//! a text: `eNAME=…` of its environment, `pNAME=…` of its parameters, any other an argument or the value of a
//! header.

use std::{
    cell::Cell,
    path::{Path, PathBuf},
};

use mainstay_config::{
    ConfigSource, Environment, MAX_EXPANDED, References, UnreadableFile, UnreadableSecret,
    is_secret_name, parse_entry,
};
use mainstay_core::{
    config::{Launch, Secret},
    ids::ServerName,
};
use serde_json::{Map, Value, json};

/// The file of the entry.
const FILE: &str = r#"{"mcpServers": {}, "inputs": [{"id": "key", "default": "asked"}]}"#;

/// An environment with files. Counts the accesses.
#[derive(Default)]
struct World {
    accesses: Cell<usize>,
}

impl Environment for World {
    fn var(&self, name: &str) -> Option<String> {
        self.accesses.set(self.accesses.get() + 1);
        match name {
            "A" => Some("a".to_owned()),
            "REF" => Some("${A}".to_owned()),
            "EMPTY" => Some(String::new()),
            "BIG" => Some("b".repeat(MAX_EXPANDED / 4)),
            "INPUT_ID" => Some("given".to_owned()),
            _ => None,
        }
    }

    fn read_file(&self, path: &Path) -> Result<String, UnreadableFile> {
        self.accesses.set(self.accesses.get() + 1);
        match path.to_str() {
            Some("/f/a") => Ok("line\n\r\n".to_owned()),
            Some("/home/a") => Ok("at home".to_owned()),
            Some("/f/ref") => Ok("${A}".to_owned()),
            Some("/f/empty") => Ok(String::new()),
            Some("/f/nul") => Ok("\0".to_owned()),
            Some("/f/big") => Ok("f".repeat(MAX_EXPANDED * 3 / 4)),
            Some("/f/device") => Err(UnreadableFile::NotRegular("a device")),
            _ => Err(UnreadableFile::Absent),
        }
    }

    fn secret(&self, name: &str) -> Result<Secret, UnreadableSecret> {
        self.accesses.set(self.accesses.get() + 1);
        match name {
            "a" => Ok(Secret::new("kept")),
            "empty" => Ok(Secret::new("")),
            "ref" => Ok(Secret::new("${A}")),
            "closed" => Err(UnreadableSecret::Congested),
            _ => Err(UnreadableSecret::Absent),
        }
    }

    fn home_dir(&self) -> Option<PathBuf> {
        Some("/home".into())
    }
}

/// The texts of an entry.
#[derive(Default)]
struct Texts {
    is_remote: bool,
    is_kept: bool,
    env: Vec<(String, String)>,
    params: Vec<(String, String)>,
    others: Vec<String>,
}

/// Parses the texts of an entry.
pub fn check(data: &[u8]) {
    let Some((first, text)) = data.split_first() else {
        return;
    };
    let texts = Texts::new(*first, &String::from_utf8_lossy(text));
    let (world, path) = (World::default(), PathBuf::from("/f/c.json"));
    let entry = texts.entry();
    let most = Value::Object(entry.clone())
        .to_string()
        .matches("${")
        .count();
    let name = ServerName::new("s").expect("a legal name");
    let references = if texts.is_kept {
        References::Kept
    } else {
        References::Replaced
    };
    let source = ConfigSource::file(&path);
    let parsed = parse_entry(name, &entry, FILE, &source, &world, references);
    let launch = parsed.expect("a usable file").config.launch;
    let accesses = world.accesses.get();
    assert!(
        accesses <= if texts.is_kept { 0 } else { most },
        "asked {accesses} times"
    );
    match (found(launch), texts.expected()) {
        (Some(found), Some(expected)) => {
            let bytes: usize = found.iter().map(String::len).sum();
            assert!(bytes <= MAX_EXPANDED, "{bytes} bytes");
            assert_eq!(found, expected);
        }
        (None, None) => {}
        (Some(found), None) => panic!("accepted: {entry:?} as {found:?}"),
        (None, Some(_)) => panic!("refused: {entry:?}"),
    }
}

/// The texts of a launch: its environment by name, and its arguments or headers.
fn found(launch: Launch) -> Option<Vec<String>> {
    match launch {
        Launch::Stdio(launch) => {
            let values = launch.env.values().map(|value| value.expose().to_owned());
            Some(values.chain(launch.args).collect())
        }
        Launch::Http(launch) => {
            let values = launch
                .headers
                .iter()
                .map(|(_, value)| value.expose().to_owned());
            Some(values.collect())
        }
        Launch::Broken(_) | Launch::Unapproved => None,
    }
}

impl Texts {
    fn new(first: u8, text: &str) -> Self {
        let mut texts = Self {
            is_remote: first & 1 == 1,
            is_kept: first & 2 == 2,
            ..Self::default()
        };
        for line in text.split('\n') {
            let named = match line.chars().next() {
                Some('e') => line[1..].split_once('=').map(|pair| (&mut texts.env, pair)),
                Some('p') => line[1..]
                    .split_once('=')
                    .map(|pair| (&mut texts.params, pair)),
                _ => None,
            };
            match named {
                // JSON has each name once.
                Some((list, (name, _))) if list.iter().any(|(earlier, _)| earlier == name) => {}
                Some((list, (name, text))) => list.push((name.to_owned(), text.to_owned())),
                None => texts.others.push(line.to_owned()),
            }
        }
        texts
    }

    fn entry(&self) -> Map<String, Value> {
        let object = |list: &[(String, String)]| {
            let member = |(name, text): &(String, String)| (name.clone(), text.as_str().into());
            Value::Object(list.iter().map(member).collect())
        };
        let mut entry = json!({"env": object(&self.env), "inputParams": object(&self.params)});
        if self.is_remote {
            let headers = self.others.iter().enumerate();
            let headers = headers.map(|(index, text)| (format!("x-{index}"), text.clone()));
            entry["url"] = "http://h".into();
            entry["headers"] = object(&headers.collect::<Vec<_>>());
        } else {
            entry["command"] = "x".into();
            entry["args"] = self.others.clone().into();
        }
        let Value::Object(entry) = entry else {
            unreachable!("it is an object")
        };
        entry
    }

    /// The launch according to a plain reader; `None` if the entry is invalid.
    fn expected(&self) -> Option<Vec<String>> {
        let mut reader = Reader {
            texts: self,
            env: Vec::new(),
            bytes: if self.is_remote { "http://h" } else { "x" }.len(),
        };
        for (name, text) in &self.env {
            let text = reader.expand(text)?;
            if name.is_empty() || name.contains('\0') {
                return None;
            }
            reader.env.push((name.clone(), text));
        }
        let mut others = Vec::new();
        for text in &self.others {
            let text = reader.expand(text)?;
            let is_visible = |c: char| c.is_ascii_graphic() || c == ' ' || c == '\t';
            if self.is_remote && !text.chars().all(is_visible) {
                return None;
            }
            others.push(text);
        }
        if reader.bytes > MAX_EXPANDED {
            return None;
        }
        if self.is_remote {
            return Some(others);
        }
        let mut env = reader.env;
        env.sort();
        let values = env.into_iter().map(|(_, text)| text);
        Some(values.chain(others).collect())
    }
}

struct Reader<'t> {
    texts: &'t Texts,
    /// Variables above the text that is parsed.
    env: Vec<(String, String)>,
    /// The total length of all texts, in bytes.
    bytes: usize,
}

impl Reader<'_> {
    fn expand(&mut self, text: &str) -> Option<String> {
        let (mut expanded, mut rest) = (String::new(), text);
        while let Some(first) = rest.chars().next() {
            if let Some(after) = rest.strip_prefix("$${") {
                expanded.push_str("${");
                self.bytes += 2;
                rest = after;
            } else if let Some(after) = rest.strip_prefix("${") {
                let (reference, after) = after.split_once('}')?;
                let value = self.value(reference)?;
                self.bytes += reference.len() + 3 + value.len();
                // Texts that are too long are not stored.
                (self.bytes <= MAX_EXPANDED).then_some(())?;
                expanded.push_str(&value);
                rest = after;
            } else if let Some((folder, after)) = self.folder(rest) {
                let folder = folder?;
                self.bytes += rest.len() - after.len() + folder.len();
                expanded.push_str(folder);
                rest = after;
            } else {
                expanded.push(first);
                self.bytes += first.len_utf8();
                rest = &rest[first.len_utf8()..];
            }
        }
        if self.texts.is_kept {
            text.clone_into(&mut expanded);
        }
        (!expanded.contains('\0')).then_some(expanded)
    }

    /// The folder that JetBrains' variable at the beginning stands for, and the rest of the text; `None` for
    /// an unknown variable.
    fn folder<'t>(&self, text: &'t str) -> Option<(Option<&'static str>, &'t str)> {
        let name = text
            .strip_prefix('$')
            .and_then(|inside| inside.split_once('$'));
        let (name, after) = name.filter(|_| !self.texts.is_kept)?;
        // There the second `$` begins a reference, or escapes one.
        if after.starts_with('{') || after.starts_with("${") {
            return None;
        }
        match name {
            "USER_HOME" => Some((Some("/home"), after)),
            "PROJECT_DIR" | "ProjectFileDir" | "ContentRoot" | "MODULE_DIR" | "ModuleFileDir" => {
                Some((None, after))
            }
            _ => None,
        }
    }

    fn value(&self, reference: &str) -> Option<String> {
        let (subject, default) = match reference.find(":-") {
            Some(at) => (&reference[..at], Some(&reference[at + 2..])),
            None => (reference, None),
        };
        let (kind, name) = match subject.find(':') {
            Some(at) => (&subject[..at], &subject[at + 1..]),
            None => ("", subject),
        };
        let is_known =
            !subject.contains(':') || ["env", "input", "file", "keyring"].contains(&kind);
        if reference.contains("${") || name.is_empty() || !is_known {
            return None;
        }
        if kind == "keyring" && !is_secret_name(name) {
            return None;
        }
        if self.texts.is_kept {
            return Some(String::new());
        }
        let (world, params) = (World::default(), &self.texts.params);
        let text_in = |list: &[(String, String)]| {
            let found = list.iter().find(|(key, _)| key == name);
            found.map(|(_, text)| text.clone())
        };
        let variable = || text_in(&self.env).or_else(|| world.var(name));
        let value = match kind {
            "env" => variable(),
            "input" => {
                let default_input = (name == "key").then(|| "asked".to_owned());
                let from_world = (name.eq_ignore_ascii_case("id")).then(|| "given".to_owned());
                text_in(params).or(default_input).or(from_world)
            }
            "file" => match world.read_file(&path(name)) {
                Ok(text) => Some(without_its_end(&text).to_owned()),
                Err(UnreadableFile::Absent) => None,
                Err(_) => return None,
            },
            "keyring" => match world.secret(name) {
                Ok(secret) => Some(secret.expose().to_owned()),
                Err(UnreadableSecret::Absent) => None,
                Err(_) => return None,
            },
            _ => {
                let editors = match name {
                    "userHome" => Some("/home"),
                    "pathSeparator" | "/" => Some("/"),
                    _ => None,
                };
                let stated = text_in(params).or_else(variable);
                stated.or_else(|| editors.map(str::to_owned))
            }
        };
        let value = value.filter(|value| !value.is_empty() || default.is_none());
        value.or_else(|| default.map(str::to_owned))
    }
}

fn path(name: &str) -> PathBuf {
    match name.strip_prefix('~') {
        Some("") => "/home".into(),
        Some(rest) if rest.starts_with('/') => {
            Path::new("/home").join(rest.trim_start_matches('/'))
        }
        _ => Path::new("/f").join(name),
    }
}

fn without_its_end(text: &str) -> &str {
    match text.strip_suffix('\n') {
        Some(text) => text.strip_suffix('\r').unwrap_or(text),
        None => text,
    }
}
