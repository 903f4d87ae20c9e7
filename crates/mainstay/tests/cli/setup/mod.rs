//! `mainstay setup`: the commands of docs/quickstart.md, and `setup --undo`.

mod questions;
mod secrets;
mod staying;

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::PathBuf,
    process::Stdio,
};

use mainstay_client_files::{LeftOut, Machine, System, find, servers};
use mainstay_testkit::{Home, Run, home, lines, within};
use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt as _, process::Command};

/// The client files, relative to the home folder.
const FILES: [&str; 3] = [
    ".config/Claude/claude_desktop_config.json",
    ".cursor/mcp.json",
    ".codex/config.toml",
];

const SECRET: &str = "s3cret-0123456789";

struct Machinery {
    home: Home,
}

impl Machinery {
    /// A home with the files of three clients and without a service manager.
    fn new() -> Self {
        let home = home!();
        let bin = home.path().join("bin");
        fs::create_dir(&bin).expect("made");
        symlink(env!("CARGO_BIN_EXE_mainstay"), bin.join("mainstay")).expect("linked");
        for name in ["systemctl", "launchctl"] {
            let program = bin.join(name);
            fs::write(&program, "#!/bin/sh\necho 'no session' >&2\nexit 1\n").expect("written");
            fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("set");
        }
        let fake = fake_server::binary();
        let fake = fake.to_str().expect("UTF-8");
        let texts = [
            format!(
                "{{\n    \"mcpServers\": {{\"files\": {{\"command\": \"{fake}\"}}}},\n    \"theme\": \"dark\"}}"
            ),
            format!(
                "{{\n\t// two of them\n\t\"mcpServers\": {{\n\t\t\"my-files\": {{\"command\": \"{fake}\", \"args\": []}},\n\t\t\"notes\": {{\"command\": \"{fake}\", \"args\": [\"--tools\", \"2\"], \"env\": {{\"API_KEY\": \"{SECRET}\"}}}}\n\t}}\n}}\n"
            ),
            format!(
                "# mine\nmodel = \"o4\"   # the best\n\n[mcp_servers.tracker]\ncommand = \"{fake}\"\nargs = [\"--tools\", \"1\"]\n\n[tui]\nnotifications = true\n"
            ),
        ];
        for (name, text) in FILES.iter().zip(texts) {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            fs::write(path, text).expect("written");
        }
        Self { home }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        self.prepare(&mut command);
        command
    }

    fn prepare(&self, command: &mut Command) {
        let bin = self.home.path().join("bin");
        command
            .env("PATH", format!("{}:/usr/bin:/bin", bin.display()))
            .env("HOME", self.home.path())
            .env("MAINSTAY_HOME", self.home.state())
            .env_remove("CODEX_HOME")
            .env_remove("CLAUDE_CONFIG_DIR");
    }

    async fn run(&self, arguments: &[&str]) -> Run {
        let output = within(self.command(arguments).output()).await;
        Run::new(arguments, &output.expect("it starts"))
    }

    /// The content and permissions of all files that setup may change.
    fn state(&self) -> Vec<Option<(Vec<u8>, u32)>> {
        let own_files =
            ["config.json", "mainstay.schema.json"].map(|name| self.home.state().join(name));
        let files = FILES.iter().map(|name| self.home.path().join(name));
        let file_state = |path: PathBuf| {
            let mode = fs::metadata(&path).ok()?.permissions().mode();
            Some((fs::read(&path).ok()?, mode))
        };
        files.chain(own_files).map(file_state).collect()
    }

    /// Starts the server in each client's entry, and calls a tool of it.
    async fn call_through_the_clients(&self) -> Vec<String> {
        let machine = Machine::new(System::current(), self.home.path());
        let mut called_servers = Vec::new();
        for client in find(&machine) {
            let file = &client.files[0];
            let text = file.text.as_ref().expect("read");
            let all_servers = servers(&file.file, text).expect("servers");
            assert_eq!(all_servers.len(), 1, "{all_servers:#?}");
            assert_eq!(all_servers[0].left_out, Some(LeftOut::Mainstay));
            let entry = &all_servers[0].entry;
            let program = entry["command"].as_str().expect("a command");
            let arguments = entry["args"].as_array().expect("arguments");
            let arguments: Vec<&str> = arguments.iter().filter_map(Value::as_str).collect();
            let mut command = Command::new(program);
            command
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .stderr(Stdio::null())
                .kill_on_drop(true);
            self.prepare(&mut command);
            assert_eq!(echo_text(command).await, "ünï");
            called_servers.push(client.client.to_string());
        }
        called_servers
    }
}

/// The result of a tool call over stdio. The client starts this command.
async fn echo_text(mut command: Command) -> String {
    let mut client = command.spawn().expect("it starts");
    let mut stdin = client.stdin.take().expect("a pipe");
    let mut stdout = lines(client.stdout.take());
    let hello = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}});
    let messages = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "files__echo", "arguments": {"text": "ünï"}}}),
    ];
    let mut answer = Value::Null;
    for message in messages {
        stdin
            .write_all(format!("{message}\n").as_bytes())
            .await
            .expect("written");
        while message["id"] != answer["id"] && !message["id"].is_null() {
            let line = within(stdout.next_line()).await.expect("UTF-8");
            let line = line.expect("an answer");
            answer = serde_json::from_str(&line).expect("JSON");
        }
    }
    drop(stdin);
    within(client.wait()).await.expect("it ends");
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[tokio::test]
async fn the_quick_start_is_true() {
    let machine = Machinery::new();
    let state_before = machine.state();
    let page = include_str!("../../../../../docs/quickstart.md");
    let commands: Vec<Vec<&str>> = page
        .lines()
        .filter_map(|line| line.strip_prefix("$ mainstay "))
        .map(|line| line.split(' ').collect())
        .collect();
    let mut daemon = None;
    let mut after = None;
    let mut performed_commands = Vec::new();
    for arguments in &commands {
        let command_line = arguments.join(" ");
        if command_line == "serve" {
            daemon = Some(machine.home.serve(&[]).await);
            daemon
                .as_mut()
                .expect("it runs")
                .wait_for_stderr("ready: 3 of 3")
                .await;
            performed_commands.push(command_line);
            continue;
        }
        if command_line == "setup --undo" {
            let called_servers = machine.call_through_the_clients().await;
            assert_eq!(called_servers, ["Claude Desktop", "Cursor", "Codex"]);
        }
        // The test must not open a browser.
        let run = match command_line.as_str() {
            "ui" => machine.run(&["ui", "--no-open"]).await,
            _ => machine.run(arguments).await,
        };
        assert_eq!(run.code, Some(0), "{run}");
        match command_line.as_str() {
            "setup --dry-run" => {
                assert_eq!(machine.state(), state_before);
                assert!(run.stdout.contains("Claude Desktop, Cursor"), "{run}");
                assert!(
                    run.stdout.contains("+model") || run.stdout.contains("mcp_servers.mainstay"),
                    "{run}"
                );
                assert!(!run.stdout.contains(SECRET), "{run}");
            }
            "setup --yes" if after.is_none() => {
                assert!(run.stdout.contains("3 servers added"), "{run}");
                assert!(run.stderr.contains("no service is installed"), "{run}");
                after = Some(machine.state());
                assert_ne!(after.as_ref(), Some(&state_before));
                let codex = fs::read_to_string(machine.home.path().join(FILES[2])).expect("there");
                assert!(
                    codex.starts_with("# mine\nmodel = \"o4\"   # the best\n"),
                    "{codex}"
                );
                assert!(codex.contains("[tui]\nnotifications = true\n"), "{codex}");
            }
            "setup --yes" => {
                assert!(run.stdout.contains("nothing is to be changed"), "{run}");
                assert_eq!(Some(machine.state()), after);
            }
            "list" => assert_eq!(run.stdout.matches("connected").count(), 3, "{run}"),
            "ui" => assert!(run.stdout.contains("/#/sign-in?code="), "{run}"),
            "doctor" => assert!(!run.stdout.contains("of its own"), "{run}"),
            "setup --undo" => assert_eq!(machine.state(), state_before),
            other => panic!("the test knows no {other:?}"),
        }
        performed_commands.push(command_line);
    }
    assert_eq!(
        performed_commands,
        [
            "setup --dry-run",
            "setup --yes",
            "serve",
            "list",
            "ui",
            "doctor",
            "setup --yes",
            "setup --undo"
        ]
    );
    daemon.expect("it runs").stop().await;
}

#[tokio::test]
async fn setup_without_a_terminal_needs_a_flag() {
    let machine = Machinery::new();
    let state_before = machine.state();
    let run = machine.run(&["setup"]).await;
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("--yes"), "{run}");
    assert_eq!(machine.state(), state_before);
    let run = machine
        .run(&["doctor", "--json", "--no-start", "--listen", "127.0.0.1:0"])
        .await;
    let setup_output = run.json();
    let all_items = setup_output.as_array().expect("an array").iter();
    let own_servers: Vec<_> = all_items
        .filter(|finding| finding["id"] == "client.own_servers")
        .collect();
    assert_eq!(own_servers.len(), 3, "{setup_output:#}");
    assert_eq!(own_servers[1]["mend"], "mainstay setup --client cursor");
}

#[tokio::test]
async fn changes_after_setup_are_not_overwritten() {
    let machine = Machinery::new();
    let state_before = machine.state();
    let arguments = [
        "setup",
        "--yes",
        "--no-service",
        "--client",
        "cursor",
        "--json",
    ];
    let run = machine.run(&arguments).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(run.json()["clients"], json!(["cursor"]));
    // Three files have changed: the configuration, its schema, and the client's file.
    assert_eq!(
        run.json()["changed"].as_array().map(Vec::len),
        Some(3),
        "{run}"
    );
    assert_eq!(machine.state()[0], state_before[0]);
    let cursor = machine.home.path().join(FILES[1]);
    fs::write(&cursor, "{ not json").expect("written");
    let run = machine.run(&["setup", "--undo"]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(
        run.stderr.contains(cursor.to_str().expect("UTF-8")),
        "{run}"
    );
    assert_eq!(fs::read_to_string(&cursor).expect("there"), "{ not json");
    let run = machine.run(&["setup", "--undo", "--force"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(machine.state(), state_before);
    // A file that cannot be read is reported and not changed.
    fs::write(&cursor, "{ not json").expect("written");
    let run = machine.run(&["setup", "--yes", "--no-service"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(
        run.stderr
            .contains(".cursor/mcp.json: left alone, for it cannot be read"),
        "{run}"
    );
    assert_eq!(fs::read_to_string(&cursor).expect("there"), "{ not json");
}

/// A block of YAML to paste keeps its line breaks.
#[tokio::test]
async fn a_text_to_paste_keeps_its_lines() {
    let machine = Machinery::new();
    for name in FILES {
        fs::remove_file(machine.home.path().join(name)).expect("removed");
    }
    let goose = machine.home.path().join(".config/goose/config.yaml");
    fs::create_dir_all(goose.parent().expect("a folder")).expect("made");
    let fake = fake_server::binary();
    let flow = format!(
        "extensions: {{gh: {{enabled: true, type: stdio, cmd: {}, args: [], name: gh}}}}\n",
        fake.display()
    );
    fs::write(&goose, &flow).expect("written");
    let run = machine.run(&["setup", "--yes", "--no-service"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let block = "and take these servers out: gh:\nextensions:\n  mainstay:\n    name: mainstay\n";
    assert!(run.stderr.contains(block), "{run}");
    assert!(
        run.stdout
            .ends_with("1 server added to the configuration\n"),
        "{run}"
    );
    assert!(!run.stderr.contains("restart the clients"), "{run}");
    assert_eq!(fs::read_to_string(&goose).expect("there"), flow);
}

/// A UTF-16 file stays in UTF-16, and an undo restores every byte.
#[tokio::test]
async fn a_file_in_utf_16_stays_in_it() {
    use mainstay_platform::encoding::Encoding;

    let machine = Machinery::new();
    let cursor = machine.home.path().join(FILES[1]);
    let text = fs::read_to_string(&cursor).expect("there");
    fs::write(&cursor, Encoding::Utf16Le.encode(&text)).expect("written");
    let state_before = machine.state();
    let mode = fs::metadata(&cursor).expect("there").permissions().mode();
    let run = machine.run(&["setup", "--yes", "--no-service"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("3 servers added"), "{run}");
    let bytes = fs::read(&cursor).expect("there");
    assert_eq!(Encoding::detect(&bytes), Encoding::Utf16Le);
    let text = Encoding::decode(bytes).expect("a text");
    assert!(
        text.contains("\"mainstay\"") && text.contains("// two of them"),
        "{text}"
    );
    // An undo restores a file that was removed later.
    fs::remove_file(&cursor).expect("removed");
    let run = machine.run(&["setup", "--undo"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    // Set the permissions, because a restored file does not have the earlier ones.
    fs::set_permissions(&cursor, fs::Permissions::from_mode(mode)).expect("set");
    assert_eq!(machine.state(), state_before);

    // A file with an unknown encoding is reported with a hint.
    fs::write(&cursor, b"{\xff}").expect("written");
    let run = machine.run(&["setup", "--dry-run"]).await;
    assert!(
        run.stderr
            .contains("left alone, for it is not UTF-8 text; save it as UTF-8"),
        "{run}"
    );
}

/// Equal notes about several servers become one note.
#[tokio::test]
async fn equal_notes_are_one() {
    let machine = Machinery::new();
    let fake = fake_server::binary();
    let server = |name: &str| {
        let entry = json!({"command": fake, "args": ["--name", name], "cwd": "${workspaceFolder}"});
        (name.to_owned(), entry)
    };
    let servers: serde_json::Map<String, Value> = ["a", "b", "c"].map(server).into_iter().collect();
    let cursor = machine.home.path().join(FILES[1]);
    fs::write(&cursor, json!({"mcpServers": servers}).to_string()).expect("written");
    let run = machine.run(&["setup", "--dry-run"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let about: Vec<&str> = run
        .stderr
        .lines()
        .filter(|line| line.contains("stays in Cursor"))
        .collect();
    assert_eq!(about.len(), 1, "{run}");
    assert!(
        about[0]
            .starts_with("note: a, b, c: stays in Cursor, for Mainstay cannot start it: `cwd`: "),
        "{run}"
    );
    let json = machine.run(&["setup", "--dry-run", "--json"]).await.json();
    let notes = json["notes"].as_array().expect("notes");
    assert!(notes.iter().all(Value::is_string), "{json}");
}

/// An undo keeps the later changes of clients and people.
#[tokio::test]
async fn changes_of_others_stay_when_setup_is_undone() {
    let machine = Machinery::new();
    let state_before = machine.state();
    let run = machine.run(&["setup", "--yes", "--no-service"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let file = |index: usize| machine.home.path().join(FILES[index]);
    let change = |path: &PathBuf, from: &str, replacement: &str| {
        let text = fs::read_to_string(path).expect("there");
        assert!(text.contains(from), "{text}");
        fs::write(path, text.replace(from, replacement)).expect("written");
    };
    // Change a setting in two client files. Then add a server to Mainstay.
    change(&file(0), "\"dark\"", "\"light\"");
    change(&file(2), "\"o4\"", "\"o5\"");
    let add = ["add", "--no-check", "later", "--", "later-server"];
    let run = machine.run(&add).await;
    assert_eq!(run.code, Some(0), "{run}");
    let run = machine.run(&["setup", "--undo", "--dry-run"]).await;
    // The undo covers three client files, the configuration and its schema.
    assert_eq!(run.stdout.matches(" would be restored").count(), 2, "{run}");
    let count_lines = |run: &Run, end: &str| {
        let lines = run.stdout.lines().filter(|line| line.ends_with(end));
        lines.count()
    };
    assert_eq!(
        count_lines(&run, ": its servers would be put back"),
        2,
        "{run}"
    );
    let run = machine.run(&["setup", "--undo"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(count_lines(&run, " restored"), 2, "{run}");
    assert_eq!(count_lines(&run, ": its servers put back"), 2, "{run}");
    assert_eq!(
        count_lines(&run, ": the servers that setup added taken out"),
        1,
        "{run}"
    );
    assert_eq!(run.stderr.matches("these changes stay").count(), 3, "{run}");
    let after = machine.state();
    let text = |state: &[Option<(Vec<u8>, u32)>], index: usize| {
        let (bytes, _) = state[index].clone().expect("a file");
        String::from_utf8(bytes).expect("UTF-8")
    };
    assert_eq!(
        text(&after, 0),
        text(&state_before, 0).replace("dark", "light"),
        "Claude Desktop"
    );
    assert_eq!(after[1], state_before[1], "Cursor");
    assert_eq!(
        text(&after, 2),
        text(&state_before, 2).replace("o4", "o5"),
        "Codex"
    );
    let ours: Value = serde_json::from_str(&text(&after, 3)).expect("JSON");
    let servers = ours["mcpServers"].as_object().expect("a map");
    assert_eq!(servers.keys().collect::<Vec<_>>(), ["later"]);
    let run = machine.run(&["setup", "--undo"]).await;
    assert!(run.stderr.contains("nothing to undo"), "{run}");
}

/// Files of a project are reported. They are changed only on request.
#[tokio::test]
async fn files_of_a_project_are_told_and_taken_when_asked() {
    let machine = Machinery::new();
    let state_before = machine.state();
    let project = machine.home.path().join("app");
    fs::create_dir_all(project.join(".vscode")).expect("made");
    let fake = fake_server::binary();
    let texts = [
        (
            ".mcp.json",
            json!({"mcpServers": {"team": {"command": fake, "args": ["--tools", "3"]}}}),
        ),
        (
            ".vscode/mcp.json",
            json!({"servers": {"lint": {"command": fake, "args": ["--tools", "4"]}}}),
        ),
    ];
    for (name, text) in &texts {
        fs::write(project.join(name), text.to_string()).expect("written");
    }
    let run_here = async |arguments: &[&str]| {
        let mut command = machine.command(arguments);
        let output = within(command.current_dir(&project).output()).await;
        Run::new(arguments, &output.expect("it starts"))
    };
    for arguments in [["import", "--dry-run"], ["setup", "--dry-run"]] {
        let run = run_here(&arguments).await;
        assert_eq!(run.code, Some(0), "{run}");
        assert_eq!(run.stderr.matches("left alone").count(), 2, "{run}");
        assert!(!run.stdout.contains("team"), "{run}");
        let command = format!("`mainstay {} --project`", arguments[0]);
        assert!(run.stderr.contains(&command), "{run}");
    }
    let doctor = ["doctor", "--json", "--no-start", "--listen", "127.0.0.1:0"];
    let doctor_output = run_here(&doctor).await.json();
    let all_findings = doctor_output.as_array().expect("an array").iter();
    let project_findings = all_findings.filter(|finding| finding["id"] == "client.project_servers");
    let mends: Vec<&Value> = project_findings.map(|finding| &finding["mend"]).collect();
    assert_eq!(
        mends,
        [
            "mainstay setup --project --client claude-code",
            "mainstay setup --project --client vscode"
        ]
    );
    let run = run_here(&["setup", "--yes", "--no-service"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let project_text = |name: &str| fs::read_to_string(project.join(name)).expect("there");
    for (name, text) in &texts {
        assert_eq!(project_text(name), text.to_string());
    }
    let run = run_here(&["setup", "--yes", "--no-service", "--project", "--json"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let servers = run.json()["servers"].clone();
    let servers = servers.as_array().expect("an array").iter();
    let new: Vec<_> = servers.filter(|server| server["new"] == true).collect();
    assert_eq!(new.len(), 2, "{run}");
    assert!(!project_text(".mcp.json").contains("team"), "{run}");
    assert!(!project_text(".vscode/mcp.json").contains("lint"), "{run}");
    let run = run_here(&["setup", "--undo"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    for (name, text) in &texts {
        assert_eq!(project_text(name), text.to_string());
    }
    assert_eq!(machine.state(), state_before);
}

#[tokio::test]
async fn a_running_daemon_follows() {
    let machine = Machinery::new();
    let config = machine.home.state().join("config.json");
    fs::create_dir(machine.home.state()).expect("made");
    fs::set_permissions(machine.home.state(), fs::Permissions::from_mode(0o700)).expect("set");
    fs::write(&config, "{\"mcpServers\": {}}\n").expect("written");
    let daemon = machine.home.serve(&[]).await;
    let run = machine.run(&["setup", "--yes", "--no-service"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let run = machine.run(&["call", "files/echo", "text=here"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let run = machine.run(&["setup", "--undo"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let list = machine.run(&["list", "--json"]).await.json();
    assert_eq!(list["servers"], json!([]), "{list}");
    daemon.stop().await;
}

/// If a client has one file for each editor, all of these files are changed.
#[tokio::test]
async fn every_installation_of_a_client_is_pointed_at_mainstay() {
    let machine = Machinery::new();
    let file = |editor: &str| {
        let settings_path =
            "User/globalStorage/saoudrizwan.claude-dev/settings/cline_mcp_settings.json";
        machine
            .home
            .path()
            .join(".config")
            .join(editor)
            .join(settings_path)
    };
    let fake = fake_server::binary();
    for (editor, tools) in [("Code", "3"), ("Cursor", "4")] {
        let path = file(editor);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        let text = json!({"mcpServers": {editor: {"command": fake, "args": ["--tools", tools]}}});
        fs::write(path, text.to_string()).expect("written");
    }
    let setup_command = [
        "setup",
        "--yes",
        "--no-service",
        "--client",
        "cline",
        "--json",
    ];
    let run = machine.run(&setup_command).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(run.json()["clients"], json!(["cline"]));
    assert_eq!(
        run.json()["servers"].as_array().map(Vec::len),
        Some(2),
        "{run}"
    );
    for editor in ["Code", "Cursor"] {
        let text = fs::read_to_string(file(editor)).expect("there");
        let value: Value = serde_json::from_str(&text).expect("JSON");
        let servers = value["mcpServers"].as_object().expect("a map");
        assert_eq!(servers.keys().collect::<Vec<_>>(), ["mainstay"], "{editor}");
    }
}
