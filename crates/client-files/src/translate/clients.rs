//! Translates keys that have a special meaning in one client.

use serde_json::{Map, Value};

use super::{Reading, UNKNOWN, Unit, has_seconds, is_empty};
use crate::client::ClientKind;

impl Reading<'_> {
    /// Translates a key. Returns `false` if the key has no special meaning in this client.
    pub(super) fn take_client_key(
        &mut self,
        key: &str,
        value: &Value,
        members: &Map<String, Value>,
    ) -> bool {
        match self.client {
            ClientKind::Goose => return self.take_goose_key(key, value, members),
            ClientKind::Codex => return self.take_codex_key(key, value, members),
            ClientKind::LibreChat => return self.take_librechat_key(key, value),
            ClientKind::Zed => return self.take_zed_key(key, value),
            client if client.is_of_opencode() => match key {
                "environment" => self.env(key, value),
                "timeout" => self.request_timeout(key, value),
                _ => return false,
            },
            ClientKind::Continue => match key {
                "connectionTimeout" => self.connect_timeout(key, value, Unit::Milliseconds),
                "requestOptions" => self.request_options(key, value),
                _ => return false,
            },
            // The rules of a sandbox apply only while it is enabled.
            ClientKind::VsCode | ClientKind::VsCodeInsiders
                if key == "sandbox"
                    && members.get("sandboxEnabled") != Some(&Value::Bool(true)) =>
            {
                self.keep(key, value);
            }
            ClientKind::Unknown => match key {
                "anythingllm" => self.anythingllm(key, value),
                "timeout" if has_seconds(members) => self.timeout(key, value, Unit::Seconds),
                _ => return false,
            },
            _ => return false,
        }
        true
    }

    fn take_goose_key(&mut self, key: &str, value: &Value, members: &Map<String, Value>) -> bool {
        match key {
            "type" => self.goose_type(value),
            "cmd" => self.command(key, value),
            "uri" => self.url(key, value, members),
            "env_keys" => self.env_keys(value),
            "available_tools" if is_empty(value) => self.honoured(key),
            "available_tools" => self.tools(key, "allowedTools", value),
            "name" | "display_name" | "bundled" | "description" => self.keep(key, value),
            _ => return false,
        }
        true
    }

    fn take_codex_key(&mut self, key: &str, value: &Value, members: &Map<String, Value>) -> bool {
        match key {
            "startup_timeout_sec" => self.connect_timeout(key, value, Unit::Seconds),
            "startup_timeout_ms" if members.contains_key("startup_timeout_sec") => {
                let text = "`startup_timeout_sec` stands beside it and counts";
                self.keep_and_report(key, value, text);
            }
            "startup_timeout_ms" => self.connect_timeout(key, value, Unit::Milliseconds),
            "experimental_environment" => {
                let text = "Codex may start it on another machine, and Mainstay starts it here";
                self.keep_and_report(key, value, text);
            }
            "tool_timeout_sec" => self.timeout(key, value, Unit::Seconds),
            "http_headers" => self.headers(key, value),
            "env_http_headers" => self.env_headers(key, value),
            "bearer_token_env_var" => self.token_variable(key, value),
            "env_vars" => self.inherited(key, value),
            "tools" | "required" | "default_tools_approval_mode" => self.keep(key, value),
            _ => return false,
        }
        true
    }

    fn take_librechat_key(&mut self, key: &str, value: &Value) -> bool {
        match key {
            "initTimeout" => self.connect_timeout(key, value, Unit::Milliseconds),
            "startup" => self.flag(key, "autoStart", value),
            "apiKey" => self.api_key(key, value),
            "customUserVars" => {
                let text =
                    "what LibreChat asks of each of its users has to stand in the entry itself";
                self.unsupported(key, value, text);
            }
            "proxy" => self.text(key, "proxy", value),
            _ => return false,
        }
        true
    }

    fn take_zed_key(&mut self, key: &str, value: &Value) -> bool {
        match key {
            "source" => self.source(value),
            "remote" if value == false => self.keep(key, value),
            "remote" => {
                let text =
                    "Zed starts it on the machine of a remote project, and Mainstay starts it here";
                self.keep_and_report(key, value, text);
            }
            "settings" => self.extension_settings(value),
            _ => return false,
        }
        true
    }

    /// Reads the object with AnythingLLM's special keys.
    fn anythingllm(&mut self, key: &str, value: &Value) {
        let Value::Object(members) = value else {
            return self.unread(key, value, "an object");
        };
        for (inner, value) in members {
            let place = format!("{key}.{inner}");
            match inner.as_str() {
                "autoStart" => self.flag(&place, "autoStart", value),
                "suppressedTools" => self.tools(&place, "disabledTools", value),
                _ => self.keep_and_report(&place, value, UNKNOWN),
            }
        }
    }
}
