//! The manifest of a bundle (`manifest.json`, versions 0.1 to 0.4): it is checked, and turned into questions
//! and an entry.
//!
//! <https://github.com/modelcontextprotocol/mcpb/blob/main/MANIFEST.md>

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    literal::literal,
    question::{Answers, Format, Question},
    recipe::{Recipe, Text},
    system::System,
};

/// The maximum length of a manifest, in bytes.
pub const MAX_MANIFEST: u64 = 1024 * 1024;

/// The reason that a manifest is refused.
#[derive(Debug, thiserror::Error)]
pub enum BadManifest {
    #[error("its manifest is not valid: {0}")]
    Json(#[from] serde_json::Error),
    #[error("its manifest has no {0}")]
    Missing(&'static str),
    #[error("its manifest has version {0:?}; 0.1 to 0.4 are known")]
    Version(String),
    #[error("it is made for {0}, not for {1}")]
    Platform(String, &'static str),
    #[error("its server is of type {0:?}; node, python, binary and uv are known")]
    Type(String),
    #[error("its manifest says no command")]
    Command,
    #[error("its file {0:?} is not in it")]
    EntryPoint(String),
    #[error("its command {0:?} leads out of it")]
    Outside(String),
}

#[derive(Debug, Deserialize)]
pub struct Manifest {
    #[serde(rename = "manifest_version", alias = "dxt_version", default)]
    revision: String,
    #[serde(default)]
    pub name: String,
    pub display_name: Option<String>,
    #[serde(default)]
    pub version: String,
    #[serde(default)]
    pub description: String,
    server: Server,
    #[serde(default)]
    user_config: BTreeMap<String, Setting>,
    #[serde(default)]
    compatibility: Compatibility,
}

#[derive(Debug, Deserialize)]
struct Server {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    entry_point: String,
    mcp_config: Option<Launch>,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Launch {
    command: Option<String>,
    args: Option<Vec<String>>,
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    platform_overrides: BTreeMap<String, Launch>,
}

#[derive(Debug, Default, Deserialize)]
struct Compatibility {
    #[serde(default)]
    platforms: Vec<String>,
    #[serde(default)]
    runtimes: BTreeMap<String, String>,
}

#[derive(Debug, Deserialize)]
struct Setting {
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    title: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    required: bool,
    default: Option<Value>,
    #[serde(default)]
    multiple: bool,
    #[serde(default)]
    sensitive: bool,
    min: Option<f64>,
    max: Option<f64>,
}

/// The folders of the user that a manifest can name.
#[derive(Clone, Debug)]
pub struct Folders {
    pub home: PathBuf,
}

impl Folders {
    fn variables(&self) -> impl Iterator<Item = (String, String)> {
        let at = |path: PathBuf| path.to_string_lossy().into_owned();
        [
            ("HOME", at(self.home.clone())),
            ("DESKTOP", at(self.home.join("Desktop"))),
            ("DOCUMENTS", at(self.home.join("Documents"))),
            ("DOWNLOADS", at(self.home.join("Downloads"))),
        ]
        .into_iter()
        .map(|(name, path)| (name.to_owned(), path))
    }
}

impl Manifest {
    /// Parses a manifest and checks everything that does not need the other files.
    pub fn read(text: &[u8], system: System) -> Result<Self, BadManifest> {
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let manifest: Self = serde_json::from_slice(text)?;
        match manifest.revision.as_str() {
            "" => return Err(BadManifest::Missing("manifest_version")),
            "0.1" | "0.2" | "0.3" | "0.4" => {}
            other => return Err(BadManifest::Version(other.to_owned())),
        }
        if manifest.name.is_empty() {
            return Err(BadManifest::Missing("name"));
        }
        if manifest.version.is_empty() {
            return Err(BadManifest::Missing("version"));
        }
        if !matches!(
            manifest.server.kind.as_str(),
            "node" | "python" | "binary" | "uv"
        ) {
            return Err(BadManifest::Type(manifest.server.kind.clone()));
        }
        let platforms = &manifest.compatibility.platforms;
        if !platforms.is_empty() && !platforms.iter().any(|platform| platform == system.word()) {
            return Err(BadManifest::Platform(platforms.join(", "), system.word()));
        }
        if manifest.server.entry_point.is_empty() {
            return Err(BadManifest::Missing("server.entry_point"));
        }
        let command = manifest
            .launch(system)
            .ok()
            .and_then(|launch| launch.command);
        match command {
            Some(command) if leads_out(&command) => Err(BadManifest::Outside(command)),
            _ => Ok(manifest),
        }
    }

    /// Checks that the server's main file is in the bundle. Returns its path there.
    pub fn entry_point<'f>(
        &self,
        files: impl IntoIterator<Item = &'f [String]>,
        system: System,
    ) -> Result<Vec<String>, BadManifest> {
        let stated = self.server.entry_point.replace('\\', "/");
        let stated = stated.strip_prefix("${__dirname}/").unwrap_or(&stated);
        let stated = stated.strip_prefix("./").unwrap_or(stated);
        let with_exe = format!("{stated}.exe");
        for file in files {
            let path = file.join("/");
            let is_program = system == System::Windows && path == with_exe;
            if path == stated || is_program {
                return Ok(file.to_vec());
            }
        }
        Err(BadManifest::EntryPoint(stated.to_owned()))
    }

    /// The runtimes that the manifest requires: `node >=16`.
    pub fn runtimes(&self) -> Vec<String> {
        self.compatibility
            .runtimes
            .iter()
            .map(|(name, version)| format!("{name} {version}"))
            .collect()
    }

    /// The settings that a person may or must set.
    pub fn questions(&self, folders: &Folders) -> Vec<Question> {
        let variables: Vec<_> = folders.variables().collect();
        let question = |(key, setting): (&String, &Setting)| {
            let default = match &setting.default {
                Some(Value::Array(values)) => values.iter().filter_map(scalar).collect(),
                Some(value) => scalar(value).into_iter().collect(),
                None => Vec::new(),
            };
            let defaults = default
                .iter()
                .map(|text: &String| literal(&substituted(text, &variables)));
            let description = match (&*setting.title, &*setting.description) {
                (title, "") => title.to_owned(),
                ("", description) => description.to_owned(),
                (title, description) => format!("{title}: {description}"),
            };
            Question {
                key: key.clone(),
                description,
                required: setting.required,
                secret: setting.sensitive,
                default: defaults.filter(|value| !value.is_empty()).collect(),
                format: match setting.kind.as_str() {
                    "number" => Format::Number,
                    "boolean" => Format::Boolean,
                    "directory" | "file" => Format::Path,
                    _ => Format::Text,
                },
                repeated: setting.multiple,
                min: setting.min,
                max: setting.max,
                ..Question::default()
            }
        };
        self.user_config.iter().map(question).collect()
    }

    /// The command that starts the server from the folder `dir`.
    pub fn recipe(
        &self,
        dir: &Path,
        folders: &Folders,
        answers: &Answers,
        system: System,
    ) -> Result<Recipe, BadManifest> {
        let questions = self.questions(folders);
        let filler = Filler {
            dir: dir.to_string_lossy().into_owned(),
            folders: folders.variables().collect(),
            questions: &questions,
            answers,
            system,
        };
        let launch = self.launch(system)?;
        let command = launch.command.filter(|command| !command.is_empty());
        let mut command = filler.text(&command.ok_or(BadManifest::Command)?);
        if command.value.contains(['/', '\\']) && Path::new(&command.value).is_relative() {
            command.value = dir.join(&command.value).to_string_lossy().into_owned();
        }
        if system == System::Windows
            && self.server.kind == "binary"
            && Path::new(&command.value).extension().is_none()
        {
            command.value.push_str(".exe");
        }
        let args = launch.args.unwrap_or_default();
        let args = args.iter().flat_map(|arg| filler.argument(arg)).collect();
        let settings = launch.env.unwrap_or_default();
        let env = settings
            .iter()
            // An unset setting sets no variable.
            .filter(|(_, value)| !filler.is_unset(value))
            .map(|(name, value)| (name.clone(), filler.text(value)));
        Ok(Recipe::Command {
            command,
            args,
            env: env.collect(),
            // Paths in manifests are relative to their bundle.
            cwd: Some(literal(&filler.dir)),
        })
    }

    /// The launch on this platform: the manifest's launch with the overrides for the platform.
    fn launch(&self, system: System) -> Result<Launch, BadManifest> {
        let Some(stated) = &self.server.mcp_config else {
            let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
            // Without a launch in the manifest, the host starts these servers by itself.
            return match self.server.kind.as_str() {
                "uv" => Ok(Launch {
                    command: Some("uv".to_owned()),
                    args: Some(words(&[
                        "run",
                        "--directory",
                        "${__dirname}",
                        &self.server.entry_point,
                    ])),
                    ..Launch::default()
                }),
                _ => Err(BadManifest::Command),
            };
        };
        let overrides = stated.platform_overrides.get(system.word());
        let overrides = overrides.cloned().unwrap_or_default();
        Ok(Launch {
            command: overrides.command.or_else(|| stated.command.clone()),
            args: overrides.args.or_else(|| stated.args.clone()),
            env: overrides.env.or_else(|| stated.env.clone()),
            platform_overrides: BTreeMap::new(),
        })
    }
}

/// True if a command with a path relative to the bundle leads out of the bundle. A reference to a setting
/// counts as one folder, because its value is unknown.
fn leads_out(command: &str) -> bool {
    let command = command.replace('\\', "/");
    let within = command.strip_prefix("${__dirname}");
    if within.is_none() && (command.starts_with('/') || !command.contains('/')) {
        return false;
    }
    let mut depth = 0_usize;
    for part in within.unwrap_or(&command).split('/') {
        match part {
            "" | "." => {}
            ".." if depth == 0 => return true,
            ".." => depth -= 1,
            _ => depth += 1,
        }
    }
    false
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

/// Replaces these variables in a text. Unknown variables stay unchanged.
fn substituted(text: &str, variables: &[(String, String)]) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, from)) = rest.split_once("${") {
        out.push_str(before);
        let found = from.split_once('}').and_then(|(name, after)| {
            let (_, value) = variables.iter().find(|(variable, _)| variable == name)?;
            Some((value, after))
        });
        match found {
            Some((value, after)) => {
                out.push_str(value);
                rest = after;
            }
            None => {
                out.push_str("${");
                rest = from;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Fills values into the texts of a manifest.
struct Filler<'a> {
    dir: String,
    folders: Vec<(String, String)>,
    questions: &'a [Question],
    answers: &'a Answers,
    system: System,
}

impl Filler<'_> {
    fn question(&self, name: &str) -> Option<&Question> {
        let key = name.strip_prefix("user_config.")?;
        self.questions.iter().find(|question| question.key == key)
    }

    /// The question of a setting, if the text consists only of a reference to that setting.
    fn sole(&self, text: &str) -> Option<&Question> {
        let name = text.strip_prefix("${")?.strip_suffix('}')?;
        self.question(name)
    }

    fn is_unset(&self, text: &str) -> bool {
        let question = self.sole(text);
        question.is_some_and(|question| question.values(self.answers).is_empty())
    }

    /// The arguments for one text. A setting with several values becomes several arguments.
    fn argument(&self, text: &str) -> Vec<Text> {
        let Some(question) = self.sole(text) else {
            return vec![self.text(text)];
        };
        let values = question.values(self.answers).iter();
        let text = |value: &String| Text {
            value: value.clone(),
            is_secret: question.secret,
        };
        values.map(text).collect()
    }

    /// Replaces the variables in a text. The manifest's text is literal. The user's values may contain
    /// references.
    fn text(&self, text: &str) -> Text {
        let mut out = Text::default();
        let mut rest = text;
        while let Some((before, from)) = rest.split_once("${") {
            out.push_literal(before);
            let found = from.split_once('}');
            let found = found.and_then(|(name, after)| Some((self.value(name)?, after)));
            if let Some((value, after)) = found {
                out.push(&value);
                rest = after;
            } else {
                out.push_literal("${");
                rest = from;
            }
        }
        out.push_literal(rest);
        out
    }

    fn value(&self, name: &str) -> Option<Text> {
        if let Some(question) = self.question(name) {
            return Some(Text {
                value: question.values(self.answers).join(","),
                is_secret: question.secret,
            });
        }
        let value = match name {
            "__dirname" => self.dir.clone(),
            "pathSeparator" | "/" => self.system.separator().to_owned(),
            _ => {
                let (_, path) = self.folders.iter().find(|(folder, _)| folder == name)?;
                path.clone()
            }
        };
        Some(Text::open(literal(&value)))
    }
}
