//! Hostile text of servers, clients, files and registries must be escaped before it reaches a
//! terminal.

mod commands;
mod screens;
mod text;

use mainstay_testkit::Home;
use serde_json::json;

use self::text::HOSTILE;

/// A configuration with a hostile server and a server whose failure has a hostile reason. May add a
/// remote server.
fn servers(home: &Home, remote: Option<String>) -> String {
    let program = fake_server::binary();
    let hostile = HOSTILE.as_str();
    let property = json!({hostile: {"type": hostile, "description": hostile, "enum": [hostile]}});
    let schema =
        json!({"type": "object", "title": hostile, "properties": property, "required": [hostile]});
    let tool = |name: &str| {
        json!({"name": name, "title": hostile, "description": format!("{hostile}\n{hostile}"), "inputSchema": schema,
            "annotations": {"title": hostile}})
        .to_string()
    };
    let prompt = json!({"name": format!("p{hostile}"), "description": hostile,
        "arguments": [{"name": hostile, "description": hostile, "required": true}]});
    let mut config = json!({"ownTools": ["control"], "mcpServers": {
        "evil": {
            "command": program,
            "serverRequests": "queue",
            "args": [
                "--taint", hostile, "--stderr", hostile, "--instructions", hostile, "--name", hostile,
                "--tool", tool(&format!("t{hostile}")), "--tool", tool("plain"), "--prompt", prompt.to_string(),
                "--resource", format!("fake://{hostile}"), "--template", format!("fake://{hostile}/{{x}}"),
            ],
            "env": {"SHOWN": hostile},
        },
        "dead": {"command": program, "args": ["--initialize-error", "--noise", "--taint", hostile, "--stderr", hostile]},
    }});
    if let Some(url) = remote {
        config["mcpServers"]["remote"] = json!({"url": url});
    }
    home.file("servers.json", &config.to_string())
}

/// True if a text contains hostile text in escaped form.
fn mentions_hostile_text(text: &str) -> bool {
    ["\\u{9b}", "\\u009b", "\\x9b"]
        .iter()
        .any(|escape| text.contains(escape))
}
