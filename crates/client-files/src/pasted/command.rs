//! Reads command lines: those that start a server, and those of clients that add a server.

use mainstay_config::edit::Entry;
use mainstay_core::programs;
use serde_json::{Map, Value, json};

use super::{
    NotPasted, Reading, UnnamedServer, is_url, of_json, shapes, shortened,
    words::{self, ShellWord},
};
use crate::format::FileFormat;

/// The maximum number of lines that are read.
const MAX_LINES: usize = 200;

/// Programs that start servers, and wrappers of such programs.
const RUNNERS: [&str; 40] = [
    "npx",
    "npm",
    "pnpm",
    "pnpx",
    "yarn",
    "bun",
    "bunx",
    "node",
    "deno",
    "tsx",
    "ts-node",
    "uv",
    "uvx",
    "pipx",
    "python",
    "python3",
    "py",
    "poetry",
    "docker",
    "podman",
    "java",
    "dotnet",
    "dnx",
    "go",
    "cargo",
    "ruby",
    "php",
    "perl",
    "sh",
    "bash",
    "zsh",
    "cmd",
    "powershell",
    "pwsh",
    "nix",
    "flatpak",
    "ssh",
    "wsl",
    "mainstay",
    "rustx",
];

/// Words that join commands in a shell.
const OPERATORS: [&str; 11] = [
    "|", "||", "&&", "&", ";", ">", ">>", "<", "2>", "2>&1", "&>",
];

/// The folder and the variables that earlier commands have set.
#[derive(Default)]
struct CommandContext {
    cwd: Option<String>,
    env: Map<String, Value>,
}

pub(super) fn read(text: &str) -> Result<Reading, NotPasted> {
    let mut reading = Reading::default();
    let mut before = CommandContext::default();
    for line in words::lines(text).into_iter().take(MAX_LINES) {
        let line = line.trim();
        let line = line
            .strip_prefix("$ ")
            .or_else(|| line.strip_prefix("> "))
            .unwrap_or(line);
        let words = words::split(line).map_err(|error| unreadable(&error.to_string()))?;
        // Split `cd DIR && command` into two commands.
        let parts = words.split(|word| !word.is_quoted && matches!(word.text.as_str(), "&&" | ";"));
        for words in parts.filter(|words| !words.is_empty()) {
            one(words, &mut before, &mut reading)?;
        }
    }
    if reading.found.is_empty() && reading.notes.is_empty() {
        return Err(unreadable("this is no command line"));
    }
    Ok(reading)
}

fn unreadable(reason: &str) -> NotPasted {
    NotPasted::Unreadable(reason.to_owned())
}

fn one(
    words: &[ShellWord],
    before: &mut CommandContext,
    reading: &mut Reading,
) -> Result<(), NotPasted> {
    if let Some(operator) = words
        .iter()
        .find(|word| !word.is_quoted && OPERATORS.contains(&word.text.as_str()))
    {
        let reason = format!(
            "{:?} is for a shell, and Mainstay starts a program",
            operator.text
        );
        return Err(unreadable(&reason));
    }
    let mut env = before.env.clone();
    let mut notes = Vec::new();
    let mut rest = words;
    loop {
        let Some((first, after)) = rest.split_first() else {
            // A line with only variables sets them for the following lines.
            before.env = env;
            return Ok(());
        };
        match first.text.as_str() {
            "export" | "set" | "env" => {}
            "sudo" => notes.push("it is not started by sudo".to_owned()),
            text => match assignment(text) {
                Some((name, value)) => {
                    env.insert(name.to_owned(), value.into());
                }
                None => break,
            },
        }
        rest = after;
    }
    let texts: Vec<&str> = rest.iter().map(|word| word.text.as_str()).collect();
    let program = programs::program_name(texts[0]).to_ascii_lowercase();
    match (program.as_str(), &texts[1..]) {
        ("cd" | "pushd", [folder]) => {
            before.cwd = Some((*folder).to_owned());
            return Ok(());
        }
        (_, ["mcp", "add-json", rest @ ..]) => return add_json(rest, &program, reading),
        (_, ["mcp", "add", rest @ ..]) => {
            reading.format = format!("a command line of {program}");
            let mut found = add(rest)?;
            found.notes.extend(notes);
            add_env(&mut found.entry, env);
            reading.found.push(found);
            return Ok(());
        }
        ("mainstay", ["add", rest @ ..]) => {
            "a command line of mainstay".clone_into(&mut reading.format);
            let mut found = add(rest)?;
            add_env(&mut found.entry, env);
            reading.found.push(found);
            return Ok(());
        }
        (_, args) if args.contains(&"--add-mcp") => {
            let at = args
                .iter()
                .position(|arg| *arg == "--add-mcp")
                .unwrap_or_default();
            let json = args
                .get(at + 1)
                .ok_or_else(|| unreadable("--add-mcp has no value"))?;
            return embedded(json, None, &program, reading);
        }
        _ => {}
    }
    if is_preparation(&texts) {
        let words: Vec<&str> = texts.iter().take(4).copied().collect();
        let words = shortened(&words.join(" "));
        reading
            .notes
            .push(format!("not done here: {words}; do it first"));
        return Ok(());
    }
    if !is_command(&program, &texts) {
        return Err(unreadable("this is no command line"));
    }
    let mut entry = command(&texts);
    if let Some(cwd) = &before.cwd {
        entry.insert("cwd".to_owned(), cwd.as_str().into());
    }
    add_env(&mut entry, env);
    notes.extend(remarks(&program, &texts, before.cwd.is_some()));
    "a command line".clone_into(&mut reading.format);
    reading.found.push(UnnamedServer {
        label: None,
        entry,
        notes,
    });
    Ok(())
}

/// Splits `NAME=value`. `None` if the name cannot be that of a variable.
fn assignment(text: &str) -> Option<(&str, &str)> {
    let (name, value) = text.split_once('=')?;
    let starts_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    (starts_name && is_name).then_some((name, value))
}

fn command(words: &[&str]) -> Entry {
    let mut entry = Entry::new();
    entry.insert("command".to_owned(), words[0].into());
    if words.len() > 1 {
        entry.insert("args".to_owned(), json!(words[1..]));
    }
    entry
}

fn add_env(entry: &mut Entry, env: Map<String, Value>) {
    if env.is_empty() || !entry.contains_key("command") {
        return;
    }
    let members = entry.entry("env").or_insert_with(|| json!({}));
    if let Value::Object(members) = members {
        for (name, value) in env {
            members.entry(name).or_insert(value);
        }
    }
}

/// True for commands that install something and start no server.
fn is_preparation(words: &[&str]) -> bool {
    matches!(
        words,
        [
            "npm" | "pnpm" | "yarn" | "bun",
            "install" | "i" | "ci" | "add" | "build",
            ..
        ] | ["npm" | "pnpm" | "yarn" | "bun", "run", "build", ..]
            | [
                "pip" | "pip3" | "pipx" | "brew" | "cargo" | "go",
                "install",
                ..
            ]
            | ["uv", "sync" | "pip" | "venv", ..]
            | ["git", "clone", ..]
            | ["docker" | "podman", "pull" | "build", ..]
            | ["mkdir" | "chmod" | "source", ..]
    )
}

/// True if the first word looks like a program and not like prose.
fn is_command(program: &str, words: &[&str]) -> bool {
    let first = words[0];
    let is_plain = |c: char| c.is_alphanumeric() || "._-+@/\\:~${}()% ".contains(c);
    if first.len() > 1024 || !first.chars().all(is_plain) || first.ends_with([':', '.']) {
        return false;
    }
    let is_path = first.contains(['/', '\\']) && !first.contains("://");
    let has_option = words[1..]
        .iter()
        .any(|word| word.starts_with('-') && word.len() > 1);
    RUNNERS.contains(&program)
        || is_path
        || has_option
        || program.contains("mcp")
        || words.len() == 1 && program.contains(['-', '_'])
}

/// Notes about a command that a person needs to know.
fn remarks(program: &str, words: &[&str], has_cwd: bool) -> Vec<String> {
    let mut notes = Vec::new();
    let args = &words[1..];
    if matches!(program, "docker" | "podman") && args.first() == Some(&"run") {
        let is_interactive = |arg: &&str| {
            let short = arg.starts_with('-') && !arg.starts_with("--") && arg.contains('i');
            short || **arg == *"--interactive"
        };
        if !args.iter().any(is_interactive) {
            notes.push(format!(
                "{program} run needs -i, or the server has no stdin"
            ));
        }
        let is_passed_on = |pair: &[&str]| {
            matches!(pair[0], "-e" | "--env")
                && assignment(&format!("{}=", pair[1])).is_some_and(|(name, _)| name == pair[1])
        };
        let passed: Vec<&str> = args
            .windows(2)
            .filter(|pair| is_passed_on(pair))
            .map(|pair| pair[1])
            .collect();
        if !passed.is_empty() {
            let passed = shortened(&passed.join(", "));
            notes.push(format!("{passed} is passed on: give it in `env`"));
        }
    }
    if !has_cwd
        && words
            .iter()
            .any(|word| word.starts_with("./") || word.starts_with("../") || *word == ".")
    {
        notes.push("it has a relative path: write the whole path, or give it a `cwd`".to_owned());
    }
    if words
        .iter()
        .any(|word| word.contains("$(") || word.contains('`'))
    {
        notes.push("what a shell would put in place of $(…) is not put there".to_owned());
    }
    if args.iter().any(|arg| arg.starts_with("mcp-remote")) && args.iter().any(|arg| is_url(arg)) {
        notes.push(
            "Mainstay reaches a URL itself: an entry with `url` does without mcp-remote".to_owned(),
        );
    }
    notes
}

/// Reads `NAME '{json}'`, and ignores options of the client.
fn add_json(words: &[&str], program: &str, reading: &mut Reading) -> Result<(), NotPasted> {
    let json = words.iter().find(|word| word.trim_start().starts_with('{'));
    let json = json.ok_or_else(|| unreadable("`mcp add-json` has no JSON"))?;
    let mut names = words.iter().enumerate().filter(|(at, word)| {
        let is_value = *at > 0 && matches!(words[at - 1], "-s" | "--scope");
        !word.starts_with('-') && !word.trim_start().starts_with('{') && !is_value
    });
    let name = names.next().map(|(_, name)| *name);
    embedded(json, name, program, reading)
}

/// Reads JSON in a command line.
fn embedded(
    json: &str,
    name: Option<&str>,
    program: &str,
    reading: &mut Reading,
) -> Result<(), NotPasted> {
    // Undo the escape of references in single quotes, because JSON has its own escapes.
    let json = json.replace("$${", "${");
    let inner = of_json(&json, &json)?;
    let is_one = inner.found.len() == 1;
    for mut found in inner.found {
        if let (Some(name), true) = (name, is_one) {
            found.label = Some(name.to_owned());
        }
        reading.found.push(found);
    }
    reading.notes.extend(inner.notes);
    reading.format = format!("a command line of {program}");
    Ok(())
}

/// Reads the words after `claude mcp add`, similar commands of other clients, and `mainstay add`.
fn add(words: &[&str]) -> Result<UnnamedServer, NotPasted> {
    let mut found = UnnamedServer::default();
    let mut members = Map::new();
    let (mut env, mut headers) = (Map::new(), Map::new());
    let mut target: Vec<&str> = Vec::new();
    let mut at = 0;
    while let Some(word) = words.get(at).copied() {
        at += 1;
        // Words after the program are its arguments.
        let is_program = target.first().is_some_and(|first| !is_url(first));
        if is_program {
            target.push(word);
            continue;
        }
        if word == "--" {
            target.extend(&words[at..]);
            break;
        }
        if !word.starts_with('-') || word == "-" {
            if found.label.is_none() && target.is_empty() && !is_url(word) {
                found.label = Some(word.to_owned());
            } else if target.is_empty() {
                target.push(word);
            } else {
                found.notes.push(format!("left out: {}", shortened(word)));
            }
            continue;
        }
        let (option, stated) = match word.split_once('=') {
            Some((option, value)) if option.starts_with("--") => (option, Some(value)),
            _ => (word, None),
        };
        let mut value = || {
            stated.or_else(|| {
                let next = words.get(at).copied();
                at += usize::from(next.is_some());
                next
            })
        };
        match option {
            "-t" | "--transport" | "--type" => {
                if let Some(transport) = value() {
                    members.insert("type".to_owned(), transport.into());
                }
            }
            "-e" | "--env" => {
                let first = value().unwrap_or_default();
                let mut pairs = vec![first];
                // Some clients accept several values after one option.
                while let Some(next) = words
                    .get(at)
                    .copied()
                    .filter(|next| stated.is_none() && assignment(next).is_some())
                {
                    pairs.push(next);
                    at += 1;
                }
                for pair in pairs {
                    match assignment(pair) {
                        Some((name, value)) => {
                            env.insert(name.to_owned(), value.into());
                        }
                        None => found
                            .notes
                            .push(format!("left out: {option} {}", shortened(pair))),
                    }
                }
            }
            "-H" | "--header" => match value().and_then(|text| text.split_once(':')) {
                Some((name, value)) => {
                    headers.insert(name.trim().to_owned(), value.trim().into());
                }
                None => found
                    .notes
                    .push(format!("left out: {option}, which is no header")),
            },
            "--url" => target.extend(value()),
            "--command" => target.extend(value()),
            "--name" => found.label = value().map(str::to_owned),
            "--cwd" => {
                if let Some(cwd) = value() {
                    members.insert("cwd".to_owned(), cwd.into());
                }
            }
            "--timeout" => {
                if let Some(timeout) = value().and_then(|text| text.parse::<u32>().ok()) {
                    members.insert("timeout".to_owned(), timeout.into());
                }
            }
            "--bearer-token-env-var" => {
                if let Some(variable) = value() {
                    members.insert("bearerToken".to_owned(), format!("${{{variable}}}").into());
                }
            }
            "--include-tools" | "--exclude-tools" => {
                let names = value().unwrap_or_default().split(',');
                let names: Vec<&str> = names
                    .map(str::trim)
                    .filter(|name| !name.is_empty())
                    .collect();
                let key = if option == "--include-tools" {
                    "includeTools"
                } else {
                    "excludeTools"
                };
                members.insert(key.to_owned(), json!(names));
            }
            // Ignore the place where the client would store the server.
            "-s" | "--scope" | "--description" => {
                value();
            }
            "-y" | "--yes" | "--persist" | "--replace" | "--no-check" | "--trust" => {}
            option => found.notes.push(format!("left out: {}", shortened(option))),
        }
    }
    let Some((first, args)) = target.split_first() else {
        return Err(unreadable(
            "the command line names neither a program nor a URL",
        ));
    };
    if is_url(first) {
        members.insert("url".to_owned(), (*first).into());
    } else {
        members.insert("command".to_owned(), (*first).into());
        members.insert("args".to_owned(), json!(args));
        let program = programs::program_name(first).to_ascii_lowercase();
        found
            .notes
            .extend(remarks(&program, &target, members.contains_key("cwd")));
    }
    for (key, pairs) in [("env", env), ("headers", headers)] {
        if !pairs.is_empty() {
            members.insert(key.to_owned(), pairs.into());
        }
    }
    // The members have the keys of clients, so read them like a file.
    let shape = shapes::find(Value::Object(members), FileFormat::Json);
    let shape = shape.ok_or_else(|| unreadable("the command line names no server"))?;
    let read = shape
        .servers()
        .map_err(|error| unreadable(&error.to_string()))?;
    let server = read
        .into_iter()
        .next()
        .ok_or_else(|| unreadable("the command line names no server"))?;
    if let Some(reason) = &server.left_out {
        return Err(NotPasted::NoServer(reason.to_string()));
    }
    let read = shape.found(server);
    found.entry = read.entry;
    found.notes.extend(read.notes);
    Ok(found)
}
