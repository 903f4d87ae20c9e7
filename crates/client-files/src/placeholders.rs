//! Translates placeholders of each client into those of our configuration, and back. Ours are `${NAME}`,
//! `${env:NAME}`, `${input:ID}`, `${file:PATH}`, and `$${` for a literal `${`.

use std::{cell::RefCell, path::Path};

use crate::client::ClientKind;

/// Placeholders of editors for the open folder.
const WORKSPACE: [&str; 7] = [
    "${workspaceFolder}",
    "${CLAUDE_PROJECT_DIR}",
    "${workspaceRoot}",
    "${workspaceFolderBasename}",
    "${PROJECT_DIR}",
    "$PROJECT_DIR$",
    "$WORKSPACE_FOLDER$",
];

/// Placeholders of editors that are not variables.
const EDITORS: [&str; 7] = [
    "cwd",
    "execPath",
    "pathSeparator",
    "userHome",
    "workspaceFolder",
    "workspaceFolderBasename",
    "workspaceRoot",
];

/// The form in which a client writes references to variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// The client replaces nothing.
    Plain,
    /// `${NAME}` or `${env:NAME}`, as in our file.
    Braces,
    /// `${env:NAME}` only.
    Env,
    /// `$NAME` in addition to the forms with braces.
    Shell,
    /// `{env:NAME}` and `{file:PATH}`.
    Opencode,
    /// `${{ secrets.NAME }}`
    Secrets,
}

fn style(client: ClientKind) -> Style {
    match client {
        ClientKind::ClaudeDesktop | ClientKind::Codex | ClientKind::Zed | ClientKind::LmStudio => {
            Style::Plain
        }
        ClientKind::Cursor
        | ClientKind::VsCode
        | ClientKind::VsCodeInsiders
        | ClientKind::Windsurf
        | ClientKind::Cline
        | ClientKind::Roo
        | ClientKind::Kilo => Style::Env,
        ClientKind::GeminiCli | ClientKind::QwenCode | ClientKind::Crush => Style::Shell,
        ClientKind::Opencode | ClientKind::KiloCli => Style::Opencode,
        ClientKind::Continue => Style::Secrets,
        _ => Style::Braces,
    }
}

/// A translated text, with notes for the user.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Translated {
    pub text: String,
    pub notes: Vec<String>,
}

/// Translates a text of this client's file into the form of our configuration. `folder` contains the file.
/// `project` is the folder that the client has open.
pub(crate) fn ours(
    client: ClientKind,
    text: &str,
    project: Option<&Path>,
    folder: &Path,
) -> Translated {
    let mut notes = Vec::new();
    let mut text = match style(client) {
        Style::Plain if text.contains("${") => {
            notes.push(format!(
                "{client} takes `${{` as it stands, and so does Mainstay: it became `$${{`"
            ));
            text.replace("${", "$${")
        }
        Style::Plain | Style::Braces | Style::Env => text.to_owned(),
        Style::Shell => braced(text),
        Style::Opencode => opencode(text, folder),
        Style::Secrets => secrets(text, &mut notes),
    };
    if style(client) != Style::Plain {
        for name in WORKSPACE {
            if !text.contains(name) {
                continue;
            }
            let value = project.and_then(|folder| match name {
                "${workspaceFolderBasename}" => folder.file_name()?.to_str(),
                _ => folder.to_str(),
            });
            match value {
                Some(folder) => {
                    text = text.replace(name, folder);
                    notes.push(format!("{name} became {folder:?}"));
                }
                None => notes.push(format!(
                    "{name} is the folder that {client} has open, which Mainstay does not know: write the path itself"
                )),
            }
        }
        if let Some(kind) = editors_own(&text) {
            notes.push(format!(
                "only {client} knows what ${{{kind}:…}} stands for: write that itself"
            ));
        }
    }
    if client == ClientKind::LibreChat && text.contains("{{") {
        notes.push(
            "LibreChat puts in what each of its users has, and Mainstay has one value for all: write it itself"
                .to_owned(),
        );
    }
    Translated { text, notes }
}

/// Translates a text of our configuration for this client.
pub(crate) fn theirs(client: ClientKind, text: &str) -> Translated {
    let mut notes = Vec::new();
    let text = match style(client) {
        Style::Plain => {
            let plain = text.replace("$${", "\u{0}");
            if plain.contains("${") {
                notes.push(format!(
                    "{client} does not replace ${{…}}: write the value itself"
                ));
            }
            plain.replace('\u{0}', "${")
        }
        Style::Braces => text.to_owned(),
        Style::Shell => {
            if braced(text) != text {
                notes.push(format!(
                    "{client} takes $NAME for a variable: write the text in another way"
                ));
            }
            text.to_owned()
        }
        Style::Env => replaced(text, "${", "}", |name| {
            let is_variable = is_name(name) && !EDITORS.contains(&name);
            is_variable.then(|| format!("${{env:{name}}}"))
        }),
        Style::Opencode => replaced(text, "${", "}", |inside| {
            let name = inside.strip_prefix("env:").unwrap_or(inside);
            let name = name.strip_suffix(":-").unwrap_or(name);
            match name.strip_prefix("file:") {
                Some(path) => Some(format!("{{file:{path}}}")),
                None if is_name(name) => Some(format!("{{env:{name}}}")),
                None => None,
            }
        }),
        Style::Secrets => replaced(text, "${", "}", |inside| {
            let name = inside.strip_prefix("env:").unwrap_or(inside);
            is_name(name).then(|| format!("${{{{ secrets.{name} }}}}"))
        }),
    };
    if style(client) != Style::Plain {
        notes.extend(not_known(client, &text));
    }
    Translated { text, notes }
}

/// Returns notes about references in a translated text that only Mainstay understands.
fn not_known(client: ClientKind, text: &str) -> Vec<String> {
    let mut notes = Vec::new();
    if text.contains("$${") {
        notes.push(format!(
            "{client} knows no $${{ for ${{ itself: write the text in another way"
        ));
    }
    let has_default = |inside: &str| {
        let name = inside.split_once(":-").map(|(name, _)| name);
        name.is_some_and(is_name)
    };
    let knows_defaults = style(client) == Style::Braces;
    let has_inputs = matches!(client, ClientKind::VsCode | ClientKind::VsCodeInsiders);
    for (_, from) in text
        .match_indices("${")
        .map(|(at, _)| text.split_at(at + 2))
    {
        let Some((inside, _)) = from.split_once('}') else {
            continue;
        };
        let is_ours = inside.starts_with("file:")
            || inside.starts_with("input:") && !has_inputs
            || has_default(inside) && !knows_defaults;
        if is_ours {
            notes.push(format!(
                "{client} does not replace ${{{inside}}}: write the value itself"
            ));
        } else if inside.starts_with("input:") {
            notes.push(format!(
                "{client} asks for ${{{inside}}} only where `inputs` of its file has it"
            ));
        }
    }
    notes
}

fn is_name(text: &str) -> bool {
    let mut chars = text.chars();
    chars
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && chars.all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Converts `$NAME` to `${NAME}`.
fn braced(text: &str) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        done.push_str(before);
        let after = &from[1..];
        let length = after
            .find(|c: char| !c.is_ascii_alphanumeric() && c != '_')
            .unwrap_or(after.len());
        let name = &after[..length];
        // `$NAME$` is a placeholder of JetBrains.
        let mut behind = after[length..].chars();
        let is_closed = behind.next() == Some('$')
            && !behind
                .next()
                .is_some_and(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '{'));
        if is_name(name) && !is_closed {
            done.push_str("${");
            done.push_str(name);
            done.push('}');
            rest = &after[length..];
        } else {
            done.push('$');
            rest = after;
        }
    }
    done.push_str(rest);
    done
}

/// Replaces each text between the two marks for which `with` returns a replacement.
fn replaced(text: &str, open: &str, close: &str, with: impl Fn(&str) -> Option<String>) -> String {
    let mut done = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(open) {
        let (before, from) = rest.split_at(at);
        done.push_str(before);
        let inside = &from[open.len()..];
        let found = inside.find(close).and_then(|end| {
            let with = with(&inside[..end])?;
            Some((with, &inside[end + close.len()..]))
        });
        match found {
            Some((with, after)) => {
                done.push_str(&with);
                rest = after;
            }
            None => {
                done.push_str(open);
                rest = inside;
            }
        }
    }
    done.push_str(rest);
    done
}

/// Translates a text of opencode. opencode replaces an unset variable by an empty text, and resolves
/// relative paths from the folder of the file.
fn opencode(text: &str, folder: &Path) -> String {
    let text = replaced(text, "{env:", "}", |name| {
        is_name(name).then(|| format!("${{{name}:-}}"))
    });
    replaced(&text, "{file:", "}", |path| {
        let is_whole = path.starts_with(['/', '~']) || Path::new(path).is_absolute();
        let relative = Path::new(path.strip_prefix("./").unwrap_or(path));
        Some(if is_whole || folder == Path::new("") {
            format!("${{file:{path}}}")
        } else {
            format!("${{file:{}}}", folder.join(relative).display())
        })
    })
}

fn secrets(text: &str, notes: &mut Vec<String>) -> String {
    let names = RefCell::new(Vec::new());
    let text = replaced(text, "${{", "}}", |inside| {
        let name = inside.trim();
        let name = name.rsplit('.').next().unwrap_or(name);
        let is_name = is_name(name);
        names.borrow_mut().extend(is_name.then(|| name.to_owned()));
        is_name.then(|| format!("${{{name}}}"))
    });
    notes.extend(names.into_inner().into_iter().map(|name| {
        format!("a secret of Continue became ${{{name}}}: set that variable for Mainstay")
    }));
    text
}

/// The kind of the first reference that only an editor can resolve, as in `${command:pick}`.
fn editors_own(text: &str) -> Option<&str> {
    let mut rest = text;
    while let Some((_, from)) = rest.split_once("${") {
        let (inside, after) = from.split_once('}')?;
        if let Some((kind, _)) = inside.split_once(':')
            && is_name(kind)
            && !inside[kind.len()..].starts_with(":-")
            && !matches!(kind, "env" | "input" | "file")
        {
            return Some(kind);
        }
        rest = after;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(client: ClientKind, text: &str, expected: &str, expected_notes: usize) {
        let found = ours(client, text, None, Path::new("/home/me/.config/it"));
        assert_eq!(found.text, expected, "{text}");
        assert_eq!(found.notes.len(), expected_notes, "{:?}", found.notes);
    }

    #[test]
    fn each_client_has_its_own_words() {
        check(ClientKind::ClaudeDesktop, "${HOME}/x", "$${HOME}/x", 1);
        check(ClientKind::ClaudeCode, "${A:-b}", "${A:-b}", 0);
        check(
            ClientKind::GeminiCli,
            "Bearer $TOKEN-x $5",
            "Bearer ${TOKEN}-x $5",
            0,
        );
        check(ClientKind::GeminiCli, "${TOKEN}", "${TOKEN}", 0);
        check(ClientKind::GeminiCli, "$A$B:$C_", "${A}${B}:${C_}", 0);
        check(ClientKind::GeminiCli, "$A${B}", "${A}${B}", 0);
        check(
            ClientKind::Opencode,
            "{file:./key} {file:keys/a}",
            "${file:/home/me/.config/it/key} ${file:/home/me/.config/it/keys/a}",
            0,
        );
        check(
            ClientKind::VsCode,
            "a${pathSeparator}b",
            "a${pathSeparator}b",
            0,
        );
        check(
            ClientKind::Opencode,
            "{env:KEY}/{file:~/k}",
            "${KEY:-}/${file:~/k}",
            0,
        );
        check(ClientKind::Continue, "${{ secrets.KEY }}", "${KEY}", 1);
        check(
            ClientKind::Cursor,
            "${workspaceFolder}/x",
            "${workspaceFolder}/x",
            1,
        );
        check(ClientKind::VsCode, "${command:pick}", "${command:pick}", 1);
        check(
            ClientKind::LibreChat,
            "{{LIBRECHAT_USER_ID}}",
            "{{LIBRECHAT_USER_ID}}",
            1,
        );
    }

    #[test]
    fn a_known_project_takes_the_place_of_its_name() {
        let project = Path::new("/home/me/app");
        let found = ours(
            ClientKind::VsCode,
            "${workspaceFolder}/${workspaceFolderBasename}",
            Some(project),
            project,
        );
        assert_eq!(found.text, "/home/me/app/app");
        assert_eq!(found.notes.len(), 2);
    }

    #[test]
    fn a_variable_of_ours_is_one_of_an_editor() {
        let found = theirs(ClientKind::Cursor, "${userHome}/${KEY}/${input:id}");
        assert_eq!(found.text, "${userHome}/${env:KEY}/${input:id}");
        let found = theirs(ClientKind::VsCode, "${workspaceRoot}${pathSeparator}${cwd}");
        assert_eq!(found.text, "${workspaceRoot}${pathSeparator}${cwd}");
    }

    #[test]
    fn a_reference_that_the_client_does_not_know_is_told() {
        for (client, text, expected_notes) in [
            (ClientKind::ClaudeCode, "${A}${A:-b}", 0),
            (ClientKind::ClaudeCode, "$${A}", 1),
            (ClientKind::ClaudeCode, "${file:/k}${input:key}", 2),
            (ClientKind::VsCode, "${file:/k}${input:key}${A:-b}", 3),
            (ClientKind::VsCode, "${A}$HOME", 0),
            (ClientKind::GeminiCli, "${A}$HOME", 1),
            (ClientKind::Crush, "cost: $5", 0),
            (ClientKind::Opencode, "${file:/k}${A:-}${A}", 0),
            (ClientKind::Opencode, "${A:-b}${input:key}", 2),
            (ClientKind::Codex, "${A}", 1),
        ] {
            let found = theirs(client, text);
            assert_eq!(
                found.notes.len(),
                expected_notes,
                "{client} {text}: {:?}",
                found.notes
            );
        }
    }

    #[test]
    fn what_came_from_a_client_goes_back() {
        for (client, text) in [
            (ClientKind::ClaudeDesktop, "${HOME}"),
            (ClientKind::Opencode, "{env:KEY}-{file:/k}"),
            (ClientKind::Continue, "${{ secrets.KEY }}"),
            (ClientKind::Cursor, "${env:KEY}"),
        ] {
            assert_eq!(
                theirs(client, &ours(client, text, None, Path::new("/")).text).text,
                text
            );
        }
    }
}
