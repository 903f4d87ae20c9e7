//! Recognises files of other programs that Mainstay cannot read, and has a hint for each.

pub(crate) mod choice;
pub(crate) mod dialect;
mod entry_words;

use std::path::Path;

use mainstay_core::spelling::nearest;

use crate::read::{fields::Fields, node::Node};

pub use self::entry_words::{KEPT_KEYS, TransportWord, UNUSED_KEYS};

/// A file of another program.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Foreign {
    /// Names the program and the place of its servers: a sentence without a full stop.
    pub message: &'static str,
    /// The steps that turn the file into a configuration.
    pub hint: &'static str,
}

const VS_CODE: Foreign = Foreign {
    message: "this is a settings.json of VS Code, with servers in `mcp.servers`",
    hint: "name VS Code's own mcp.json, or put the object that `mcp` holds into a file by itself",
};
const OPENCODE: Foreign = Foreign {
    message: "this is a configuration of opencode, with servers in `mcp`",
    hint: "write each as an entry of `mcpServers`: the first word of `command` stays `command`, the others become `args`, `environment` becomes `env`",
};
const CRUSH: Foreign = Foreign {
    message: "the servers stand in `mcp`, as Crush has them",
    hint: "rename `mcp` to `mcpServers`",
};
const ZED: Foreign = Foreign {
    message: "this is a settings.json of Zed, with servers in `context_servers`",
    hint: "put what `context_servers` holds into `mcpServers` of a file by itself; a `command` that is an object becomes `command` (its `path`), `args` and `env`",
};
const CONTINUE: Foreign = Foreign {
    message: "this is a config.json of Continue, with servers in `experimental.modelContextProtocolServers`",
    hint: "write what each `transport` holds as an entry of `mcpServers`, without its `type` for stdio",
};
const AMP: Foreign = Foreign {
    message: "this is a settings.json of Amp, with servers in `amp.mcpServers`",
    hint: "put the object that `amp.mcpServers` holds into `mcpServers` of a file by itself",
};
const CLAUDE_CODE: Foreign = Foreign {
    message: "this is Claude Code's own file, with servers in `projects`",
    hint: "put the `mcpServers` of a project into a file by itself, or name the project's .mcp.json",
};
const REGISTRY: Foreign = Foreign {
    message: "this is a server.json of the MCP registry, which describes a server that can be installed",
    hint: r#"write how it is started: {"mcpServers": {NAME: {"command": …, "args": […]}}}"#,
};
const EXTENSION: Foreign = Foreign {
    message: "this is the manifest.json of a desktop extension",
    hint: "put its `server.mcp_config` into {\"mcpServers\": {NAME: …}}, with whole paths for ${__dirname}",
};
const BARE_ENTRY: Foreign = Foreign {
    message: "this is the entry of one server, without its name",
    hint: r#"put it into {"mcpServers": {NAME: …}}"#,
};
const BARE_ENTRIES: Foreign = Foreign {
    message: "the servers stand at the top of the file",
    hint: r#"put them into {"mcpServers": {…}}"#,
};
const CODEX: Foreign = Foreign {
    message: "this is TOML, with servers in `mcp_servers`, as Codex has it",
    hint: "write each table [mcp_servers.NAME] as an entry of `mcpServers`, in JSON: `http_headers` becomes `headers`, `tool_timeout_sec` becomes `timeout_s`, `enabled_tools` and `disabled_tools` stay",
};
const TOML: Foreign = Foreign {
    message: "this is TOML, and a configuration is JSON",
    hint: r#"write the servers as {"mcpServers": {NAME: {…}}}"#,
};
const GOOSE: Foreign = Foreign {
    message: "this is YAML, with servers in `extensions`, as goose has it",
    hint: "write each extension as an entry of `mcpServers`, in JSON: `cmd` becomes `command`, `envs` becomes `env`, `uri` becomes `url`, `timeout` becomes `timeout_s`",
};
const YAML_SERVERS: Foreign = Foreign {
    message: "this is YAML, with servers in `mcpServers`, as Continue and LibreChat have it",
    hint: r#"write the same in JSON: {"mcpServers": {NAME: {…}}}"#,
};
const YAML: Foreign = Foreign {
    message: "this is YAML, and a configuration is JSON",
    hint: r#"write the servers as {"mcpServers": {NAME: {…}}}"#,
};

/// Recognises a JSON file that has neither `mcpServers` nor `servers`.
pub(crate) fn in_json(fields: &Fields<'_>) -> Option<&'static Foreign> {
    let object = |key: &str| fields.peek(key).filter(|node| node.is_object());
    let schema = fields.peek("$schema").and_then(Node::as_str);
    let has_schema = |name: &str| schema.is_some_and(|schema| schema.contains(name));
    if object("mcp.servers").is_some() {
        return Some(&VS_CODE);
    }
    if let Some(mcp) = object("mcp") {
        return Some(match mcp {
            _ if has_schema("opencode") => &OPENCODE,
            _ if has_schema("crush") => &CRUSH,
            _ if mcp.member("servers").is_some() => &VS_CODE,
            _ if mcp.values().any(|entry| is_of_opencode(&entry)) => &OPENCODE,
            _ => &CRUSH,
        });
    }
    let experimental = object("experimental");
    if experimental.is_some_and(|section| section.member("modelContextProtocolServers").is_some()) {
        return Some(&CONTINUE);
    }
    if object("context_servers").is_some() {
        return Some(&ZED);
    }
    if object("amp.mcpServers").is_some() {
        return Some(&AMP);
    }
    if object("projects").is_some() {
        return Some(&CLAUDE_CODE);
    }
    let has = |key: &str| fields.peek(key).is_some();
    if object("server").is_some_and(|server| server.member("mcp_config").is_some()) {
        return Some(&EXTENSION);
    }
    let is_array = |key: &str| fields.peek(key).is_some_and(Node::is_array);
    if has("name") && (is_array("packages") || is_array("remotes")) {
        return Some(&REGISTRY);
    }
    if has("command") || has("url") {
        return Some(&BARE_ENTRY);
    }
    let is_entry = |key: &str| {
        let node = object(key);
        node.is_some_and(|node| node.member("command").is_some() || node.member("url").is_some())
    };
    let is_misspelt = |key: &str| nearest(key, &["mcpServers", "servers"]).is_some();
    let mut left = fields.left();
    left.any(|key| is_entry(key) && !is_misspelt(key))
        .then_some(&BARE_ENTRIES)
}

/// True for an entry of opencode: `command` is an array, the type is one of opencode's, or there is
/// `enabled`. Crush has `disabled` instead.
fn is_of_opencode(entry: &Node<'_>) -> bool {
    let is_array = entry
        .member("command")
        .is_some_and(|command| command.is_array());
    let word = entry.member("type").and_then(|node| node.as_str());
    let is_switched = entry.member("enabled").is_some();
    is_array || is_switched || matches!(word, Some("local" | "remote"))
}

/// Recognises a text that is not JSON by its extension or its first line. JSON begins with a bracket. Of
/// the other formats only TOML can begin with one, in the header of a table.
pub(crate) fn in_text(text: &str, path: &Path) -> Option<&'static Foreign> {
    let lines = text.lines().map(without_comment);
    let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let first = lines
        .clone()
        .find(|line| *line != "---")
        .unwrap_or_default();
    let extension = path.extension().and_then(|extension| extension.to_str());
    let (is_toml, is_yaml) = match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("toml") => (true, false),
        Some("yaml" | "yml") => (false, true),
        _ => (
            is_toml_table(first) || is_toml_pair(first),
            is_yaml_key(first) || is_yaml_element(first),
        ),
    };
    if is_toml {
        let is_codex = lines.any(|line| line.starts_with("[mcp_servers"));
        return Some(if is_codex { &CODEX } else { &TOML });
    }
    if !is_yaml {
        return None;
    }
    let mut keys = lines.filter_map(|line| Some(unquoted(line.strip_suffix(':')?)));
    Some(
        keys.find_map(|key| match key {
            "extensions" => Some(&GOOSE),
            "mcpServers" => Some(&YAML_SERVERS),
            _ => None,
        })
        .unwrap_or(&YAML),
    )
}

/// True for `[mcp_servers.fs]` and `[[profiles]]`.
fn is_toml_table(line: &str) -> bool {
    let inside = line
        .strip_prefix('[')
        .and_then(|line| line.strip_suffix(']'));
    let inside = inside.map(|name| name.trim_start_matches('[').trim_end_matches(']'));
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '"');
    inside.is_some_and(|name| {
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(is_legal)
    })
}

/// True for `model = "o3"`.
fn is_toml_pair(line: &str) -> bool {
    let name = line.split_once('=').map(|(name, _)| name.trim_end());
    name.is_some_and(|name| is_word(unquoted(name)))
}

/// True for `- name: fs`.
fn is_yaml_element(line: &str) -> bool {
    line.strip_prefix("- ").is_some_and(is_yaml_key)
}

/// Returns the line without its comment, which begins with a blank and `#`.
fn without_comment(line: &str) -> &str {
    let end = line.find(" #").unwrap_or(line.len());
    line[..end].trim_end()
}

/// Returns a key without its quotes.
fn unquoted(name: &str) -> &str {
    ['"', '\'']
        .into_iter()
        .find_map(|quote| name.strip_prefix(quote)?.strip_suffix(quote))
        .unwrap_or(name)
}

/// True for `extensions:` and `name: Local`.
fn is_yaml_key(line: &str) -> bool {
    let key = line.split_once(':');
    key.is_some_and(|(name, rest)| {
        is_word(unquoted(name)) && (rest.is_empty() || rest.starts_with(' '))
    })
}

fn is_word(name: &str) -> bool {
    let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
    !name.is_empty() && name.chars().all(is_legal)
}
