//! Reads an entry's switches, limits and times.

use std::time::Duration;

use mainstay_core::{
    config::{
        ALL_TOOLS, Isolation, Launch, PathOrder, Protocol, Root, Secret, ServerConfig, defaults,
    },
    era::{Era, Revision},
    ids::ServerName,
    lifecycle::Preset,
};
use serde_json::Value;

use crate::{
    foreign::dialect::Unit,
    read::{
        entry::EntryReader,
        fields::Fields,
        node::Node,
        policies::Policies,
        report::FindingReport,
        withheld::{ALLOWED_TOOLS, DISABLED_TOOLS, unmatched},
    },
    words::settings::{self, SettingValue},
};

impl<'e> EntryReader<'e, '_, '_> {
    pub fn options(&mut self, server: &mut ServerConfig, policies: Policies) {
        let desktop = policies.preset == Preset::Desktop;
        server.policy = policies.policy;
        server.call_retry = policies.call_retry;
        server.list_changed = policies.list_changed;
        server.server_requests = policies.server_requests;
        server.health_interval_stated = policies.health_interval_stated;
        server.withheld.strict_names = policies.strict_tool_names;
        if let Launch::Stdio(launch) = &mut server.launch
            && desktop
        {
            launch.path_order = PathOrder::StandardFirst;
        }
        server.isolation = policies.isolation;
        self.switches(server);
        self.times(server, desktop);
        if desktop {
            server.max_message_bytes = defaults::MAX_MESSAGE_BYTES_DESKTOP;
        }
        let isolation = self.fields.peek("isolation").cloned();
        settings::read(server, &mut self.fields, self.report);
        if let (Some(node), Some(Isolation::Session), Protocol::At(revision)) =
            (isolation, server.isolation, server.protocol)
            && revision.era() == Era::Modern
        {
            let message = format!(
                "has no effect with `protocol`: a server of {revision} keeps no sessions, and is shared"
            );
            self.report.warn(&node.place, message);
        }
        // The key of Warp.
        if self.boolean("start_on_launch") == Some(false) {
            server.auto_start = false;
        }
        // AnythingLLM keeps its own keys in an object.
        let anythingllm = self.fields.take("anythingllm").filter(Node::is_object);
        let starts = anythingllm
            .as_ref()
            .and_then(|node| node.member("autoStart"));
        if starts.and_then(|node| node.boolean(self.report)) == Some(false) {
            server.auto_start = false;
        }
        self.tools(server, anythingllm.as_ref());
        if let Some(node) = self.fields.take("roots") {
            let roots = node.array(self.report);
            server.roots = roots.iter().filter_map(|node| self.root(node)).collect();
        }
        if let Some(node) = self.fields.take("healthCheckUrl") {
            let url = self.text(&node).filter(|url| !url.is_empty());
            server.health_check_url = url
                .and_then(|url| self.checked_url(&node.place, url))
                .map(Secret::new);
        }
    }

    /// Reads the lists of allowed and hidden tools, under the keys of all programs. All lists apply
    /// together.
    fn tools(&mut self, server: &mut ServerConfig, anythingllm: Option<&Node<'_>>) {
        for key in [
            "disabled_prompts",
            "disabled_resources",
            "disabled_resourceTemplates",
            "include_tags",
            "exclude_tags",
        ] {
            if let Some(node) = self.fields.take(key).filter(|node| !node.is_empty()) {
                let message = "Mainstay hides tools only, by their names";
                let hint = "take the key out if clients may see what it hides";
                self.report.error_with_hint(&node.place, message, hint);
            }
        }
        let mut disabled = Vec::new();
        for key in DISABLED_TOOLS {
            if let Some(node) = self.fields.take(key) {
                self.warn_of_unmatched(&server.name, &node, None);
                disabled.extend(node.strings(self.report));
            }
        }
        if let Some(node) = anythingllm
            && let Some(tools) = node.member("suppressedTools")
        {
            self.warn_of_unmatched(&server.name, &tools, None);
            disabled.extend(tools.strings(self.report));
        }
        server.withheld.disabled = disabled.into();
        for key in ALLOWED_TOOLS {
            if let Some(node) = self.fields.take(key) {
                self.warn_of_unmatched(&server.name, &node, Some(ALL_TOOLS));
                server.withheld.allow(&node.strings(self.report));
            }
        }
    }

    /// Warns about names in a list of tools that cannot match a tool of the server. `all` is the text that
    /// stands for all tools.
    fn warn_of_unmatched(&mut self, server: &ServerName, list: &Node<'_>, all: Option<&str>) {
        for node in list.elements().into_iter().flatten() {
            if let Some(name) = node.as_str().filter(|name| Some(*name) != all)
                && let Some((message, hint)) = unmatched(server, name)
            {
                self.report.warn_with_hint(&node.place, message, hint);
            }
        }
    }

    fn switches(&mut self, server: &mut ServerConfig) {
        let enabled = self.boolean("enabled");
        if let Some(node) = self.fields.take("disabled")
            && let Some(disabled) = node.boolean(self.report)
        {
            if enabled == Some(disabled) {
                self.report.error(
                    &node.place,
                    "`enabled` and `disabled` contradict each other",
                );
            }
            server.enabled = !disabled;
        } else {
            server.enabled = enabled.unwrap_or(true);
        }
        // The key of Cherry Studio.
        if self.boolean("isActive") == Some(false) {
            server.enabled = false;
        }
    }

    fn times(&mut self, server: &mut ServerConfig, desktop: bool) {
        if let Some(timeout) = self.call_timeout(desktop) {
            server.call_timeout = timeout;
        }
        server.max_call_timeout = defaults::max_call_timeout(server.call_timeout);
        if let Some(node) = self.fields.take("maxTimeoutMs")
            && let Some(limit) = node.milliseconds(self.report)
        {
            if limit < server.call_timeout {
                let timeout = server.call_timeout.as_millis();
                self.report.error(
                    &node.place,
                    format!("below the timeout itself, which is {timeout} ms"),
                );
            }
            server.max_call_timeout = limit;
        }
    }

    /// Reads `timeout` in milliseconds or `timeout_s` in seconds. The upper limit of preset `desktop`
    /// applies to that preset only.
    fn call_timeout(&mut self, desktop: bool) -> Option<Duration> {
        let (milliseconds, seconds) = (self.fields.take("timeout"), self.fields.take("timeout_s"));
        match (milliseconds, seconds) {
            (Some(_), Some(node)) => {
                let message = "`timeout` (milliseconds) and `timeout_s` (seconds) are both given";
                self.report.error(&node.place, message);
                None
            }
            (Some(node), None) => {
                let Some(number) = node.as_number() else {
                    let message = format!("Server {}: timeout must be a number", self.label);
                    self.report.error_with_hint(
                        &node.place,
                        message,
                        format!("found {}", node.kind()),
                    );
                    return None;
                };
                if self.is_in_seconds(&node, number) {
                    return self.seconds(&node, number);
                }
                if number < 1000.0 || (desktop && number > 300_000.0) {
                    let message = format!(
                        "Server {}: timeout must be between 1000-300000ms",
                        self.label
                    );
                    let hint = "`timeout` is in milliseconds; `timeout_s` is in seconds";
                    self.report.error_with_hint(&node.place, message, hint);
                    return None;
                }
                node.seconds(number / 1000.0, self.report)
            }
            (None, Some(node)) => {
                let Some(number) = node.as_number() else {
                    self.report.error(
                        &node.place,
                        format!("expected a number, found {}", node.kind()),
                    );
                    return None;
                };
                self.seconds(&node, number)
            }
            (None, None) => None,
        }
    }

    /// Reads a limit in seconds.
    fn seconds(&mut self, node: &Node<'_>, number: f64) -> Option<Duration> {
        let limit = node.seconds(number, self.report)?;
        node.warn_of_short_limit(limit, "seconds", self.report);
        Some(limit)
    }

    /// True if a `timeout` is in seconds, as in Cline and related programs.
    fn is_in_seconds(&mut self, node: &Node<'_>, number: f64) -> bool {
        let is_short = (1.0..1000.0).contains(&number);
        // True for whole minutes, up to two hours, if the number is in seconds. A limit of so few
        // milliseconds is unlikely.
        let may_be_seconds = (1000.0..=7200.0).contains(&number) && number % 60.0 == 0.0;
        match self.scope.dialect.timeout {
            Unit::Seconds => true,
            Unit::Either if is_short => true,
            Unit::Either | Unit::Unknown if may_be_seconds => {
                let message = format!(
                    "taken as milliseconds, which is {} s; Cline and Roo Code have seconds here",
                    number / 1000.0
                );
                let hint = format!("write `timeout_s`: {number} for seconds");
                self.report.warn_with_hint(&node.place, message, Some(hint));
                false
            }
            Unit::Either | Unit::Unknown | Unit::Milliseconds => false,
        }
    }

    fn root(&mut self, node: &Node<'e>) -> Option<Root> {
        let (uri, name) = if node.is_object() {
            let mut fields = Fields::open(node, self.report)?;
            let (uri, name) = (fields.take("uri"), fields.take("name"));
            let name = name
                .and_then(|name| name.string(self.report))
                .map(str::to_owned);
            fields.finish(self.report);
            let Some(uri) = uri else {
                self.report.error(&node.place, "a root needs a `uri`");
                return None;
            };
            (uri, name)
        } else {
            (node.clone(), None)
        };
        let text = uri.string(self.report)?;
        if !text.contains("://") {
            self.report.error_with_hint(
                &uri.place,
                "a root is a URI",
                "such as file:///home/me/project",
            );
            return None;
        }
        Some(Root {
            uri: text.to_owned(),
            name,
        })
    }

    fn boolean(&mut self, key: &'static str) -> Option<bool> {
        self.fields.take(key)?.boolean(self.report)
    }
}

/// The words for [`Protocol`] in a configuration.
pub(crate) const PROTOCOLS: [&str; 8] = [
    "auto",
    "legacy",
    "modern",
    "2024-11-05",
    "2025-03-26",
    "2025-06-18",
    "2025-11-25",
    "2026-07-28",
];

impl SettingValue for Protocol {
    fn read(node: &Node<'_>, report: &mut FindingReport<'_>) -> Option<Self> {
        let revisions = Revision::ALL.map(|revision| (revision.as_str(), Self::At(revision)));
        let mut words = vec![
            ("auto", Self::Auto),
            ("legacy", Self::At(Revision::LATEST_LEGACY)),
            ("modern", Self::At(Revision::LATEST)),
        ];
        words.extend(revisions);
        node.word(report, &words)
    }

    fn file_value(&self) -> Value {
        match self {
            Self::Auto => "auto".into(),
            Self::At(revision) => revision.as_str().into(),
        }
    }
}
