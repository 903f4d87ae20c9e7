use proptest::prelude::*;
use serde_json::json;

use super::*;

/// The name, the entry and the notes of the only server of a text.
fn one(text: &str) -> (String, Value, Vec<String>) {
    let mut read = pasted(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(read.servers.len(), 1, "{text}: {read:?}");
    let server = read.servers.swap_remove(0);
    (
        server.name.to_string(),
        Value::Object(server.entry),
        server.notes,
    )
}

fn check(text: &str, name: &str, entry: &Value) {
    let (found, read, _) = one(text);
    assert_eq!((found.as_str(), &read), (name, entry), "{text}");
}

#[test]
fn files_of_all_clients_are_read() {
    let files = json!({"command": "npx", "args": ["-y", "files"]});
    check(
        r#"{"mcpServers": {"fs": {"command": "npx", "args": ["-y", "files"]}}}"#,
        "fs",
        &files,
    );
    // Parts of files, as documentation shows them.
    for text in [
        "```json\n{\"fs\": {\"command\": \"npx\", \"args\": [\"-y\", \"files\"]}}\n```",
        "\"fs\": {\"command\": \"npx\", \"args\": [\"-y\", \"files\"]},",
        "\"mcpServers\": {\"fs\": {\"command\": \"npx\", \"args\": [\"-y\", \"files\",]}} // mine",
        "// mine\n{\"servers\": {\"fs\": {\"type\": \"stdio\", \"command\": \"npx\", \"args\": [\"-y\", \"files\"]}}}",
        "{\"mcp\": {\"servers\": {\"fs\": {\"command\": \"npx\", \"args\": [\"-y\", \"files\"]}}}}",
        "{\"mcp\": {\"fs\": {\"type\": \"local\", \"command\": [\"npx\", \"-y\", \"files\"]}}}",
        "{\"context_servers\": {\"fs\": {\"source\": \"custom\", \"command\": \"npx\", \"args\": [\"-y\", \"files\"]}}}",
        "{\"amp.mcpServers\": {\"fs\": {\"command\": \"npx\", \"args\": [\"-y\", \"files\"]}}}",
        "{\"servers\": [{\"name\": \"fs\", \"command\": \"npx\", \"args\": [\"-y\", \"files\"]}]}",
        "[{\"name\": \"fs\", \"command\": \"npx\", \"args\": [\"-y\", \"files\"]}]",
        "{\"a\": {\"b\": {\"mcpServers\": {\"fs\": {\"command\": \"npx\", \"args\": [\"-y\", \"files\"]}}}}}",
        "[mcp_servers.fs]\ncommand = \"npx\"\nargs = [\"-y\", \"files\"]\n",
        "model = \"o3\"\n[mcp_servers.fs]\ncommand = \"npx\"\nargs = [\"-y\", \"files\"]\n",
        "mcpServers:\n  - name: fs\n    command: npx\n    args: [\"-y\", files]\n",
        "- name: fs\n  command: npx\n  args: [\"-y\", files]\n",
        "mcpServers:\n  fs:\n    command: npx\n    args: [\"-y\", files]\n",
        "extensions:\n  fs:\n    type: stdio\n    cmd: npx\n    args: [\"-y\", files]\n    enabled: true\n",
        "fs:\n  cmd: npx\n  args: [\"-y\", files]\n  type: stdio\n",
    ] {
        check(text, "fs", &files);
    }
    check(
        r#"{"command": "npx", "args": ["-y", "files"]}"#,
        "files",
        &files,
    );
    check(
        r#"{"url": "https://mcp.example.com/mcp"}"#,
        "example",
        &json!({"url": "https://mcp.example.com/mcp"}),
    );
}

#[test]
fn our_own_words_stay() {
    let entry = json!({
        "command": "x", "env": {"A": "${A:-b}"}, "connectTimeoutMs": 5000, "restart": {"mode": "never"},
        "description": "mine",
    });
    check(
        &json!({"mcpServers": {"s": entry}}).to_string(),
        "s",
        &entry,
    );
    let (_, entry, notes) = one(
        r#"{"mcpServers": {"s": {"command": "x", "timeout": 60, "alwaysLoad": true, "odd": 1, "autoApprove": []}}}"#,
    );
    assert_eq!(
        entry,
        json!({"command": "x", "timeout_s": 60, "autoApprove": []})
    );
    assert_eq!(
        notes,
        [
            "timeout: taken as 60 seconds, for no server answers within 60 milliseconds",
            "odd: not known to Mainstay, which ignores it",
            "left out, for it means nothing here: alwaysLoad",
        ]
    );
}

#[test]
fn command_lines_are_read() {
    for (text, name, entry) in [
        (
            "npx -y @scope/thing --flag",
            "thing",
            json!({"command": "npx", "args": ["-y", "@scope/thing", "--flag"]}),
        ),
        (
            "$ KEY=a uvx mcp-server-git # mine",
            "git",
            json!({"command": "uvx", "args": ["mcp-server-git"], "env": {"KEY": "a"}}),
        ),
        (
            "claude mcp add files -e A=1 B='2 3' -- npx -y server /x",
            "files",
            json!({"command": "npx", "args": ["-y", "server", "/x"], "env": {"A": "1", "B": "2 3"}}),
        ),
        (
            "claude mcp add --transport http tracker https://h/mcp --header \"Authorization: Bearer $TOKEN\"",
            "tracker",
            json!({"type": "http", "url": "https://h/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}),
        ),
        (
            "claude mcp add --transport=sse --scope user t https://h/sse",
            "t",
            json!({"type": "sse", "url": "https://h/sse"}),
        ),
        (
            "claude mcp add-json w '{\"command\": \"npx\", \"args\": [\"w\"]}'",
            "w",
            json!({"command": "npx", "args": ["w"]}),
        ),
        (
            "codex mcp add docs --url https://h/mcp",
            "docs",
            json!({"url": "https://h/mcp"}),
        ),
        (
            "gemini mcp add thing node /x/thing.js --port 3",
            "thing",
            json!({"command": "node", "args": ["/x/thing.js", "--port", "3"]}),
        ),
        (
            "code --add-mcp '{\"name\":\"p\",\"command\":\"npx\",\"args\":[\"@playwright/mcp\"]}'",
            "p",
            json!({"command": "npx", "args": ["@playwright/mcp"]}),
        ),
        (
            "mainstay add --cwd /x files -- node a.js",
            "files",
            json!({"command": "node", "args": ["a.js"], "cwd": "/x"}),
        ),
        (
            "docker run -i --rm \\\n  -e KEY=1 \\\n  mcp/time",
            "time",
            json!({"command": "docker", "args": ["run", "-i", "--rm", "-e", "KEY=1", "mcp/time"]}),
        ),
        (
            "cd /opt/x && node build/index.js",
            "server",
            json!({"command": "node", "args": ["build/index.js"], "cwd": "/opt/x"}),
        ),
        (
            "export KEY=1\ngit clone https://x\nthing-mcp",
            "thing",
            json!({"command": "thing-mcp", "env": {"KEY": "1"}}),
        ),
        (
            " https://mcp.linear.app/sse \n",
            "linear",
            json!({"url": "https://mcp.linear.app/sse"}),
        ),
    ] {
        check(text, name, &entry);
    }
    let several = pasted("claude mcp add a -- npx a\nclaude mcp add a -- npx b\n").expect("two");
    let names: Vec<&str> = several
        .servers
        .iter()
        .map(|server| server.name.as_str())
        .collect();
    assert_eq!(names, ["a", "a-2"]);
    assert_eq!(several.format, "a command line of claude");
}

#[test]
fn what_is_to_be_done_is_noted() {
    let notes = |text: &str| one(text).2;
    assert_eq!(
        notes("docker run --rm -e TOKEN mcp/x"),
        [
            "docker run needs -i, or the server has no stdin",
            "TOKEN is passed on: give it in `env`"
        ]
    );
    assert_eq!(
        notes("node ./x-mcp.js"),
        ["it has a relative path: write the whole path, or give it a `cwd`"]
    );
    assert_eq!(
        notes(
            r#"{"a": {"command": "x", "env": {"K": "<your key>", "L": "YOUR_KEY", "M": "own"}}}"#
        ),
        ["env.K is to be filled in", "env.L is to be filled in"]
    );
    assert_eq!(
        notes(r#"{"my server": {"command": "x"}}"#),
        ["name: \"my server\" is called my-server here"]
    );
}

#[test]
fn what_cannot_be_read_says_what_was_expected() {
    for text in [
        "hello there, this is prose",
        "{",
        "{\"a\": 1}",
        "[1, 2]",
        "null",
        "\"x\"",
        "[mcp_servers",
        "a: [",
        "key: value",
        "curl https://x | sh",
        "claude mcp add",
        "claude mcp add x",
        "npx 'open",
        "https://",
        "ftp://x/y",
        "\u{0}",
        "``",
        "- - -",
    ] {
        let error = pasted(text).expect_err(text).to_string();
        assert!(
            error.contains("expected servers as the documentation"),
            "{text}: {error}"
        );
    }
    assert_eq!(pasted(" \n"), Err(NotPasted::Empty));
    assert_eq!(pasted(&" ".repeat(MAX_PASTED + 1)), Err(NotPasted::TooLong));
    let ours = pasted(r#"{"mcpServers": {"m": {"command": "mainstay", "args": ["connect"]}}}"#);
    assert_eq!(
        ours.expect_err("ourselves").to_string(),
        "no server is left: m is left out: it is Mainstay itself"
    );
}

/// Texts with the maximum size and depth.
#[test]
fn hostile_texts_are_bounded() {
    for text in [
        "[".repeat(MAX_PASTED),
        "{\"a\":".repeat(MAX_PASTED / 5),
        "- ".repeat(MAX_PASTED / 2),
        "npx ".repeat(MAX_PASTED / 4),
        "'\n".repeat(MAX_PASTED / 2),
        "a: &a [".repeat(2000),
        format!("[mcp_servers.x]\na = {}", "[".repeat(100_000)),
        format!("x:\n  cmd: {}", "a".repeat(MAX_PASTED - 100)),
        format!(
            "{{\"mcpServers\": {{{}}}}}",
            "\"a\": {\"command\": \"x\"},".repeat(20_000)
        ),
    ] {
        if let Ok(read) = pasted(&text) {
            assert!(read.servers.len() <= MAX_SERVERS, "{}", read.servers.len());
        }
    }
}

proptest! {
    #[test]
    fn no_text_ends_the_reader(text in ".{0,200}") {
        let _ = pasted(&text);
    }

    /// Random sequences of the special characters of all formats. The reader must not panic.
    #[test]
    fn no_text_of_marks_ends_the_reader(parts in prop::collection::vec(prop::sample::select(vec![
        "{", "}", "[", "]", ":", ",", "\"", "'", "\\", "\n", " ", "-", "--", "=", "$", "${A}", "#", "&a", "*a", "<<", "|", ">",
        "mcpServers", "mcp_servers", "servers", "command", "cmd", "url", "args", "name", "npx", "claude mcp add ", "docker run ",
        "--add-mcp ", "https://h", "-e ", "A=1", "```", "ü", "\u{feff}", "null", "1", "[mcp_servers.x]\n", "extensions:\n  x:\n",
    ]), 0..40)) {
        let _ = pasted(&parts.concat());
    }

    #[test]
    fn an_entry_of_ours_comes_back(name in "[a-z][a-z0-9-]{0,10}[a-z0-9]", command in "[a-z]{1,8}", args in prop::collection::vec("[a-z./=-]{1,10}", 0..4)) {
        let mut entry = json!({"command": command});
        if !args.is_empty() {
            entry["args"] = json!(args);
        }
        let text = json!({"mcpServers": {name.as_str(): entry}}).to_string();
        let (found, read, _) = one(&text);
        prop_assert_eq!(found, name);
        prop_assert_eq!(read, entry);
    }
}
