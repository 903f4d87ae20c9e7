//! Translates the keys of a server that uses HTTP: its URL, its transport, its headers.

use mainstay_config::TransportWord;
use serde_json::{Map, Value, json};

use super::{Reading, UNKNOWN, is_off};
use crate::read::KeyFate;

/// Keys with which clients configure how they sign in.
pub(super) const SIGN_IN: [&str; 15] = [
    "auth",
    "authProviderType",
    "oauth",
    "oauthClientId",
    "oauthClientSecret",
    "oauthGrantType",
    "oauthPublicClient",
    "oauthScopes",
    "oauth_headers",
    "oauth_resource",
    "obo",
    "requiresOAuth",
    "scopes",
    "targetAudience",
    "targetServiceAccount",
];

impl Reading<'_> {
    pub(super) fn url(&mut self, key: &str, value: &Value, members: &Map<String, Value>) {
        let Some(text) = value.as_str() else {
            return self.unread(key, value, "a URL");
        };
        // In Gemini CLI `url` means HTTP+SSE, and `httpUrl` overrides it.
        let has_http = members.get("httpUrl").is_some_and(Value::is_string);
        if self.client.is_of_gemini() && key == "url" && has_http {
            return self.keep_and_report(key, value, "`httpUrl` stands beside it and counts");
        }
        let text = self.ours(key, text);
        if let Some(earlier_url) = self.read.entry.get("url")
            && *earlier_url != text
        {
            return self.keep_and_report(key, value, "another URL stands beside it and counts");
        }
        let scheme = text
            .split_once("://")
            .map(|(scheme, _)| scheme.to_lowercase());
        if matches!(scheme.as_deref(), Some("ws" | "wss")) {
            self.disable();
            self.report(key, "Mainstay speaks no WebSocket: the server is disabled");
            return self.set("url", text);
        }
        self.honoured(key);
        self.set("url", text);
        let stated = ["type", "transport", "transportType", "serverType"];
        let is_stated = stated.iter().any(|key| members.contains_key(*key));
        match (self.client, key) {
            (client, "url") if client.is_of_gemini() && !is_stated => self.set("type", "sse"),
            (client, _) if !is_stated && client.assumes_sse() => {
                let text = format!("{client} takes a URL without a type for one of HTTP+SSE");
                self.note(key, KeyFate::Honoured, text);
                self.set("type", "sse");
            }
            (_, "httpUrl") if !is_stated => self.set("type", "http"),
            _ => {}
        }
    }

    pub(super) fn transport(&mut self, key: &str, value: &Value) {
        let Some(word) = value.as_str() else {
            return self.unread(key, value, "a word");
        };
        match TransportWord::parse(word, key) {
            // The key adds nothing, because the command or the URL decides.
            Some(TransportWord::Stdio | TransportWord::Remote) => self.honoured(key),
            Some(TransportWord::Sse) => {
                self.honoured(key);
                self.set("type", "sse");
            }
            Some(TransportWord::StreamableHttp) => {
                self.honoured(key);
                // VS Code writes `http` for both transports. Another key distinguishes them.
                let earlier_type = self.read.entry.get("type");
                if earlier_type.is_none_or(|earlier_type| earlier_type != "sse") {
                    self.set("type", "http");
                }
            }
            None => {
                let text = format!("Mainstay speaks no {word:?}");
                self.unsupported_and_disabled(key, value, text);
            }
        }
    }

    pub(super) fn headers(&mut self, key: &str, value: &Value) {
        self.pairs(key, "headers", value);
    }

    /// Reads headers whose values are the names of variables.
    pub(super) fn env_headers(&mut self, key: &str, value: &Value) {
        let Value::Object(members) = value else {
            return self.unread(key, value, "headers with names of variables");
        };
        self.honoured(key);
        let mut texts = Map::new();
        for (name, value) in members {
            match value.as_str() {
                Some(variable) => {
                    texts.insert(name.clone(), format!("${{{variable}}}").into());
                }
                None => self.unread(&format!("{key}.{name}"), value, "the name of a variable"),
            }
        }
        match self
            .read
            .entry
            .get_mut("headers")
            .and_then(Value::as_object_mut)
        {
            Some(present) => present.extend(texts),
            None => self.set("headers", texts),
        }
    }

    pub(super) fn token_variable(&mut self, key: &str, value: &Value) {
        match value.as_str() {
            Some(variable) => {
                self.honoured(key);
                self.set("bearerToken", format!("${{{variable}}}"));
            }
            None => self.unread(key, value, "the name of a variable"),
        }
    }

    /// Reads `requestOptions` of Continue, or `requestInit` of the SDK.
    pub(super) fn request_options(&mut self, key: &str, value: &Value) {
        let Value::Object(members) = value else {
            return self.unread(key, value, "an object");
        };
        self.honoured(key);
        for (inner, value) in members {
            let place = format!("{key}.{inner}");
            if inner == "headers" {
                self.headers(&place, value);
            } else {
                self.keep_and_report(&place, value, UNKNOWN);
            }
        }
    }

    /// Translates LibreChat's API key into the header that LibreChat sends.
    pub(super) fn api_key(&mut self, key: &str, value: &Value) {
        let text = |name: &str| value.get(name).and_then(Value::as_str);
        let header = match (text("source"), text("key"), text("authorization_type")) {
            (Some("admin"), Some(secret), Some("bearer")) => {
                Some(("Authorization", format!("Bearer {secret}")))
            }
            (Some("admin"), Some(secret), Some("basic")) => {
                Some(("Authorization", format!("Basic {secret}")))
            }
            (Some("admin"), Some(secret), Some("custom")) => Some((
                text("custom_header").unwrap_or("X-Api-Key"),
                secret.to_owned(),
            )),
            _ => None,
        };
        match header {
            Some((name, secret)) => self.headers(key, &json!({ name: secret })),
            None => self.unsupported(
                key,
                value,
                "what LibreChat asks of each of its users has to stand in `headers`",
            ),
        }
    }

    pub(super) fn has_credentials(&self) -> bool {
        let headers = self.read.entry.get("headers").and_then(Value::as_object);
        let mut names = headers.into_iter().flat_map(Map::keys);
        ["bearerToken", "headersHelper"]
            .iter()
            .any(|key| self.read.entry.contains_key(*key))
            || names.any(|name| name.eq_ignore_ascii_case("authorization"))
    }

    /// Marks the sign-in keys as kept. A server with a token needs no sign-in.
    pub(super) fn needs_no_sign_in(&mut self) {
        for note in &mut self.read.notes {
            if SIGN_IN.contains(&&*note.key) && note.fate == KeyFate::Unsupported {
                note.fate = KeyFate::Kept;
                note.text = format!("kept for {}", self.client);
            }
        }
    }

    /// Translates a command that prints headers. Mainstay runs it as Claude Code does, but in another
    /// folder.
    pub(super) fn headers_helper(&mut self, key: &str, value: &Value) {
        if is_off(value) {
            return self.keep(key, value);
        }
        let command = value.as_str().or_else(|| value["command"].as_str());
        let Some(command) = command else {
            return self.unread(key, value, "a command line");
        };
        if command.trim_start().starts_with('.') {
            let text =
                "Mainstay runs it in another folder: write its whole path in the client's file";
            return self.unsupported(key, value, text);
        }
        self.honoured(key);
        self.set(key, value.clone());
    }

    /// Translates how a client logs in to a server. Does not copy the client's tokens.
    pub(super) fn sign_in(&mut self, key: &str, value: &Value) {
        if is_off(value) {
            return self.keep(key, value);
        }
        let is_understood = match (key, value) {
            ("oauth" | "auth", Value::Object(members)) => {
                for (name, value) in members {
                    if let Some(setting) = login_setting(name) {
                        self.set_login(key, setting, value);
                    }
                }
                if members.contains_key("redirectUri") && members.contains_key("clientId") {
                    let text = "its `redirectUri` is the client's: let the registration have Mainstay's, too (docs/login.md)";
                    self.report(key, text);
                }
                true
            }
            ("oauth" | "requiresOAuth", Value::Bool(true)) | ("oauthPublicClient", _) => true,
            ("auth", Value::String(text)) => text == "oauth",
            ("authProviderType", Value::String(text)) => text == "dynamic_discovery",
            ("oauthClientId", Value::String(_)) => self.set_login(key, "clientId", value),
            ("oauthClientSecret", Value::String(_)) => self.set_login(key, "clientSecret", value),
            ("oauthScopes" | "scopes", Value::String(_) | Value::Array(_)) => {
                self.set_login(key, "scopes", value)
            }
            ("oauthGrantType", Value::String(grant)) => match grant.as_str() {
                "authorization_code" => true,
                "client_credentials" => self.set_login(key, "grant", &json!("clientCredentials")),
                _ => false,
            },
            _ => false,
        };
        if is_understood {
            self.honoured(key);
        } else {
            let text = "Mainstay does not know this way to sign in: give a token as `bearerToken`";
            self.unsupported(key, value, text);
        }
    }

    /// Sets a member of `oauth`, with references translated. Returns `true`.
    fn set_login(&mut self, key: &str, setting: &str, value: &Value) -> bool {
        let value = match value.as_str() {
            Some(text) => json!(self.ours(key, text)),
            None => value.clone(),
        };
        let oauth = self.read.entry.get("oauth").cloned();
        let mut oauth = oauth.unwrap_or_else(|| json!({}));
        oauth[setting] = value;
        self.set("oauth", oauth);
        true
    }
}

/// Our key for a member of a client's `oauth` or `auth`. `None` for values that discovery finds, and for
/// tokens.
fn login_setting(name: &str) -> Option<&'static str> {
    Some(match name {
        "clientId" | "client_id" | "CLIENT_ID" => "clientId",
        "clientSecret" | "client_secret" | "CLIENT_SECRET" => "clientSecret",
        "scopes" | "scope" => "scopes",
        "callbackPort" => "callbackPort",
        "authServerMetadataUrl" => "authServerMetadataUrl",
        "clientMetadataUrl" => "clientMetadataUrl",
        "issuer" => "issuer",
        _ => return None,
    })
}
