//! Reads a server's transport, and the settings of that transport.

use std::{
    collections::HashSet,
    path::{Path, PathBuf},
};

use mainstay_core::{
    config::{HttpLaunch, HttpTransport, InheritEnv, Launch, PathOrder, Secret, StdioLaunch},
    programs,
};

use crate::{
    Environment, References, UnreadableFile, UnreadableSecret,
    foreign::TransportWord,
    locate,
    read::{
        entry::EntryReader,
        expand::ReferenceScope,
        fields::Fields,
        http,
        network::NETWORK_KEYS,
        node::{Member, Node},
        report::KeyPath,
    },
};

pub(crate) const URL_KEYS: [&str; 4] = ["url", "serverUrl", "httpUrl", "remoteUrl"];

/// An entry without a transport must have one of these keys.
pub(crate) const START_KEYS: [&str; 5] = ["command", "url", "serverUrl", "httpUrl", "remoteUrl"];

/// Keys for the way of signing in to a server.
pub const SIGN_IN_KEYS: [&str; 4] = ["auth", "authProviderType", "headersHelper", "oauth"];

/// True if the value of a key for signing in turns it off.
pub(crate) fn is_off(node: &Node<'_>) -> bool {
    let is_disabled = node.member("enabled").and_then(|switch| switch.as_bool()) == Some(false);
    node.is_empty() || node.as_bool() == Some(false) || is_disabled
}

/// The environment of a child process. It does not inherit our own variables.
struct ChildEnvironment<'s>(&'s ReferenceScope<'s>);

impl Environment for ChildEnvironment<'_> {
    fn var(&self, name: &str) -> Option<String> {
        match self.0.env.get(name) {
            Some(secret) => Some(secret.expose().to_owned()),
            None if name.starts_with("MAINSTAY_") => None,
            None => self.0.environment.var(name),
        }
    }

    fn read_file(&self, path: &Path) -> Result<String, UnreadableFile> {
        self.0.environment.read_file(path)
    }

    fn secret(&self, name: &str) -> Result<Secret, UnreadableSecret> {
        self.0.environment.secret(name)
    }

    fn home_dir(&self) -> Option<PathBuf> {
        self.0.environment.home_dir()
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StatedTransport {
    Stdio,
    Http(HttpTransport),
}

impl StatedTransport {
    fn parse(word: &str, key: &str) -> Option<Self> {
        Some(match TransportWord::parse(word, key)? {
            TransportWord::Stdio => Self::Stdio,
            TransportWord::Sse => Self::Http(HttpTransport::Sse),
            TransportWord::StreamableHttp => Self::Http(HttpTransport::StreamableHttp),
            TransportWord::Remote => Self::Http(HttpTransport::Detect),
        })
    }

    /// Combines two statements. Returns `None` if they contradict each other.
    fn combined_with(self, other: Self) -> Option<Self> {
        match (self, other) {
            (one, other) if one == other => Some(one),
            (Self::Http(HttpTransport::Detect), pinned @ Self::Http(_))
            | (pinned @ Self::Http(_), Self::Http(HttpTransport::Detect)) => Some(pinned),
            _ => None,
        }
    }
}

impl<'e> EntryReader<'e, '_, '_> {
    pub fn launch(&mut self, require_transport: bool) -> Launch {
        // Needed for errors that name the key `serverType`.
        let server_type = self.fields.peek("serverType").and_then(Node::as_str);
        let kind = match self.stated() {
            Some(kind) => kind,
            None if require_transport => {
                let message = format!("Server {}: transport is required", self.label);
                self.report.error(&self.fields.place, message);
                self.inferred()
            }
            None => self.inferred(),
        };
        match kind {
            StatedTransport::Stdio => {
                let absent = match server_type {
                    Some(_) => "command required for local server".to_owned(),
                    None => format!("Server {}: command is required", self.label),
                };
                Launch::Stdio(self.stdio(&absent))
            }
            StatedTransport::Http(transport) => {
                let absent = match server_type {
                    Some(word) => format!("remoteUrl required for {word} server"),
                    None => format!("Server {}: url is required", self.label),
                };
                Launch::Http(self.http(transport, &absent))
            }
        }
    }

    /// The transport that the entry states, if any.
    fn stated(&mut self) -> Option<StatedTransport> {
        let mut stated: Option<StatedTransport> = None;
        for key in ["type", "transport", "transportType", "serverType"] {
            let Some(node) = self.fields.take(key) else {
                continue;
            };
            // With an unknown word, the other keys decide.
            let kind = self
                .known_word(&node, key)
                .unwrap_or_else(|| self.inferred());
            let together = stated.map_or(Some(kind), |stated| stated.combined_with(kind));
            if together.is_none() {
                let message = "contradicts what is said of the transport elsewhere in the entry";
                self.report.error(&node.place, message);
            }
            stated = together.or(stated);
        }
        stated
    }

    fn known_word(&mut self, node: &Node<'_>, key: &str) -> Option<StatedTransport> {
        let word = node.string(self.report)?;
        let kind = StatedTransport::parse(word, key);
        if kind.is_none() && key == "serverType" {
            let message = format!("Unsupported server type: {word}");
            self.report.error(&node.place, message);
        } else if kind.is_none() {
            let message = format!("unknown transport {word:?}");
            let hint = r#"expected "stdio", "http" or "sse""#;
            self.report.error_with_hint(&node.place, message, hint);
        }
        kind
    }

    fn inferred(&mut self) -> StatedTransport {
        let remote = URL_KEYS.iter().any(|key| self.fields.has(key));
        if remote && self.fields.has("command") {
            let message = "`command` and a URL are both given";
            let hint = "say which is meant by `type`";
            self.report
                .error_with_hint(&self.fields.place, message, hint);
        }
        match remote {
            // Gemini CLI has `httpUrl` for Streamable HTTP, and `url` for SSE.
            true if self.fields.has("httpUrl") => {
                StatedTransport::Http(HttpTransport::StreamableHttp)
            }
            true => StatedTransport::Http(HttpTransport::Detect),
            false => StatedTransport::Stdio,
        }
    }

    fn stdio(&mut self, absent: &str) -> StdioLaunch {
        let command = self.fields.take("command");
        let text = command.as_ref().and_then(Node::as_str);
        let is_reference = text.is_some_and(|text| text.contains("${"));
        let command = self.required(command, &START_KEYS, absent);
        let args = self.args();
        let cwd = self.cwd();
        let command = command.map(|(place, command)| {
            self.check_command(&place, &command, is_reference, &args, cwd.as_deref());
            command
        });
        let inherit_env = self
            .fields
            .take("inheritEnv")
            .and_then(|node| self.inherit_env(&node));
        for key in URL_KEYS
            .into_iter()
            .chain(["headers", "bearerToken", "headersHelper", "requestInit"])
            .chain(SIGN_IN_KEYS)
            .chain(NETWORK_KEYS)
        {
            self.unused(key, "not used by a stdio server");
        }
        if let Some(node) = self.fields.take("sandboxEnabled")
            && node.as_bool() != Some(false)
        {
            let message = "Mainstay has no sandbox for servers";
            let hint = "take the key out if the server may run without one";
            self.report.error_with_hint(&node.place, message, hint);
        }
        let is_sandboxed = |node: &Node<'_>| node.as_bool() == Some(true);
        if self.fields.peek("sandbox").is_some_and(is_sandboxed)
            && let Some(node) = self.fields.take("sandbox")
        {
            let message = "Mainstay has no sandbox for servers";
            let hint = "take the key out if the server may run without one";
            self.report.error_with_hint(&node.place, message, hint);
        }
        StdioLaunch {
            command: command.unwrap_or_default(),
            args,
            env: self.scope.env.clone(),
            unset: self.unset.clone(),
            cwd,
            inherit_env: inherit_env.unwrap_or_default(),
            // Set when the preset is read.
            path_order: PathOrder::default(),
        }
    }

    /// Reads `cwd`. A missing folder is only a warning, because it may be created later.
    fn cwd(&mut self) -> Option<PathBuf> {
        let node = self.fields.take("cwd")?;
        let text = self.text(&node)?;
        let cwd = self.resolved(&node.place, self.scope.path(&text))?;
        let scope = &self.scope;
        if scope.references == References::Replaced && !scope.environment.has_folder(&cwd) {
            let message = "there is no such folder; the server cannot start without it";
            self.report.warn(&node.place, message);
        }
        Some(cwd)
    }

    fn check_command(
        &mut self,
        place: &KeyPath,
        command: &str,
        is_reference: bool,
        args: &[String],
        cwd: Option<&Path>,
    ) {
        if self.scope.is_open(command) {
            return;
        }
        let (first, rest) = command.trim().split_once(char::is_whitespace).unzip();
        if let (Some(first), Some(rest)) = (first, rest)
            && !is_program_of_windows(command.trim())
        {
            let message = "a command is a program without its arguments";
            // Do not quote the arguments, or a command that was a reference: both may be secret.
            let count = rest.split_whitespace().count();
            let hint = if is_reference {
                format!("put what follows its first word into `args`, {count} of them")
            } else {
                format!("put what follows {first:?} into `args`, {count} of them")
            };
            // A program's folder may have blanks in its name.
            if first.contains(['/', '\\']) {
                self.report.warn_with_hint(place, message, Some(hint));
            } else {
                self.report.error_with_hint(place, message, hint);
            }
        }
        match self.starts_mainstay(command, args, cwd) {
            Some(true) => {
                let message = "this starts Mainstay on this same file, which would start it again";
                let hint = "take the entry out: clients have it, Mainstay does not";
                self.report.error_with_hint(place, message, hint);
            }
            Some(false) => {
                let message = "this starts another Mainstay";
                let hint = "it is refused if that one reads this file";
                self.report
                    .warn_with_hint(place, message, Some(hint.to_owned()));
            }
            None => {}
        }
    }

    /// Returns `None` if the command does not start Mainstay. Otherwise, true if that Mainstay would
    /// read this file.
    fn starts_mainstay(&self, command: &str, args: &[String], cwd: Option<&Path>) -> Option<bool> {
        if programs::program_name(command) != "mainstay"
            || self.scope.references == References::Kept
        {
            return None;
        }
        let mut rest = args.iter();
        let (mut serves, mut file) = (false, None);
        while let Some(arg) = rest.next() {
            match arg.split_once('=') {
                Some(("--config", path)) => file = Some(path),
                _ if arg == "--config" => file = rest.next().map(String::as_str),
                _ => serves |= matches!(arg.as_str(), "mcp" | "serve"),
            }
        }
        if !serves {
            return None;
        }
        let read = match file {
            // A relative path starts at the working folder of that Mainstay.
            Some(path) => cwd.map_or_else(|| path.into(), |cwd| cwd.join(path)),
            None => {
                let world = ChildEnvironment(&self.scope);
                locate(None, &world)?.path().to_owned()
            }
        };
        Some(read == self.file)
    }

    fn args(&mut self) -> Vec<String> {
        let Some(node) = self.fields.take("args") else {
            return Vec::new();
        };
        let Some(elements) = node.elements() else {
            let hint = format!("found {}", node.kind());
            let message = format!("Server {}: args must be an array", self.label);
            self.report.error_with_hint(&node.place, message, hint);
            return Vec::new();
        };
        elements.filter_map(|node| self.text(&node)).collect()
    }

    fn inherit_env(&mut self, node: &Node<'_>) -> Option<InheritEnv> {
        match node.as_bool() {
            Some(true) => Some(InheritEnv::Process),
            Some(false) => Some(InheritEnv::None),
            None => node.word(
                self.report,
                &[
                    ("process", InheritEnv::Process),
                    ("loginShell", InheritEnv::LoginShell),
                    ("none", InheritEnv::None),
                ],
            ),
        }
    }

    fn http(&mut self, transport: HttpTransport, absent: &str) -> HttpLaunch {
        let nodes: Vec<_> = URL_KEYS
            .into_iter()
            .filter_map(|key| self.fields.take(key))
            .collect();
        // A file for several clients may have the same URL under two keys.
        if let Some(other) = nodes.iter().find(|node| node.as_str() != nodes[0].as_str()) {
            let message = format!(
                "differs from {}, and a server has one URL",
                nodes[0].place.path
            );
            self.report.error(&other.place, message);
        }
        let url = self.required(nodes.into_iter().next(), &URL_KEYS, absent);
        let url = url
            .and_then(|(place, url)| {
                self.look_for_our_own(&place, &url);
                self.checked_url(&place, url)
            })
            .unwrap_or_default();
        let mut members = self.members("headers");
        members.extend(self.request_init());
        let mut headers = self.headers_of(members);
        self.add_bearer_token(&mut headers);
        let helper = self.headers_helper();
        let has_credentials =
            helper.is_some() || headers.iter().any(|(name, _)| name == "authorization");
        let login = self.login(has_credentials);
        self.check_sign_in(has_credentials);
        let network = self.network(&url);
        for key in [
            "command",
            "args",
            "cwd",
            "inheritEnv",
            "envFile",
            "sandboxEnabled",
        ] {
            self.unused(key, "not used by a remote server");
        }
        HttpLaunch {
            url,
            headers,
            transport,
            sign_in: helper.unwrap_or(login),
            network,
        }
    }

    fn look_for_our_own(&mut self, place: &KeyPath, url: &str) {
        let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if matches!(
            authority,
            "127.0.0.1:7420" | "localhost:7420" | "[::1]:7420"
        ) {
            let message = "Mainstay itself listens at this address, unless it is told otherwise";
            let hint = "a Mainstay that is led back to itself refuses the server";
            self.report
                .warn_with_hint(place, message, Some(hint.to_owned()));
        }
    }

    /// Reports a way of signing in that Mainstay does not support. If the entry has its own
    /// credentials, this is only a warning.
    fn check_sign_in(&mut self, has_credentials: bool) {
        let node = self.fields.take("authProviderType");
        let Some(node) = node.filter(|node| !is_off(node)) else {
            return;
        };
        match node.as_str() {
            // Gemini CLI's name for OAuth discovery, which Mainstay does without a key.
            Some("dynamic_discovery") => {}
            _ if has_credentials => {
                let message = "not used: the entry has credentials of its own";
                self.report.warn(&node.place, message);
            }
            _ => {
                let message = "Mainstay does not know this way to sign in";
                let hint =
                    "get a token in another way, and give it as `bearerToken` or in `headers`";
                self.report.error_with_hint(&node.place, message, hint);
            }
        }
    }

    /// The headers in `requestInit`, a key of the SDK for TypeScript.
    fn request_init(&mut self) -> Vec<Member<'e>> {
        let node = self.fields.take("requestInit");
        let Some(mut fields) = node.and_then(|node| Fields::open(&node, self.report)) else {
            return Vec::new();
        };
        let headers = fields.take("headers");
        fields.finish(self.report);
        headers
            .and_then(|node| node.distinct_members(self.report))
            .unwrap_or_default()
    }

    pub fn headers(&mut self) -> Vec<(String, Secret)> {
        let members = self.members("headers");
        self.headers_of(members)
    }

    fn headers_of(&mut self, members: Vec<Member<'e>>) -> Vec<(String, Secret)> {
        let mut headers: Vec<(String, Secret)> = Vec::new();
        let mut used_names = HashSet::new();
        for Member {
            key,
            key_place,
            node,
        } in members
        {
            let Some(value) = self.scalar(&node) else {
                continue;
            };
            let name = match http::check_header(key, &value) {
                Ok(name) => name,
                Err(fault) => {
                    let place = if fault == http::InvalidHeader::Name {
                        &key_place
                    } else {
                        &node.place
                    };
                    self.report.error(place, fault.to_string());
                    continue;
                }
            };
            if http::is_ours(&name) {
                self.report
                    .warn(&key_place, "Mainstay sets this header itself; ignored");
            } else if !used_names.insert(name.clone()) {
                self.report
                    .error(&key_place, "duplicate header; case does not count");
            } else {
                headers.push((name, Secret::new(value)));
            }
        }
        headers
    }

    /// Adds the bearer token to the headers. An empty token means none.
    fn add_bearer_token(&mut self, headers: &mut Vec<(String, Secret)>) {
        let Some(node) = self.fields.take("bearerToken") else {
            return;
        };
        let Some(token) = self.text(&node).filter(|token| !token.is_empty()) else {
            return;
        };
        let value = format!("Bearer {token}");
        match http::check_header("authorization", &value) {
            Err(fault) => self.report.error(&node.place, fault.to_string()),
            Ok(name) if headers.iter().any(|(set, _)| *set == name) => {
                self.report
                    .error(&node.place, "`headers` has an authorization already");
            }
            Ok(name) => headers.push((name, Secret::new(value))),
        }
    }
}

/// True if the command is one Windows path without arguments. Its folders may have blanks in their
/// names, such as `C:\Program Files\nodejs\node.exe`.
fn is_program_of_windows(command: &str) -> bool {
    const ENDINGS: [&str; 4] = [".exe", ".cmd", ".bat", ".com"];
    let has_drive = matches!(command.as_bytes(), [drive, b':', b'\\' | b'/', ..] if drive.is_ascii_alphabetic());
    let lower = command.to_ascii_lowercase();
    let ends_within = |ending: &str| {
        let mut after = lower.split(ending).skip(1);
        after.any(|rest| rest.starts_with(char::is_whitespace))
    };
    has_drive
        && ENDINGS.iter().any(|ending| lower.ends_with(ending))
        && !ENDINGS.iter().any(|ending| ends_within(ending))
}
