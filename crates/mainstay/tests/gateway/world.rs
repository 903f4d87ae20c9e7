//! A gateway with a configuration file, and checks of REST answers.

use std::sync::Arc;

use http::StatusCode;
use mainstay_core::config::Secret;
use mainstay_doorway::token_limits::LimitsOfTokens;
use mainstay_gateway::GatewayOptions;
use mainstay_platform::environment::ConfigurationSource;
use mainstay_tokens::Tokens;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{backend::Backend, gateway::Gateway, rest_client::TOKEN};

/// A secret that no answer may contain.
pub const SECRET: &str = "s3cret-of-the-tests";

/// A configuration file. Gateways can be started that read it.
pub struct TestConfig {
    pub folder: TempDir,
    name: &'static str,
}

impl TestConfig {
    pub fn new(name: &'static str, text: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        std::fs::write(folder.path().join(name), text).expect("written");
        Self { folder, name }
    }

    pub fn new_json(config: &Value) -> Self {
        Self::new("servers.json", &config.to_string())
    }

    /// Writes a new configuration to the file.
    pub fn write(&self, config: &Value) {
        std::fs::write(self.file(), config.to_string()).expect("written");
    }

    pub fn file(&self) -> std::path::PathBuf {
        self.folder.path().join(self.name)
    }

    pub fn text(&self) -> String {
        std::fs::read_to_string(self.folder.path().join(self.name)).expect("it is there")
    }

    pub fn value(&self) -> Value {
        serde_json::from_str(&self.text()).expect("JSON")
    }

    pub async fn run(&self) -> Gateway {
        self.run_with(GatewayOptions::default()).await
    }

    /// Starts a gateway with these options.
    pub async fn run_with(&self, options: GatewayOptions) -> Gateway {
        self.run_with_tokens(options, Tokens::from(Secret::new(TOKEN)))
            .await
    }

    /// Starts with these tokens of clients, and their limits.
    pub async fn run_with_tokens(&self, options: GatewayOptions, tokens: Tokens) -> Gateway {
        let origin = ConfigurationSource {
            flag: Some(self.folder.path().join(self.name)),
            ..ConfigurationSource::default()
        };
        let config = origin.load().expect("a usable file").config;
        let options = GatewayOptions {
            origin: Some(origin),
            token_limits: Some(Arc::new(LimitsOfTokens(tokens.clone()))),
            ..options
        };
        Gateway::run(&config, options, tokens, |address| address).await
    }
}

pub fn none() -> TestConfig {
    TestConfig::new_json(&json!({"mcpServers": {}}))
}

/// The entry of a backend, with these additional members.
pub fn entry_with(backend: &Backend, members: Value) -> Value {
    let mut entry = backend.entry.clone();
    let Value::Object(members) = members else {
        panic!("no members: {members}")
    };
    entry.as_object_mut().expect("an entry").extend(members);
    entry
}

/// The answer to a request. Fails if the status is not 200.
pub fn ok((status, answer): (StatusCode, Value)) -> Value {
    assert_eq!(status, StatusCode::OK, "{answer}");
    answer
}

pub fn refused(expected: StatusCode, error: &str, (status, answer): (StatusCode, Value)) -> Value {
    assert_eq!(
        (status, answer["error"].as_str()),
        (expected, Some(error)),
        "{answer}"
    );
    answer
}
