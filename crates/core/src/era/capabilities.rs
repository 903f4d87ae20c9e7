//! Capabilities that clients and servers declare.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::{Era, Revision};
use crate::message::{self, JsonObjectEditor, Method, foreign, meta::SERVER_INFO};

/// The name of the tasks extension.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// The capabilities of a server that Mainstay uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    pub tools: bool,
    pub prompts: bool,
    pub resources: bool,
    pub subscribe: bool,
    pub logging: bool,
    pub completions: bool,
    pub tools_changed: bool,
    pub prompts_changed: bool,
    pub resources_changed: bool,
    /// The tasks extension of 2026-07-28 (SEP-2663). The `tasks` of 2025-11-25 do not count.
    pub tasks: bool,
}

impl Capabilities {
    fn read(capabilities: &Value, revision: Revision) -> Self {
        let has_capability = |name: &str| capabilities[name].is_object();
        let has_flag = |name: &str, flag: &str| capabilities[name][flag] == Value::Bool(true);
        Self {
            tools: has_capability("tools"),
            prompts: has_capability("prompts"),
            resources: has_capability("resources"),
            subscribe: has_flag("resources", "subscribe"),
            logging: has_capability("logging"),
            completions: has_capability("completions")
                || !revision.has_completions_capability()
                    && (has_capability("prompts") || has_capability("resources")),
            tools_changed: has_flag("tools", "listChanged"),
            prompts_changed: has_flag("prompts", "listChanged"),
            resources_changed: has_flag("resources", "listChanged"),
            tasks: revision.era() == Era::Modern && capabilities["extensions"][TASKS].is_object(),
        }
    }
}

/// Maximum size of a server's `instructions`, in bytes. The answer to `initialize` joins the
/// instructions of all servers of a profile for models, which cannot use longer texts.
pub const MAX_INSTRUCTIONS: usize = 64 * 1024;

/// Maximum size of a server's name or version, in bytes.
const MAX_WORD: usize = 256;

/// Cuts a server's instructions at [`MAX_INSTRUCTIONS`].
pub fn bounded_instructions(text: String) -> String {
    message::shortened(text, MAX_INSTRUCTIONS)
}

/// The parts of a server's answer to `initialize` or `server/discover` that Mainstay uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Greeting {
    /// The revision to use. After `initialize`, it is the server's choice. After `server/discover`,
    /// it is the latest one in `supported`. If that is a legacy revision, `initialize` follows.
    pub revision: Revision,
    /// The revisions that the server supports, as far as known, in the server's order.
    pub supported: Vec<Revision>,
    pub capabilities: Capabilities,
    pub instructions: Option<String>,
    /// `serverInfo.name` and `serverInfo.version`, for display.
    pub server_info: Option<(String, String)>,
}

/// The reason that an answer to `initialize` or `server/discover` opens no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidGreeting {
    #[error("the answer to initialize is not an object with \"protocolVersion\"")]
    Shape,
    #[error("the answer to server/discover is not an object with \"supportedVersions\"")]
    NotDiscovered,
    #[error("the server speaks protocol revision {0:?}, which Mainstay does not know")]
    Revision(String),
}

impl Greeting {
    /// Reads the result of `initialize`.
    pub fn read(result: &str) -> Result<Self, InvalidGreeting> {
        let value: Value = foreign::read(result).map_err(|_| InvalidGreeting::Shape)?;
        let version = value["protocolVersion"]
            .as_str()
            .ok_or(InvalidGreeting::Shape)?;
        let revision = Revision::parse_legacy(version)
            .ok_or_else(|| InvalidGreeting::Revision(version.to_owned()))?;
        Ok(Self::from_parts(
            &value,
            &value["serverInfo"],
            revision,
            vec![revision],
        ))
    }

    /// Reads the result of `server/discover`. A result without `supportedVersions` comes from a
    /// legacy server that does not know this method.
    pub fn discovered(result: &str) -> Result<Self, InvalidGreeting> {
        let value: Value = foreign::read(result).map_err(|_| InvalidGreeting::NotDiscovered)?;
        let versions = value["supportedVersions"].as_array();
        let versions: Vec<&str> = versions
            .ok_or(InvalidGreeting::NotDiscovered)?
            .iter()
            .filter_map(Value::as_str)
            .collect();
        let supported: Vec<Revision> = versions
            .iter()
            .copied()
            .filter_map(Revision::parse)
            .collect();
        let revision = supported.iter().copied().max();
        let revision = revision.ok_or_else(|| InvalidGreeting::Revision(versions.join(", ")))?;
        let info = &value["_meta"][SERVER_INFO];
        Ok(Self::from_parts(&value, info, revision, supported))
    }

    fn from_parts(
        result: &Value,
        info: &Value,
        revision: Revision,
        supported: Vec<Revision>,
    ) -> Self {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let bounded_text =
            |value: &Value| text(value).map(|text| message::shortened(text, MAX_WORD));
        Self {
            revision,
            supported,
            capabilities: Capabilities::read(&result["capabilities"], revision),
            instructions: text(&result["instructions"]).map(bounded_instructions),
            server_info: bounded_text(&info["name"])
                .map(|name| (name, bounded_text(&info["version"]).unwrap_or_default())),
        }
    }
}

/// The capabilities of a client: the JSON text, and the questions that it accepts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCapabilities {
    raw: Box<str>,
    pub sampling: bool,
    /// Tools in `sampling/createMessage`.
    pub sampling_tools: bool,
    /// Elicitation with a form. An empty `elicitation` includes it.
    pub elicitation: bool,
    pub elicitation_url: bool,
    pub roots: bool,
    /// The tasks extension of 2026-07-28 (SEP-2663). The `tasks` of 2025-11-25 do not count.
    pub tasks: bool,
}

impl ClientCapabilities {
    /// Reads the `capabilities` of an `initialize` or of a modern `_meta` (JSON text). Text that is
    /// not an object declares no capabilities.
    pub fn read(raw: &str) -> Self {
        let Ok(capabilities @ Value::Object(_)) = foreign::read::<Value>(raw) else {
            return Self::none();
        };
        let elicitation = &capabilities["elicitation"];
        let url = elicitation["url"].is_object();
        Self {
            raw: message::one_line(raw).into(),
            sampling: capabilities["sampling"].is_object(),
            sampling_tools: capabilities["sampling"]["tools"].is_object(),
            elicitation: elicitation.is_object() && (elicitation["form"].is_object() || !url),
            elicitation_url: url,
            roots: capabilities["roots"].is_object(),
            tasks: capabilities["extensions"][TASKS].is_object(),
        }
    }

    pub fn none() -> Self {
        Self {
            raw: "{}".into(),
            sampling: false,
            sampling_tools: false,
            elicitation: false,
            elicitation_url: false,
            roots: false,
            tasks: false,
        }
    }

    /// Returns these capabilities with the tasks extension.
    #[must_use]
    pub fn with_tasks(&self) -> Self {
        Self::read(&with_tasks(&self.raw))
    }

    /// Returns the capabilities of a client that accepts every question.
    pub fn all() -> Self {
        Self::read(r#"{"sampling":{"tools":{}},"elicitation":{"form":{},"url":{}},"roots":{}}"#)
    }

    pub fn roots_only() -> Self {
        Self::read(r#"{"roots":{}}"#)
    }

    /// Returns these capabilities with `roots`. Mainstay then answers with the configured roots.
    #[must_use]
    pub fn with_roots(&self) -> Self {
        if self.roots {
            return self.clone();
        }
        let mut editor = JsonObjectEditor::read(&self.raw).unwrap_or_default();
        editor.set("roots", "{}");
        Self::read(&editor.to_string())
    }

    /// True if the client accepts at least one question.
    pub fn can_be_asked(&self) -> bool {
        self.sampling || self.elicitation || self.elicitation_url || self.roots
    }

    /// Returns the accepted questions as bits, for places that do not store the JSON text.
    pub fn bits(&self) -> u8 {
        let answers = [
            self.sampling,
            self.sampling_tools,
            self.elicitation,
            self.elicitation_url,
            self.roots,
        ];
        answers
            .into_iter()
            .rev()
            .fold(0, |bits, answer| bits << 1 | u8::from(answer))
    }

    /// Returns the capabilities for these bits.
    pub fn from_bits(bits: u8) -> Self {
        let has_bit = |bit: u8| bits & 1 << bit != 0;
        let mut capabilities = Map::new();
        if has_bit(0) {
            let tools = has_bit(1).then(|| ("tools".to_owned(), json!({})));
            capabilities.insert("sampling".to_owned(), tools.into_iter().collect());
        }
        let form = has_bit(2).then(|| ("form".to_owned(), json!({})));
        let url = has_bit(3).then(|| ("url".to_owned(), json!({})));
        if form.is_some() || url.is_some() {
            let modes = form.into_iter().chain(url).collect();
            capabilities.insert("elicitation".to_owned(), modes);
        }
        if has_bit(4) {
            capabilities.insert("roots".to_owned(), json!({}));
        }
        Self::read(&Value::Object(capabilities).to_string())
    }

    /// The JSON text from the client, in one line.
    pub fn raw(&self) -> &str {
        &self.raw
    }

    /// True if the client declared the capability for a question with these params (JSON text).
    /// [`Caller::accepts`](super::Caller::accepts) also checks the client's revision.
    pub fn allows(&self, question: Method, params: &str) -> bool {
        match Need::for_question(question, params) {
            Some(Need::Sampling) => self.sampling,
            Some(Need::SamplingTools) => self.sampling && self.sampling_tools,
            Some(Need::Form) => self.elicitation,
            Some(Need::Url) => self.elicitation_url,
            Some(Need::Roots) => self.roots,
            None => false,
        }
    }

    /// Returns the JSON text for a server of this era, without members that only the other era
    /// defines.
    pub fn for_era(&self, era: Era) -> Cow<'_, str> {
        if !self.roots && !self.raw.contains("tasks") {
            return Cow::Borrowed(&self.raw);
        }
        let Some(mut editor) = JsonObjectEditor::read(&self.raw) else {
            return Cow::Borrowed(&self.raw);
        };
        let mut has_changed = false;
        if self.roots && editor.get("roots") != Some("{}") {
            // Remove `listChanged`, because Mainstay does not translate its notification.
            editor.set("roots", "{}");
            has_changed = true;
        }
        match era {
            Era::Modern => has_changed |= editor.remove("tasks"),
            Era::Legacy if self.tasks => {
                let extensions = editor.get("extensions").and_then(JsonObjectEditor::read);
                if let Some(mut extensions) = extensions {
                    extensions.remove(TASKS);
                    let extensions = extensions.to_string();
                    editor.set("extensions", &extensions);
                    has_changed = true;
                }
            }
            Era::Legacy => {}
        }
        if has_changed {
            Cow::Owned(editor.to_string())
        } else {
            Cow::Borrowed(&self.raw)
        }
    }
}

/// The capability that a question requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Need {
    Sampling,
    SamplingTools,
    Form,
    Url,
    Roots,
}

impl Need {
    pub(super) fn for_question(question: Method, params: &str) -> Option<Self> {
        match question {
            Method::CreateMessage
                if ["tools", "toolChoice"]
                    .iter()
                    .any(|name| message::member(params, name).is_some()) =>
            {
                Some(Self::SamplingTools)
            }
            Method::CreateMessage => Some(Self::Sampling),
            Method::Elicit if message::text_member(params, "mode").as_deref() == Some("url") => {
                Some(Self::Url)
            }
            Method::Elicit => Some(Self::Form),
            Method::RootsList => Some(Self::Roots),
            _ => None,
        }
    }

    /// True if `revision` defines the capability.
    pub(super) fn known_to(self, revision: Revision) -> bool {
        match self {
            Self::Sampling | Self::Roots => true,
            Self::SamplingTools => revision.has_sampling_tools(),
            Self::Form => revision.has_elicitation(),
            Self::Url => revision.has_url_elicitation(),
        }
    }

    /// Returns the capability as in `requiredCapabilities`.
    pub(super) fn capabilities(self) -> Value {
        match self {
            Self::Sampling => json!({"sampling": {}}),
            Self::SamplingTools => json!({"sampling": {"tools": {}}}),
            Self::Form => json!({"elicitation": {"form": {}}}),
            Self::Url => json!({"elicitation": {"url": {}}}),
            Self::Roots => json!({"roots": {}}),
        }
    }
}

/// Adds the tasks extension to a client's capabilities (JSON text).
fn with_tasks(capabilities: &str) -> String {
    let mut editor = JsonObjectEditor::read(capabilities).unwrap_or_default();
    let extensions = editor.get("extensions").map(str::to_owned);
    let mut extensions = extensions
        .as_deref()
        .and_then(JsonObjectEditor::read)
        .unwrap_or_default();
    extensions.set(TASKS, "{}");
    let extensions = extensions.to_string();
    editor.set("extensions", &extensions);
    editor.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a surrogate pair in a server's name is not an error.
    #[test]
    fn a_greeting_with_half_a_surrogate_pair_is_read() {
        let greeting = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"a\ud800","version":"1"},"x":1e400}"#;
        let greeting = Greeting::read(greeting).expect("a greeting");
        assert!(greeting.capabilities.tools);
        let name = greeting.server_info.map(|(name, _)| name);
        assert_eq!(name.as_deref(), Some("a\u{fffd}"));
    }

    #[test]
    fn the_tasks_extension_is_added_to_capabilities() {
        assert_eq!(
            with_tasks("{}"),
            r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#
        );
        assert_eq!(
            with_tasks(r#"{"roots":{},"extensions":{"a/b":{"c": 1}}}"#),
            r#"{"roots":{},"extensions":{"a/b":{"c": 1},"io.modelcontextprotocol/tasks":{}}}"#
        );
    }

    #[test]
    fn a_greeting_contains_the_capabilities_of_the_server() {
        let greeting = Greeting::read(
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{},"resources":{"subscribe":true}},
                "serverInfo":{"name":"x","version":"1"},"instructions":"be kind"}"#,
        )
        .expect("a greeting");
        assert_eq!(greeting.revision, Revision::V2025_06_18);
        assert!(
            greeting.capabilities.tools
                && greeting.capabilities.subscribe
                && !greeting.capabilities.prompts
        );
        assert_eq!(greeting.instructions.as_deref(), Some("be kind"));
    }

    #[test]
    fn bits_restore_the_accepted_questions() {
        for bits in 0..32 {
            let capabilities = ClientCapabilities::from_bits(bits);
            // Bit 1 (tools in sampling) has no meaning without bit 0 (sampling).
            let expected = if bits & 1 == 0 { bits & !2 } else { bits };
            assert_eq!(capabilities.bits(), expected, "{}", capabilities.raw());
        }
        let all_capabilities = ClientCapabilities::all();
        assert_eq!(
            ClientCapabilities::from_bits(all_capabilities.bits()).raw(),
            all_capabilities.raw()
        );
    }

    #[test]
    fn an_unknown_revision_differs_from_a_foreign_answer() {
        assert_eq!(Greeting::read("{}"), Err(InvalidGreeting::Shape));
        assert_eq!(
            Greeting::read(r#"{"protocolVersion":"1.0"}"#),
            Err(InvalidGreeting::Revision("1.0".to_owned()))
        );
    }
}
