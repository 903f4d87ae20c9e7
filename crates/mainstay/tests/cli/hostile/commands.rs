//! Runs every command with hostile text, on a terminal and with pipes.

use std::{collections::BTreeSet, fs};

use clap::CommandFactory as _;
use fake_server::{Fake, Script, binary};
use futures_util::{StreamExt as _, stream};
use mainstay::cli::Cli;
use mainstay_testkit::{Home, Run, Serving, found, home, limits::PROGRAMS, within};
use serde_json::{Value, json};

use super::{
    mentions_hostile_text, servers,
    text::{FORGED, HOSTILE, assert_harmless},
};
use crate::{
    add::fake_registry::{FakeAnswer, FakeRegistry},
    control::call_as,
    terminal::Terminal,
};

/// Commands that only read. `§` stands for the hostile text, and `{…}` for values of the fixture.
const READ_COMMANDS: &[(&str, &[&str])] = &[
    ("list", &[]),
    ("list", &["--url", "§"]),
    ("get", &["evil"]),
    ("get", &["dead"]),
    ("get", &["§"]),
    ("health", &[]),
    ("health", &["§"]),
    ("tools", &[]),
    ("tools list", &[]),
    ("tools list", &["§"]),
    ("tools get", &["evil/t§"]),
    ("tools get", &["evil/plain"]),
    ("tools get", &["§"]),
    ("call", &["evil/echo", "text=§"]),
    ("call", &["evil/plain", "--args", "{}"]),
    ("call", &["evil/error"]),
    ("call", &["remote/error"]),
    ("call", &["remote/rpc_error"]),
    ("call", &["evil/rpc_error"]),
    ("call", &["evil/t§", "--args", "{}"]),
    ("call", &["evil/§"]),
    ("call", &["evil/echo", "§"]),
    ("call", &["evil/echo", "--args", "§"]),
    ("call", &["evil/progress", "steps=4", "intervalMs=250"]),
    ("call", &["evil/log", "n=2", "level=error"]),
    ("resources", &[]),
    ("read", &["fake://text§"]),
    ("read", &["evil", "fake://text"]),
    ("read", &["evil", "fake://§"]),
    ("read", &["evil", "§"]),
    ("read", &["remote", "fake://text"]),
    ("prompts", &[]),
    ("prompts list", &[]),
    ("prompts get", &["evil/greet§", "name=§"]),
    ("prompts get", &["evil/p§", "§=§"]),
    ("prompts get", &["evil/§"]),
    ("records", &[]),
    ("records", &["{record}"]),
    ("records export", &["--format", "jsonl"]),
    ("records export", &["--format", "csv"]),
    ("records export", &["--format", "§"]),
    ("records export", &["--format", "csv", "--output", "/§/x"]),
    ("records", &["--status", "§"]),
    ("records", &["--since", "§"]),
    ("records", &["--instance", "§"]),
    ("records", &["§"]),
    ("object", &["{result}"]),
    ("object", &["{arguments}"]),
    ("object", &["§"]),
    ("stats", &[]),
    ("events", &[]),
    ("events", &["--after", "§"]),
    ("history", &[]),
    ("history", &["evil"]),
    ("history", &["dead"]),
    ("history", &["§"]),
    ("history", &["--since", "§"]),
    ("requests", &[]),
    ("requests list", &[]),
    ("logs", &["evil"]),
    ("logs", &["dead"]),
    ("logs", &["§"]),
    ("switches", &[]),
    ("switches list", &[]),
    ("access", &[]),
    ("access list", &[]),
    ("access rules", &[]),
    ("access explain", &["hand", "evil"]),
    ("access explain", &["hand", "evil/t§"]),
    ("access explain", &["§", "evil/§", "--profile", "§"]),
    (
        "access explain",
        &["hand", "evil", "--resource", "fake://§"],
    ),
    ("token list", &[]),
    ("auth status", &[]),
    ("auth status", &["remote"]),
    ("auth status", &["§"]),
    ("secret list", &[]),
    ("secret list", &["--config", "{odd}"]),
    ("reload", &["--dry-run"]),
    ("validate", &["{odd}"]),
    ("validate", &["§"]),
    ("config path", &["--config", "§"]),
    ("config show", &["--config", "{odd}"]),
    ("config show", &["--config", "§"]),
    ("config history", &[]),
    ("config history list", &["--config", "§"]),
    ("config history show", &["1"]),
    ("config history diff", &["1"]),
    ("resolve", &["§"]),
    ("search", &["files", "--registry", "{registry}"]),
    ("search", &["§", "--registry", "{registry}"]),
    ("import", &["--dry-run"]),
    ("import", &["--from", "§"]),
    ("export", &["--for", "cursor"]),
    ("export", &["--for", "§"]),
    ("doctor", &["--no-start", "--config", "{config}"]),
    ("setup", &["--dry-run"]),
    ("setup", &["--client", "§"]),
    ("service install", &["--dry-run", "--config", "§"]),
    ("service uninstall", &["--dry-run"]),
    ("service status", &[]),
    ("serve", &["--listen", "§"]),
    ("mcp", &["--config", "§"]),
    ("connect", &["--server", "§"]),
    ("top", &["--json"]),
    ("top", &["§"]),
    (
        "shell",
        &[
            "-c",
            "/servers",
            "-c",
            "/health",
            "-c",
            "/tools",
            "-c",
            "/tools evil/plain",
            "-c",
            "/call evil/error",
            "-c",
            "/call evil/progress steps=2",
            "-c",
            "/prompt",
            "-c",
            "/read",
            "-c",
            "/records",
            "-c",
            "/events",
            "-c",
            "/log evil",
            "-c",
            "/§",
        ],
    ),
];

/// Commands that change state, in the order in which they run.
const WRITE_COMMANDS: &[(&str, &[&str])] = &[
    ("config undo", &["99", "--config", "§"]),
    ("switches off", &["§", "evil"]),
    ("switches on", &["§", "evil"]),
    ("switches clear", &["§"]),
    ("token add", &["§"]),
    ("token add", &["x", "--profile", "§"]),
    ("auth login", &["§"]),
    ("auth login", &["remote", "--no-browser", "--scope", "§"]),
    ("auth logout", &["remote"]),
    ("secret set", &["§"]),
    ("secret set", &["a", "--from-file", "§"]),
    ("secret remove", &["§"]),
    ("token remove", &["§"]),
    ("requests answer", &["99", "§"]),
    ("requests refuse", &["99", "§"]),
    ("add", &["x", "--", "§"]),
    (
        "add",
        &[
            "--config",
            "{other}",
            "--replace",
            "-y",
            "new",
            "--",
            "{program}",
            "--taint",
            "§",
            "--stderr",
            "§",
            "--instructions",
            "§",
            "--name",
            "§",
            "--tool",
            "{tool}",
        ],
    ),
    (
        "add",
        &[
            "--config",
            "{other}",
            "-y",
            "new",
            "--",
            "{program}",
            "--initialize-error",
            "--taint",
            "§",
            "--stderr",
            "§",
        ],
    ),
    ("approve", &["§"]),
    ("reconnect", &["dead"]),
    ("start", &["dead"]),
    ("restart", &["--all"]),
    ("stop", &["dead"]),
    ("stop", &["§"]),
    ("call", &["evil/crash"]),
    ("disable", &["dead"]),
    ("enable", &["dead"]),
    ("remove", &["§"]),
    ("remove", &["dead"]),
    ("reload", &[]),
    ("token rotate", &[]),
];

/// Commands without a test case, each with the reason.
const OMITTED_COMMANDS: &[(&str, &str)] = &[
    (
        "demo-server",
        "is a server: its stdout is the protocol, its stderr goes to a log",
    ),
    (
        "config edit",
        "needs an editor; what it finds is shown as `validate` shows it",
    ),
    ("config schema", "prints a text of ours"),
    ("completions", "prints a script of ours"),
    ("man", "prints texts of ours"),
    ("ui", "prints a link of ours"),
];

/// Commands that print foreign text on several lines.
const LINE_OUTPUT_COMMANDS: &[&str] = &[
    "call",
    "read",
    "prompts get",
    "tools get",
    "object",
    "shell",
    "records export",
    "config history show",
    "config history diff",
];

/// Commands that write the original bytes to a pipe.
const RAW_OUTPUT_COMMANDS: &[&str] = &[
    "call",
    "config show",
    "config history show",
    "config history diff",
    "read",
    "prompts get",
    "object",
    "resolve",
    "shell",
    "top",
    "records export",
];

/// Collects the paths of all commands that can be run.
fn collect_runnable(command: &clap::Command, path: &str, commands: &mut BTreeSet<String>) {
    for subcommand in command.get_subcommands() {
        let path = format!("{path} {}", subcommand.get_name());
        collect_runnable(subcommand, &path, commands);
        if !subcommand.is_subcommand_required_set() {
            commands.insert(path.trim().to_owned());
        }
    }
}

#[test]
fn every_command_is_looked_at() {
    let mut all_commands = BTreeSet::new();
    collect_runnable(&Cli::command(), "", &mut all_commands);
    let cases = READ_COMMANDS
        .iter()
        .chain(WRITE_COMMANDS)
        .map(|(path, _)| *path);
    let listed: BTreeSet<String> = cases
        .chain(OMITTED_COMMANDS.iter().map(|(path, _)| *path))
        .map(str::to_owned)
        .collect();
    assert_eq!(
        all_commands, listed,
        "each command needs a case here, or a reason in LEFT_OUT_COMMANDS"
    );
}

/// The fixture of all test cases.
struct HostileHome {
    home: Home,
    /// Held so that the registry stays alive.
    _registry: FakeRegistry,
    /// Values for `{…}`.
    values: Vec<(&'static str, String)>,
}

impl HostileHome {
    fn arguments(&self, path: &str, arguments: &[&str]) -> Vec<String> {
        let filled_arguments = arguments.iter().map(|argument| {
            let argument = self
                .values
                .iter()
                .fold((*argument).to_owned(), |text, (name, value)| {
                    text.replace(name, value)
                });
            argument.replace('§', &HOSTILE)
        });
        path.split(' ')
            .map(str::to_owned)
            .chain(filled_arguments)
            .collect()
    }

    /// Runs a case in all forms. Returns the number of outputs with hostile text.
    async fn check_case(&self, path: &str, arguments: &[&str]) -> usize {
        let all_arguments = self.arguments(path, arguments);
        let base: Vec<&str> = all_arguments.iter().map(String::as_str).collect();
        let mut mentions = 0;
        // All known fields. The error about an unknown field lists them.
        let mut every_field = "{id}".to_owned();
        let mut printed_forms = Vec::new();
        let forms = [(vec![], true), (vec!["--json"], true), (vec![], false)];
        if is_shaped(path) {
            let unknown_arguments = [&base[..], &["--format", "{no_such_field}"]].concat();
            let refused_run = self.home.run(&unknown_arguments).await.stderr;
            let fields = refused_run
                .split_once("the fields are ")
                .map(|(_, fields)| fields.trim().to_owned());
            let template = fields.map(|fields| format!("{{{}}}", fields.replace(", ", "}|{")));
            every_field = template.unwrap_or(every_field);
            printed_forms = vec![
                (vec!["-o", "yaml"], true),
                (vec!["-o", "yaml"], false),
                (vec!["-o", "wide"], false),
                (vec!["-o", "name"], false),
                (vec!["--format", &every_field], false),
            ];
        }
        for (form, is_on_terminal) in forms.into_iter().chain(printed_forms) {
            // Skip a duplicate `--json`.
            if form == ["--json"] && base.contains(&"--json") {
                continue;
            }
            mentions += self.run(path, &base, &form, is_on_terminal).await;
        }
        mentions
    }

    async fn run(&self, path: &str, base: &[&str], form: &[&str], is_on_terminal: bool) -> usize {
        // Insert options before `--`, because later arguments belong to the server.
        let separator_index = base
            .iter()
            .position(|argument| *argument == "--")
            .unwrap_or(base.len());
        let all_arguments = [&base[..separator_index], form, &base[separator_index..]].concat();
        let (stdout, stderr) = if is_on_terminal {
            (
                terminal_output(&self.home, &all_arguments).await,
                String::new(),
            )
        } else {
            let Run { stdout, stderr, .. } = self.home.run(&all_arguments).await;
            let stdout = if RAW_OUTPUT_COMMANDS.contains(&path) {
                stdout
            } else {
                assert_harmless(&all_arguments, stdout.into_bytes())
            };
            (stdout, assert_harmless(&all_arguments, stderr.into_bytes()))
        };
        // Check only lines with JSON, because stderr may also contain plain text.
        let lines = stdout.lines().chain(stderr.lines());
        for line in lines.filter(|line| form == ["--json"] && line.starts_with("{\"")) {
            serde_json::from_str::<Value>(line)
                .unwrap_or_else(|error| panic!("{all_arguments:?}: {error}: {line}"));
        }
        if !LINE_OUTPUT_COMMANDS.contains(&path) {
            for line in stdout.lines().chain(stderr.lines()) {
                assert!(
                    !line.starts_with(FORGED),
                    "{all_arguments:?} shows a forged line:\n{stdout}{stderr}"
                );
            }
        }
        usize::from(mentions_hostile_text(&stdout) || mentions_hostile_text(&stderr))
    }
}

/// True if a command has the options `-o` and `--format`.
fn is_shaped(path: &str) -> bool {
    let mut command = Cli::command();
    command.build();
    let mut command = &command;
    for subcommand in path.split(' ') {
        command = command.find_subcommand(subcommand).expect(path);
    }
    let mut arguments = command.get_arguments();
    arguments.any(|argument| {
        let names = argument.get_value_names().unwrap_or_default();
        names.iter().any(|name| name == "TEMPLATE")
    })
}

/// Runs a command on a terminal, and returns its output. Asserts that the output is harmless.
pub async fn terminal_output(home: &Home, arguments: &[&str]) -> String {
    let mut terminal = Terminal::open();
    let mut child = terminal.start(home.command(arguments));
    within(child.wait()).await.expect("it ends");
    assert_harmless(arguments, terminal.end().await)
}

/// A home with hostile client files, registry answers and journal records.
async fn hostile_home(home: Home, url: &str) -> HostileHome {
    let hostile = HOSTILE.as_str();
    let registry = FakeRegistry::start().await;
    let published_servers = json!({"servers": [
        {"server": {"name": format!("a.b/{hostile}"), "description": hostile, "version": hostile,
            "packages": [{"registryType": hostile, "identifier": hostile, "version": "1.0.0", "transport": {"type": "stdio"}}],
            "remotes": [{"type": "sse", "url": hostile}]},
            "_meta": {"io.modelcontextprotocol.registry/official": {"status": hostile}}},
        {"server": {"name": "a.b/c", "description": hostile, "version": "1"}}],
        "metadata": {"nextCursor": hostile}});
    let page = "/v0.1/servers?search=files&version=latest&limit=20";
    registry.answer(page, FakeAnswer::json(&published_servers));
    let odd_config = json!({hostile: 1, "mcpServers": {
        hostile: {"command": "x"}, "b": {"command": "x", hostile: hostile}, "c": {"url": hostile}, "d": {"command": hostile},
    }});
    let odd_config = home.file("odd.json", &odd_config.to_string());
    let cursor = json!({"mcpServers": {
        hostile: {"command": hostile, "args": [hostile], hostile: hostile},
        "fine": {"command": "x", "env": {"A": hostile}, hostile: 1},
    }});
    fs::create_dir(home.path().join(".cursor")).expect("made");
    home.file(".cursor/mcp.json", &cursor.to_string());
    let other_file = home.file("other.json", r#"{"mcpServers": {}}"#);
    let tool = json!({"name": format!("t{hostile}"), "description": hostile, "inputSchema": {"type": "object"}});

    call_as(
        &home,
        url,
        hostile,
        "evil__echo",
        &json!({"text": hostile, hostile: hostile}),
    )
    .await;
    let record = found(PROGRAMS, "a record", async || {
        let listed_output = home
            .run(&["records", "--json", "--tool", "echo"])
            .await
            .json();
        listed_output["calls"].get(0).cloned()
    })
    .await;
    let record_text = |member: &str| record[member].as_str().expect(member).to_owned();
    let values = vec![
        ("{record}", record_text("id")),
        ("{result}", record_text("result_cid")),
        ("{arguments}", record_text("arguments_cid")),
        ("{odd}", odd_config),
        ("{other}", other_file),
        (
            "{config}",
            home.path()
                .join("servers.json")
                .to_str()
                .expect("UTF-8")
                .to_owned(),
        ),
        ("{registry}", registry.url.clone()),
        ("{program}", binary().to_str().expect("UTF-8").to_owned()),
        ("{tool}", tool.to_string()),
    ];
    HostileHome {
        home,
        _registry: registry,
        values,
    }
}

/// Starts a daemon with hostile servers. Also returns the fixture of the test cases.
async fn serve_hostile_home() -> (HostileHome, Serving, Fake) {
    let home = home!();
    // Send NUL over HTTP, because arguments of a program cannot contain it.
    let taint = Some(format!("\0{}", *HOSTILE));
    let script = Script {
        taint,
        ..Script::default()
    };
    let remote = Fake::http(script).await.expect("a free port");
    let config = servers(&home, Some(remote.url()));
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 3").await;
    (hostile_home(home, &daemon.url).await, daemon, remote)
}

/// Runs these commands while a server's question is open and a tool is switched off.
async fn check_cases(cases: &[(&str, &[&str])]) {
    let (hostile_home, daemon, _remote) = serve_hostile_home().await;
    let question = json!({"method": "elicitation/create", "params": {"message": HOSTILE.as_str(), "requestedSchema": {}}});
    let arguments = question.to_string();
    let arguments = ["call", "evil/ask", "--args", &arguments];
    let mut call = hostile_home
        .home
        .command(&arguments)
        .spawn()
        .expect("it starts");
    found(PROGRAMS, "a request", async || {
        let waiting_output = hostile_home.home.run(&["requests", "--json"]).await.json();
        waiting_output["requests"][0]["id"].is_u64().then_some(())
    })
    .await;
    let disabled_run = hostile_home
        .home
        .run(&["switches", "off", "hand", "dead"])
        .await;
    assert_eq!(disabled_run.code, Some(0), "{disabled_run}");
    let findings =
        stream::iter(cases).map(|(path, arguments)| hostile_home.check_case(path, arguments));
    let mentions: Vec<usize> = findings.buffer_unordered(4).collect().await;
    let mentions: usize = mentions.into_iter().sum();
    assert!(
        mentions > 60,
        "the hostile text is told of {mentions} times only"
    );
    call.kill().await.expect("killed");
    daemon.stop().await;

    // Commands that also work without the daemon.
    let unchecked_commands = [
        "list", "records", "logs", "object", "stats", "tools", "call",
    ];
    for (path, arguments) in cases
        .iter()
        .filter(|(path, _)| unchecked_commands.contains(path))
    {
        let all_arguments = hostile_home.arguments(path, arguments);
        let all_arguments: Vec<&str> = all_arguments.iter().map(String::as_str).collect();
        terminal_output(&hostile_home.home, &all_arguments).await;
    }
}

/// The cases are split into two tests because they take long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_command_shows_hostile_text_as_it_is() {
    check_cases(&READ_COMMANDS[..READ_COMMANDS.len() / 2]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_other_command_shows_hostile_text_as_it_is() {
    check_cases(&READ_COMMANDS[READ_COMMANDS.len() / 2..]).await;
}

#[tokio::test]
async fn no_change_shows_hostile_text_as_it_is() {
    let (hostile_home, daemon, _remote) = serve_hostile_home().await;
    let mut mentions = 0;
    for (path, arguments) in WRITE_COMMANDS {
        mentions += hostile_home.check_case(path, arguments).await;
    }
    assert!(
        mentions > 20,
        "the hostile text is told of {mentions} times only"
    );
    daemon.stop().await;
}
