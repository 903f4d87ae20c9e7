//! Finds the setting with the credentials that a server refuses, where its value comes from, and the
//! command that replaces it.

use std::path::Path;

use mainstay_config::{
    Syntax,
    edit::{Document, Entry},
};
use mainstay_core::ids::ServerName;
use serde_json::Value;

use super::finding::{edit, quoted};

/// The entries of the configuration's file.
#[derive(Debug)]
pub struct Credentials<'a> {
    path: Option<&'a Path>,
    entries: Vec<(ServerName, Entry)>,
}

/// The place from which a setting's value comes.
#[derive(Debug, PartialEq, Eq)]
enum ValueOrigin {
    /// The file holds the value.
    Literal,
    /// A variable of Mainstay's environment.
    Variable(String),
    /// Another setting of the entry (`env.TOKEN`).
    Setting(String),
    File(String),
}

impl<'a> Credentials<'a> {
    /// Reads the entries of `text`, the content of the file at `path`.
    pub fn read(path: Option<&'a Path>, text: Option<&str>) -> Self {
        let document =
            text.map(|text| Document::read(text, Syntax::of_path(path.unwrap_or(Path::new("")))));
        let entries = document.and_then(Result::ok);
        Self {
            path,
            entries: entries
                .map(|document| document.entries())
                .unwrap_or_default(),
        }
    }

    /// The command that replaces the credentials of this server.
    pub fn mend(&self, server: &str) -> String {
        let entry = self
            .entries
            .iter()
            .find(|(name, _)| name.as_str() == server);
        let Some((_, entry)) = entry else {
            // The daemon has the server from its command line or from a client file.
            return format!(
                "mainstay add --replace --header 'Authorization: Bearer …' {server} URL  # its entry does not stand in a file that is known here; an --mcp-client of that name wins at the next start"
            );
        };
        let Some((setting, value)) = setting(entry) else {
            let comment =
                format!("{server} has no credentials: give its entry `bearerToken` or `headers`");
            return edit(self.path, &comment);
        };
        match origin(entry, value) {
            ValueOrigin::Literal => {
                let comment = format!(
                    "put valid credentials into `{setting}` of {server}; a daemon reads them at once"
                );
                edit(self.path, &comment)
            }
            ValueOrigin::Setting(other) => {
                let comment = format!(
                    "put valid credentials into `{other}` of {server}, to which `{setting}` refers; a daemon reads them at once"
                );
                edit(self.path, &comment)
            }
            ValueOrigin::Variable(name) => format!(
                "export {name}=… && mainstay serve  # `{setting}` of {server} is this variable; a daemon has it from its own start"
            ),
            ValueOrigin::File(file) => format!(
                "${{EDITOR:-vi}} {} && mainstay restart {server}  # `{setting}` of {server} is read from this file",
                quoted(Path::new(&file))
            ),
        }
    }
}

/// The setting that most likely holds the credentials, and its text in the file.
fn setting(entry: &Entry) -> Option<(String, &str)> {
    let text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    if let Some(token) = entry.get("bearerToken").filter(|token| text(token)) {
        return Some(("bearerToken".to_owned(), token.as_str()?));
    }
    let fetch_headers = entry
        .get("requestInit")
        .and_then(|init| init.get("headers"));
    let places = [
        ("headers", entry.get("headers")),
        ("requestInit.headers", fetch_headers),
    ];
    let mut headers: Vec<_> = places
        .iter()
        .flat_map(|(place, headers)| {
            let headers = headers.and_then(Value::as_object);
            headers
                .into_iter()
                .flatten()
                .map(move |(name, value)| (*place, name, value))
        })
        .filter(|(_, _, value)| text(value))
        .collect();
    // Credentials can be in headers of many names. Prefer the standard one.
    headers.sort_by_key(|(_, name, _)| !name.eq_ignore_ascii_case("authorization"));
    let (place, name, value) = headers.into_iter().next()?;
    Some((format!("{place}.{name}"), value.as_str()?))
}

/// The place from which a value comes: its first reference, or the file itself.
fn origin(entry: &Entry, value: &str) -> ValueOrigin {
    let Some(reference) = reference(value) else {
        return ValueOrigin::Literal;
    };
    let name = match reference.split_once(':') {
        Some(("file", file)) => {
            let file = file.split_once(":-").map_or(file, |(file, _)| file);
            return ValueOrigin::File(file.to_owned());
        }
        Some(("env" | "input", rest)) => rest,
        _ => reference,
    };
    let name = name.split_once(":-").map_or(name, |(name, _)| name);
    for place in ["inputParams", "env"] {
        if let Some(text) = entry
            .get(place)
            .and_then(|settings| settings.get(name)?.as_str())
        {
            return match origin(&Entry::new(), text) {
                ValueOrigin::Literal => ValueOrigin::Setting(format!("{place}.{name}")),
                elsewhere => elsewhere,
            };
        }
    }
    if reference.starts_with("input:") {
        let name: String = name
            .chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() {
                    c.to_ascii_uppercase()
                } else {
                    '_'
                }
            })
            .collect();
        return ValueOrigin::Variable(format!("INPUT_{name}"));
    }
    ValueOrigin::Variable(name.to_owned())
}

/// The text between the braces of the first reference. `$${` is not a reference.
fn reference(value: &str) -> Option<&str> {
    let mut rest = value;
    loop {
        let at = rest.find("${")?;
        if at > 0 && rest.as_bytes()[at - 1] == b'$' {
            rest = &rest[at + 2..];
            continue;
        }
        return rest[at + 2..].split_once('}').map(|(inner, _)| inner);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn mend(entry: &Value) -> String {
        let text = json!({"mcpServers": {"s": entry}}).to_string();
        let path = Path::new("/c.json");
        Credentials::read(Some(path), Some(&text)).mend("s")
    }

    #[test]
    fn the_setting_and_what_it_comes_from_are_named() {
        for (entry, expected) in [
            (
                json!({"url": "u"}),
                "mainstay config edit --config /c.json  # s has no credentials: give its entry `bearerToken` or `headers`",
            ),
            (
                json!({"bearerToken": "t"}),
                "mainstay config edit --config /c.json  # put valid credentials into `bearerToken` of s; a daemon reads them at once",
            ),
            (
                json!({"bearerToken": "${GH:-none}"}),
                "export GH=… && mainstay serve  # `bearerToken` of s is this variable; a daemon has it from its own start",
            ),
            (
                json!({"bearerToken": "$${GH}"}),
                "mainstay config edit --config /c.json  # put valid credentials into `bearerToken` of s; a daemon reads them at once",
            ),
            (
                json!({"headers": {"x-team": "a", "Authorization": "Bearer ${file:~/my token}"}}),
                "${EDITOR:-vi} \"~/my token\" && mainstay restart s  # `headers.Authorization` of s is read from this file",
            ),
            (
                json!({"headers": {"x-api-key": "${env:KEY}"}, "env": {"KEY": "k"}}),
                "mainstay config edit --config /c.json  # put valid credentials into `env.KEY` of s, to which `headers.x-api-key` refers; a daemon reads them at once",
            ),
            (
                json!({"headers": {"x-api-key": "${KEY}"}, "env": {"KEY": "${file:/run/key}"}}),
                "${EDITOR:-vi} /run/key && mainstay restart s  # `headers.x-api-key` of s is read from this file",
            ),
            (
                json!({"requestInit": {"headers": {"authorization": "${input:api-key}"}}}),
                "export INPUT_API_KEY=… && mainstay serve  # `requestInit.headers.authorization` of s is this variable; a daemon has it from its own start",
            ),
        ] {
            assert_eq!(mend(&entry), expected, "{entry}");
        }
        let unknown = Credentials::read(None, None).mend("s");
        assert!(
            unknown.starts_with("mainstay add --replace --header"),
            "{unknown}"
        );
    }
}
