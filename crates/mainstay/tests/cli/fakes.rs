//! Configurations in which all servers are fakes.

use mainstay_testkit::Home;
use serde_json::{Map, Value, json};

/// A configuration of fakes. Each has a name and flags.
pub fn fakes(home: &Home, servers: &[(&str, &[&str])]) -> String {
    let program = fake_server::binary();
    let entry = |(name, flags): &(&str, &[&str])| {
        (
            (*name).to_owned(),
            json!({"command": program, "args": flags}),
        )
    };
    let servers: Map<String, Value> = servers.iter().map(entry).collect();
    home.file("servers.json", &json!({"mcpServers": servers}).to_string())
}
