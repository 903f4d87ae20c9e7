//! Parses text to a tree: strict JSON, or JSON with comments and trailing commas.

use std::path::Path;

use jsonc_parser::{
    CollectOptions, ParseOptions,
    ast::Value,
    errors::{ParseError, ParseErrorKind},
    parse_to_ast,
};
use mainstay_core::config::ConfigError;
use serde::de::IgnoredAny;

use crate::read::report::Lines;

/// The syntax of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    /// Plain JSON.
    Json,
    /// JSON with comments, trailing commas and the extensions of JSON5.
    Jsonc,
}

impl Syntax {
    /// The syntax of a file at this path. `.jsonc` and `.json5`, and files of programs that read comments,
    /// are JSONC. Every other file is JSON.
    pub fn of_path(path: &Path) -> Self {
        let extension = path.extension().unwrap_or_default();
        let is_jsonc =
            extension.eq_ignore_ascii_case("jsonc") || extension.eq_ignore_ascii_case("json5");
        if is_jsonc || is_of_lenient_program(path) {
            Self::Jsonc
        } else {
            Self::Json
        }
    }

    pub(crate) fn options(self) -> ParseOptions {
        let liberal = self == Self::Jsonc;
        ParseOptions {
            allow_comments: liberal,
            allow_loose_object_property_names: liberal,
            allow_trailing_commas: liberal,
            // No dialect allows missing commas.
            allow_missing_commas: false,
            allow_single_quoted_strings: liberal,
            allow_hexadecimal_numbers: liberal,
            allow_unary_plus_numbers: liberal,
            allow_bare_decimal_point_numbers: liberal,
            allow_non_finite_numbers: liberal,
            allow_extended_string_escapes: liberal,
        }
    }
}

/// Folders whose programs read JSON with comments: VS Code and related editors, Visual Studio, Cursor,
/// Gemini CLI, Qwen Code, Zed, opencode.
const LENIENT_FOLDERS: [&str; 8] = [
    ".vscode", ".vs", ".cursor", ".gemini", ".qwen", ".zed", "zed", "opencode",
];

/// True if the file is in one of these folders, or in `User`, where editors keep their settings, or is
/// named `opencode.json`.
fn is_of_lenient_program(path: &Path) -> bool {
    let Some(folder) = path.parent() else {
        return false;
    };
    let is_called = |name: &str| folder.file_name().is_some_and(|last| last == name);
    let is_opencodes = path.file_name().is_some_and(|file| file == "opencode.json");
    is_opencodes || is_called("User") || LENIENT_FOLDERS.into_iter().any(is_called)
}

/// Parses a text into a tree with byte ranges.
pub(crate) fn tree<'t>(
    text: &'t str,
    syntax: Syntax,
    lines: &Lines<'_>,
) -> Result<Value<'t>, ConfigError> {
    let parsed = parse_to_ast(text, &CollectOptions::default(), &syntax.options())
        .map_err(|error| unreadable(&error, lines))?;
    let Some(value) = parsed.value else {
        return Err(ConfigError {
            path: String::new(),
            message: "the file is empty".to_owned(),
            hint: Some(r#"the smallest configuration is {"mcpServers": {}}"#.to_owned()),
            position: Some((1, 1)),
            awaits_file: false,
        });
    };
    if syntax == Syntax::Json {
        strictly_json(text)?;
    }
    Ok(value)
}

fn unreadable(error: &ParseError, lines: &Lines<'_>) -> ConfigError {
    let hint = match error.kind() {
        ParseErrorKind::CommentsNotAllowed | ParseErrorKind::TrailingCommasNotAllowed => {
            Some("JSON has none; a file named .jsonc or .json5 may have them".to_owned())
        }
        _ => None,
    };
    ConfigError {
        path: String::new(),
        message: lowercase_first(&error.kind().to_string()),
        hint,
        position: Some(lines.position(error.range().start)),
        awaits_file: false,
    }
}

/// Rejects invalid JSON that the lenient parser accepts in spite of its options, such as raw control
/// characters.
fn strictly_json(text: &str) -> Result<(), ConfigError> {
    let Err(error) = serde_json::from_str::<IgnoredAny>(text) else {
        return Ok(());
    };
    let message = error.to_string();
    let message = message
        .rsplit_once(" at line ")
        .map_or(message.as_str(), |(fault, _)| fault);
    Err(ConfigError {
        path: String::new(),
        message: message.to_owned(),
        hint: None,
        position: Some((error.line(), error.column().max(1))),
        awaits_file: false,
    })
}

fn lowercase_first(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| {
        first.to_ascii_lowercase().to_string() + chars.as_str()
    })
}
