//! How a server is reached: which transport, and what that one needs.

use std::collections::HashSet;

use super::{
    HttpLaunch, HttpTransport, InheritEnv, Launch, PathOrder, Secret, StdioLaunch,
    entry::Entry,
    http,
    node::{Member, Node},
};

const URL_KEYS: [&str; 4] = ["url", "serverUrl", "httpUrl", "remoteUrl"];

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stdio,
    Http(HttpTransport),
}

impl Kind {
    /// Any spelling that is out there; hyphens, underscores and case do not count.
    fn parse(word: &str, key: &str) -> Option<Self> {
        let word = word.replace(['-', '_'], "").to_ascii_lowercase();
        Some(match word.as_str() {
            "stdio" | "local" => Self::Stdio,
            "sse" => Self::Http(HttpTransport::Sse),
            "http" | "streamablehttp" | "remotestreamable" => {
                Self::Http(HttpTransport::StreamableHttp)
            }
            // In [000]'s `serverType` it means SSE; elsewhere it only says "not a process".
            "remote" if key == "serverType" => Self::Http(HttpTransport::Sse),
            "remote" => Self::Http(HttpTransport::Detect),
            _ => return None,
        })
    }

    /// What two statements say together, unless they contradict each other.
    fn and(self, other: Self) -> Option<Self> {
        match (self, other) {
            (one, other) if one == other => Some(one),
            (Self::Http(HttpTransport::Detect), pinned @ Self::Http(_))
            | (pinned @ Self::Http(_), Self::Http(HttpTransport::Detect)) => Some(pinned),
            _ => None,
        }
    }
}

impl Entry<'_, '_, '_> {
    pub fn launch(&mut self, require_transport: bool) -> Launch {
        // [000]'s errors are worded by its own key.
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
            Kind::Stdio => {
                let absent = match server_type {
                    Some(_) => "command required for local server".to_owned(),
                    None => format!("Server {}: command is required", self.label),
                };
                Launch::Stdio(self.stdio(&absent))
            }
            Kind::Http(transport) => {
                let absent = match server_type {
                    Some(word) => format!("remoteUrl required for {word} server"),
                    None => format!("Server {}: url is required", self.label),
                };
                Launch::Http(self.http(transport, &absent))
            }
        }
    }

    /// What the entry says of its transport, if anything.
    fn stated(&mut self) -> Option<Kind> {
        let mut stated: Option<Kind> = None;
        for key in ["type", "transport", "serverType"] {
            let Some(node) = self.fields.take(key) else {
                continue;
            };
            // After an unknown word the rest of the entry is read by what it has.
            let kind = self
                .known_word(&node, key)
                .unwrap_or_else(|| self.inferred());
            let together = stated.map_or(Some(kind), |stated| stated.and(kind));
            if together.is_none() {
                let message = "contradicts what is said of the transport elsewhere in the entry";
                self.report.error(&node.place, message);
            }
            stated = together.or(stated);
        }
        stated
    }

    fn known_word(&mut self, node: &Node<'_>, key: &str) -> Option<Kind> {
        let word = node.string(self.report)?;
        let kind = Kind::parse(word, key);
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

    fn inferred(&mut self) -> Kind {
        let remote = URL_KEYS.iter().any(|key| self.fields.has(key));
        if remote && self.fields.has("command") {
            let message = "`command` and a URL are both given";
            let hint = "say which is meant by `type`";
            self.report
                .error_with_hint(&self.fields.place, message, hint);
        }
        match remote {
            // Gemini's key for what it does not call `url`, which is SSE there.
            true if self.fields.has("httpUrl") => Kind::Http(HttpTransport::StreamableHttp),
            true => Kind::Http(HttpTransport::Detect),
            false => Kind::Stdio,
        }
    }

    fn stdio(&mut self, absent: &str) -> StdioLaunch {
        let command = self.fields.take("command");
        let command = self
            .required(command, absent)
            .map(|(_, text)| text)
            .unwrap_or_default();
        let args = self.args();
        let cwd = self.fields.take("cwd").and_then(|node| {
            let text = self.text(&node)?;
            self.resolved(&node.place, self.scope.path(&text))
        });
        let inherit_env = self
            .fields
            .take("inheritEnv")
            .and_then(|node| self.inherit_env(&node));
        for key in URL_KEYS.into_iter().chain(["headers", "bearerToken"]) {
            self.unused(key, "not used by a stdio server");
        }
        StdioLaunch {
            command,
            args,
            env: self.scope.env.clone(),
            cwd,
            inherit_env: inherit_env.unwrap_or_default(),
            // The preset says it, which is read later.
            path_order: PathOrder::default(),
        }
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
        // One file for several clients says the same thing under two keys; that is fine.
        if let Some(other) = nodes.iter().find(|node| node.as_str() != nodes[0].as_str()) {
            let message = format!(
                "differs from {}, and a server has one URL",
                nodes[0].place.path
            );
            self.report.error(&other.place, message);
        }
        let url = self.required(nodes.into_iter().next(), absent);
        let url = url
            .and_then(|(place, url)| self.checked_url(&place, url))
            .unwrap_or_default();
        let mut headers = self.headers();
        self.add_bearer_token(&mut headers);
        for key in ["command", "args", "cwd", "inheritEnv"] {
            self.unused(key, "not used by a remote server");
        }
        HttpLaunch {
            url,
            headers,
            transport,
        }
    }

    pub fn headers(&mut self) -> Vec<(String, Secret)> {
        let mut headers: Vec<(String, Secret)> = Vec::new();
        let mut taken = HashSet::new();
        for Member {
            key,
            key_place,
            node,
        } in self.members("headers")
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
            } else if !taken.insert(name.clone()) {
                self.report
                    .error(&key_place, "duplicate header; case does not count");
            } else {
                headers.push((name, Secret::new(value)));
            }
        }
        headers
    }

    /// An empty token means none (E4).
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
            Ok(name) if headers.iter().any(|(known, _)| *known == name) => {
                self.report
                    .error(&node.place, "`headers` has an authorization already");
            }
            Ok(name) => headers.push((name, Secret::new(value))),
        }
    }
}
