//! Reads servers from text that a person pasted: a client's file or a part of it, a command line, or a
//! URL. Accepts the keys of all clients, and adds notes about differences. Pure, and never panics.

mod command;
mod name;
mod shapes;
mod words;

use mainstay_config::{adopt, edit::Entry};
use mainstay_core::ids::ServerName;
use serde_json::{Map, Value};

use crate::{
    document::{self, MARK},
    format::FileFormat,
    yaml,
};

/// The maximum length of a text, in bytes.
pub const MAX_PASTED: usize = 1024 * 1024;

/// The maximum length of a line of YAML, in bytes. The time to read a line grows with its length times
/// its number of values.
const MAX_YAML_LINE: usize = 16 * 1024;

/// The maximum number of servers in one text.
const MAX_SERVERS: usize = 1000;

/// The servers in a pasted text.
#[derive(Clone, Debug, PartialEq)]
pub struct Pasted {
    pub servers: Vec<PastedServer>,
    /// A description of the recognised kind of text.
    pub format: String,
    /// The reasons why parts of the text were left out.
    pub notes: Vec<String>,
}

/// A server of the text. Its name is unique among them.
#[derive(Clone, Debug, PartialEq)]
pub struct PastedServer {
    pub name: ServerName,
    pub entry: Entry,
    pub notes: Vec<String>,
}

/// The reason why a text contains no server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotPasted {
    #[error("there is no text: {EXPECTED}")]
    Empty,
    #[error("the text has more than 1 MiB")]
    TooLong,
    #[error("{0}: {EXPECTED}")]
    Unreadable(String),
    /// The text was read, but all of its servers are left out.
    #[error("no server is left: {0}")]
    NoServer(String),
}

const EXPECTED: &str = "expected servers as the documentation of a client shows them (JSON, TOML or YAML), \
    a command line such as \"npx -y @scope/server\", or a URL";

/// A server that has no unique name yet.
#[derive(Clone, Debug, Default)]
struct UnnamedServer {
    /// The name in the text, if there is one.
    label: Option<String>,
    entry: Entry,
    notes: Vec<String>,
}

/// The servers of a text before they get unique names.
#[derive(Clone, Debug, Default)]
struct Reading {
    found: Vec<UnnamedServer>,
    format: String,
    notes: Vec<String>,
}

/// Reads the servers of a text.
pub fn pasted(text: &str) -> Result<Pasted, NotPasted> {
    if text.len() > MAX_PASTED {
        return Err(NotPasted::TooLong);
    }
    let text = unfenced(text.strip_prefix(MARK).unwrap_or(text).trim());
    if text.is_empty() {
        return Err(NotPasted::Empty);
    }
    let reading = read(text)?;
    named(reading)
}

fn read(text: &str) -> Result<Reading, NotPasted> {
    let is_one_word = !text.contains(char::is_whitespace);
    if is_one_word && is_url(text) {
        let mut entry = Entry::new();
        entry.insert("url".to_owned(), text.into());
        return Ok(Reading {
            found: vec![UnnamedServer {
                entry,
                ..UnnamedServer::default()
            }],
            format: "a URL".to_owned(),
            notes: Vec::new(),
        });
    }
    match text.as_bytes()[0] {
        b'[' if is_toml(text) => of_toml(text),
        b'{' | b'[' => of_json(text, text),
        // The text is a member without its braces, as documentation often shows it.
        b'"' if text.contains(':') => of_json(&format!("{{{text}\n}}"), text),
        b'/' if text.starts_with("//") || text.starts_with("/*") => of_json(text, text),
        _ if is_toml(text) => of_toml(text),
        _ if is_yaml(text) => of_yaml(text),
        _ => command::read(text),
    }
}

/// Removes the fence of a Markdown code block, and the text around the block.
fn unfenced(text: &str) -> &str {
    let Some((before, rest)) = text.split_once("```") else {
        return text.trim_matches('`').trim();
    };
    // Ignore backticks within a line: some languages contain them.
    if !before.is_empty() && !before.ends_with('\n') {
        return text;
    }
    let Some((_, inside)) = rest.split_once('\n') else {
        return text.trim_matches('`').trim();
    };
    inside.split("```").next().unwrap_or_default().trim()
}

fn is_url(text: &str) -> bool {
    let lower = text.get(..8).unwrap_or(text).to_ascii_lowercase();
    let rest = ["http://", "https://"]
        .iter()
        .find_map(|scheme| lower.starts_with(scheme).then(|| &text[scheme.len()..]));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', ':', '?', '#']))
}

/// True if the text has a table of Codex, the only client with TOML.
fn is_toml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim_start);
    lines.any(|line| line.starts_with("[mcp_servers") || line.starts_with("mcp_servers."))
}

/// True if the first line with content is a YAML key, or a list element that begins with a key.
fn is_yaml(text: &str) -> bool {
    let mut lines = text.lines().map(str::trim);
    let first = lines.find(|line| !line.is_empty() && !line.starts_with('#') && *line != "---");
    let first = first.unwrap_or_default();
    let first = first.strip_prefix("- ").unwrap_or(first).trim_start();
    let Some((key, value)) = first.split_once(':') else {
        return false;
    };
    let key = key.trim_matches(['"', '\'']);
    let is_key = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '@' | '/');
    !key.is_empty() && key.chars().all(is_key) && (value.is_empty() || value.starts_with(' '))
}

fn of_json(text: &str, original: &str) -> Result<Reading, NotPasted> {
    let whole = match document::json(text) {
        Ok(whole) => whole,
        // The text may lack its closing brace.
        Err(error) if original.starts_with('{') && !original.ends_with('}') => {
            document::json(&format!("{text}\n}}"))
                .map_err(|_| NotPasted::Unreadable(error.to_string()))?
        }
        Err(error) => return Err(NotPasted::Unreadable(error.to_string())),
    };
    of_value(whole, FileFormat::Json)
}

fn of_toml(text: &str) -> Result<Reading, NotPasted> {
    let whole = document::value(FileFormat::Toml, text);
    of_value(
        whole.map_err(|error| NotPasted::Unreadable(error.to_string()))?,
        FileFormat::Toml,
    )
}

fn of_yaml(text: &str) -> Result<Reading, NotPasted> {
    if text.lines().any(|line| line.len() > MAX_YAML_LINE) {
        let reason = format!("a line has more than {MAX_YAML_LINE} bytes");
        return Err(NotPasted::Unreadable(reason));
    }
    let whole = yaml::value(text).map_err(|error| NotPasted::Unreadable(error.to_string()))?;
    of_value(whole, FileFormat::Yaml)
}

fn of_value(whole: Value, format: FileFormat) -> Result<Reading, NotPasted> {
    let language = match format {
        FileFormat::Json => "JSON",
        FileFormat::Toml => "TOML",
        FileFormat::Yaml => "YAML",
    };
    let shape = shapes::find(whole, format).ok_or_else(|| {
        NotPasted::Unreadable(format!(
            "this {language} has no servers that are known here"
        ))
    })?;
    let format = format!("{language}: {}", shape.words);
    let mut reading = Reading {
        format,
        ..Reading::default()
    };
    let read = shape.servers();
    let read = read.map_err(|error| NotPasted::Unreadable(error.to_string()))?;
    for server in read.into_iter().take(MAX_SERVERS) {
        if let Some(reason) = &server.left_out {
            let label = shortened(&server.label);
            reading.notes.push(format!("{label} is left out: {reason}"));
            continue;
        }
        reading.found.push(shape.found(server));
    }
    Ok(reading)
}

/// Gives each server a unique name, and adds notes about values that a person has to fill in.
fn named(reading: Reading) -> Result<Pasted, NotPasted> {
    let Reading {
        found,
        format,
        notes,
    } = reading;
    if found.is_empty() {
        let reasons = if notes.is_empty() {
            "the text names none".to_owned()
        } else {
            notes.join("; ")
        };
        return Err(NotPasted::NoServer(reasons));
    }
    let mut used_names = std::collections::BTreeSet::new();
    let mut servers = Vec::with_capacity(found.len());
    for mut server in found {
        let guessed = || name::of_entry(&server.entry);
        let label = server.label.take().filter(|label| !label.trim().is_empty());
        let base = label.unwrap_or_else(guessed);
        let numbered = (2..).map(|number| format!("{base}-{number}"));
        let mut names = std::iter::once(base.clone())
            .chain(numbered)
            .map(|name| adopt(&name).map_or_else(|_| fallback(), |(name, _)| name));
        // The sequence never ends, because there is always another number.
        let name = names
            .find(|name| !used_names.contains(name))
            .unwrap_or_else(fallback);
        if name.as_str() != base && !server.notes.iter().any(|note| note.contains(" is called ")) {
            let note = format!("{:?} is called {name} here", shortened(&base));
            server.notes.push(note);
        }
        used_names.insert(name.clone());
        server.notes.extend(blanks(&server.entry));
        servers.push(PastedServer {
            name,
            entry: server.entry,
            notes: server.notes,
        });
    }
    Ok(Pasted {
        servers,
        format,
        notes,
    })
}

fn fallback() -> ServerName {
    let (name, _) = adopt("server").unwrap_or_else(|_| unreachable!("a legal name"));
    name
}

/// Finds placeholders that the reader has to replace, such as `YOUR_API_KEY` and `<token>`.
fn blanks(entry: &Entry) -> Vec<String> {
    let mut notes = Vec::new();
    for key in ["env", "headers"] {
        let members = entry.get(key).and_then(Value::as_object);
        for (name, value) in members.into_iter().flatten() {
            if value.as_str().is_some_and(is_blank) {
                let name = shortened(name);
                notes.push(format!("{key}.{name} is to be filled in"));
            }
        }
    }
    let args = entry.get("args").and_then(Value::as_array);
    let mut texts = args.into_iter().flatten().filter_map(Value::as_str);
    if texts.any(is_blank) {
        notes.push("the arguments have a place to be filled in".to_owned());
    }
    notes
}

fn is_blank(value: &str) -> bool {
    let value = value.strip_prefix("Bearer ").unwrap_or(value);
    let value = match value.split_once('=') {
        Some((option, value)) if !option.contains(' ') => value,
        _ => value,
    };
    let lower = value.to_ascii_lowercase();
    let in_brackets = value.starts_with('<') && value.ends_with('>') && value.len() > 2;
    let is_yours = lower.starts_with("your") && lower[4..].starts_with(['_', '-', ' ']);
    let is_left_open = lower.len() > 2 && lower.chars().all(|c| matches!(c, 'x' | '*' | '.'));
    in_brackets || is_yours || is_left_open
}

/// Shortens a part of the text for use in a note.
fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 60;
    let mut short: String = text.chars().take(MAX_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Makes a JSON object with these members.
fn map<const N: usize>(members: [(&str, Value); N]) -> Map<String, Value> {
    members
        .into_iter()
        .map(|(key, value)| (key.to_owned(), value))
        .collect()
}

#[cfg(test)]
mod tests;
