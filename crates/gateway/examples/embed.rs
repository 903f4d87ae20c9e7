//! Keeps two MCP servers up and calls a tool of each, in a program of your own:
//!
//! ```console
//! $ cargo run -p mainstay-gateway --example embed -- path/to/an/mcp-server TOOL '{"its": "arguments"}'
//! ```
#![expect(clippy::print_stdout, reason = "an example prints what it does")]

use std::{env, error::Error, path::Path};

use mainstay_config::ConfigSource;
use mainstay_gateway::{Gateway, GatewayOptions};
use mainstay_platform::environment::Process;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let [program, tool, arguments] = arguments.as_slice() else {
        return Err("expected: PROGRAM TOOL ARGUMENTS".into());
    };
    let servers = serde_json::json!({"mcpServers": {
        "one": {"command": program},
        "two": {"command": program, "restart": {"maxAttempts": 3}},
    }});
    let source = ConfigSource::file(Path::new("servers.json"));
    let config = mainstay_config::parse(&servers.to_string(), &source, &Process)?.config;
    let gateway = Gateway::start(&config, GatewayOptions::default());
    gateway.registry.settled().await;
    for server in gateway.registry.servers() {
        let answer = gateway
            .call_tool(server.name.as_str(), tool, arguments)
            .await?;
        println!("{}: {answer}", server.name);
    }
    gateway.stop().await;
    Ok(())
}
