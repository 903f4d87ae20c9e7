//! What a hostile server says, as commands show it on a terminal: a pseudo-terminal takes the place of
//! a person's. No character that a terminal obeys or hides may come out.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::fd::OwnedFd,
};

use mainstay_testkit::{Home, home, within};
use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde_json::{Value, json};
use tokio::{
    process::{Child, Command},
    sync::watch,
};

use crate::control::add_from_inside;

/// Clears the screen, writes the clipboard (OSC 52, ended in either way), sets the title by C1, goes
/// back in the line, reorders it, hides in it, and covers the lines above and below.
const HOSTILE: &str = "x\u{1b}[2J\u{1b}]52;c;ZXZpbA==\u{7}\u{1b}]52;c;ZXZpbA==\u{1b}\\\u{9b}31m\u{9d}0;t\u{9c}\u{7f}\
    \r\u{8}\u{b}\u{202e}\u{2066}\u{2069}\u{200f}\u{61c}\u{200b}\u{200d}\u{2060}\u{feff}\u{ad}\u{34f}\u{115f}\u{3164}\
    \u{2028}\u{2029}\u{e0041}\u{fe00}a\u{336}\u{336}\u{336}\u{336}\u{336}\u{336}\u{336}\u{336}y";

/// A pseudo-terminal, and what was written to it.
pub struct Terminal {
    slave: Option<File>,
    /// Where a person types.
    keys: File,
    shown: watch::Receiver<Vec<u8>>,
    /// Ends when no process has the terminal open any more.
    reader: tokio::task::JoinHandle<()>,
}

impl Terminal {
    pub fn open() -> Self {
        Self::of_width(100)
    }

    pub fn of_width(width: u16) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a pseudo-terminal");
        grantpt(&master).expect("granted");
        unlockpt(&master).expect("unlocked");
        let size = Winsize {
            ws_row: 40,
            ws_col: width,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let name = ptsname(&master, Vec::new()).expect("a name");
        let slave = File::options()
            .read(true)
            .write(true)
            .open(name.to_str().expect("UTF-8"))
            .expect("the other end");
        tcsetwinsize(&slave, size).expect("a size");
        let (written, shown) = watch::channel(Vec::new());
        let mut master = File::from(master);
        let keys = master.try_clone().expect("another handle");
        let reader = tokio::task::spawn_blocking(move || {
            let mut piece = [0; 4096];
            // The end of the other side is an error.
            while let Ok(read @ 1..) = master.read(&mut piece) {
                written.send_modify(|shown| shown.extend(&piece[..read]));
            }
        });
        Self {
            slave: Some(slave),
            keys,
            shown,
            reader,
        }
    }

    /// Starts a command with all of its streams on the terminal.
    pub fn start(&mut self, mut command: Command) -> Child {
        // Colours are ours.
        command.env("NO_COLOR", "1");
        self.start_as_it_is(command)
    }

    /// The same with the environment that the command has.
    pub fn start_as_it_is(&mut self, mut command: Command) -> Child {
        let slave = self.slave.take().expect("one command for each terminal");
        let stream = || OwnedFd::from(slave.try_clone().expect("another handle"));
        command
            .stdin(stream())
            .stdout(stream())
            .stderr(stream())
            .spawn()
            .expect("it starts")
    }

    pub fn types(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).expect("typed");
    }

    pub async fn until(&mut self, words: &str) {
        let has = |shown: &Vec<u8>| String::from_utf8_lossy(shown).contains(words);
        within(self.shown.wait_for(has)).await.expect("it goes on");
    }

    /// All that was shown, once the command is gone.
    pub async fn end(self) -> Vec<u8> {
        within(self.reader).await.expect("it reads");
        self.shown.borrow().clone()
    }
}

/// What a command shows on a terminal.
async fn shown(home: &Home, arguments: &[&str]) -> String {
    let mut terminal = Terminal::open();
    let mut child = terminal.start(home.command(arguments));
    within(child.wait()).await.expect("it ends");
    harmless(arguments, terminal.end().await)
}

/// Checks each character. The terminal itself writes a carriage return before each line break.
fn harmless(arguments: &[&str], bytes: Vec<u8>) -> String {
    let text = String::from_utf8(bytes)
        .expect("UTF-8")
        .replace("\r\n", "\n");
    let bad = |c: &char| {
        let code = u32::from(*c);
        c.is_control() && *c != '\n' && *c != '\t'
            || matches!(code, 0xad | 0x34f | 0x61c | 0x115f | 0x200b..=0x200f | 0x2028..=0x202e
                | 0x2060..=0x206f | 0x3164 | 0xfe00 | 0xfeff | 0xe0000..=0xe0fff)
    };
    let bad: Vec<char> = text.chars().filter(bad).collect();
    assert!(bad.is_empty(), "{arguments:?} shows {bad:?}:\n{text:?}");
    assert!(
        !text.contains(&"\u{336}".repeat(5)),
        "{arguments:?}: {text:?}"
    );
    text
}

fn hostile_servers(home: &Home) -> String {
    let program = fake_server::binary();
    let property = json!({HOSTILE: {"type": HOSTILE, "description": HOSTILE}});
    let tool = json!({
        "name": format!("t{HOSTILE}"), "description": HOSTILE,
        "inputSchema": {"type": "object", "properties": property},
    });
    let plain = json!({
        "name": "plain", "description": format!("{HOSTILE}\n{HOSTILE}"),
        "inputSchema": {"type": "object", "properties": property, "required": [HOSTILE]},
    });
    let config = json!({"ownTools": ["control"], "mcpServers": {
        "evil": {
            "command": program,
            "args": [
                "--taint", HOSTILE, "--stderr", HOSTILE, "--instructions", HOSTILE, "--name", HOSTILE, "--noise",
                "--tool", tool.to_string(), "--tool", plain.to_string(),
            ],
            "env": {"SHOWN": HOSTILE},
        },
        "dead": {"command": program, "args": ["--initialize-error", "--taint", HOSTILE, "--stderr", HOSTILE]},
    }});
    home.file("servers.json", &config.to_string())
}

#[tokio::test]
async fn a_hostile_server_cannot_reach_the_terminal() {
    let home = home!();
    let config = hostile_servers(&home);
    // The daemon's own screen, its log among it.
    let mut screen = Terminal::open();
    let serve = [
        "-vv",
        "serve",
        "--config",
        &config,
        "--listen",
        "127.0.0.1:0",
    ];
    let mut daemon = screen.start(home.command(&serve));
    screen.until("ready: 1 of 2").await;
    let file = std::fs::read(home.state().join("daemon.json")).expect("a file");
    let file: Value = serde_json::from_slice(&file).expect("JSON");
    let url = file["url"].as_str().expect("a URL").to_owned();

    let tool = format!("evil/t{HOSTILE}");
    let unknown = format!("evil/{HOSTILE}");
    let said = format!("text={HOSTILE}");
    let uri = format!("fake://text{HOSTILE}");
    let prompt = format!("evil/greet{HOSTILE}");
    let name = format!("name={HOSTILE}");
    let odd = home.file(
        "odd.json",
        &json!({HOSTILE: 1, "mcpServers": {HOSTILE: {"command": "x"}, "b": {"command": "x", HOSTILE: HOSTILE}, "c": {"url": HOSTILE}}})
            .to_string(),
    );
    let commands: &[&[&str]] = &[
        &["list"],
        &["get", "evil"],
        &["get", "dead"],
        &["get", HOSTILE],
        &["health"],
        &["reconnect", "dead"],
        &["reconnect", "--all"],
        &["tools"],
        &["tools", "get", &tool],
        &["tools", "get", "evil/plain"],
        &["tools", "get", HOSTILE],
        &["call", "evil/echo", &said],
        &["call", "evil/plain", &said],
        &["call", "evil/error", &said],
        &["call", "evil/rpc_error"],
        &["call", &tool, &said],
        &["call", &unknown],
        &["call", "evil/echo", HOSTILE],
        &["call", "evil/echo", "--args", HOSTILE],
        &["call", "evil/crash"],
        &["resources"],
        &["read", &uri],
        &["read", "evil", "fake://text"],
        &["read", "evil", &format!("fake://item/{HOSTILE}")],
        &["read", "evil", HOSTILE],
        &["prompts"],
        &["prompts", "get", &prompt, &name],
        &["prompts", "get", &unknown],
        &["records"],
        &["records", "--status", HOSTILE],
        &["records", HOSTILE],
        &["object", HOSTILE],
        &["stats"],
        &["events"],
        &["requests"],
        &["logs", "evil"],
        &["logs", "dead"],
        &["logs", HOSTILE],
        &["switches", "off", HOSTILE, "evil"],
        &["switches"],
        &["switches", "clear", HOSTILE],
        &["reload", "--dry-run"],
        &["token", "add", HOSTILE],
        &["add", "x", "--", HOSTILE],
        &["remove", HOSTILE],
        &["approve", HOSTILE],
        &["validate", &odd],
        &["validate", HOSTILE],
        &["resolve", HOSTILE],
        &[HOSTILE],
        &["list", "--url", HOSTILE],
        &["records", "--since", HOSTILE],
    ];
    let mut of_hostile = 0;
    for arguments in commands {
        for json in [false, true] {
            let mut all = arguments.to_vec();
            all.extend(json.then_some("--json"));
            let text = shown(&home, &all).await;
            of_hostile += usize::from(text.contains("\\u{9b}") || text.contains("\\u009b"));
            // Notices and wrong usage are told in words.
            for line in text.lines().filter(|line| json && line.starts_with('{')) {
                serde_json::from_str::<Value>(line)
                    .unwrap_or_else(|error| panic!("{all:?}: {error}: {line}"));
            }
        }
    }
    assert!(
        of_hostile > 60,
        "the hostile text is shown by {of_hostile} commands only"
    );

    let records = home
        .run(&["records", "--json", "--tool", "echo"])
        .await
        .json();
    let record = &records["calls"][0];
    for (command, argument) in [
        ("records", "id"),
        ("object", "result_cid"),
        ("object", "arguments_cid"),
    ] {
        for json in [&[][..], &["--json"]] {
            let all = [&[command, record[argument].as_str().expect("a text")], json].concat();
            let text = shown(&home, &all).await;
            assert!(text.contains("\\u009b"), "{all:?}: {text}");
        }
    }

    // What is followed.
    for arguments in [
        ["logs", "evil", "--follow", "--tail", "9000"].as_slice(),
        &["events", "--follow"],
    ] {
        let mut terminal = Terminal::open();
        let mut child = terminal.start(home.command(arguments));
        terminal.until("x\\u{1b}[2J").await;
        child.kill().await.expect("killed");
        harmless(arguments, terminal.end().await);
    }

    // Asked on a terminal.
    let entry = json!({
        "name": "new", "command": "n\u{440}x", "args": [HOSTILE], "env": {HOSTILE.replace('=', ""): HOSTILE}, "cwd": format!("/{HOSTILE}"),
    });
    add_from_inside(&home, &url, &entry).await;
    shown(&home, &["list"]).await;
    shown(&home, &["get", "new"]).await;
    let mut terminal = Terminal::open();
    let mut child = terminal.start(home.command(&["approve", "new"]));
    terminal.until("approve it?").await;
    child.kill().await.expect("killed");
    let text = harmless(&["approve"], terminal.end().await);
    let lines: Vec<&str> = text.lines().collect();
    let [.., command, question] = lines[..] else {
        panic!("{text}")
    };
    assert!(question.starts_with("approve it?"), "{text}");
    assert!(
        command.starts_with(r#"  "n\u{440}x" "x\u{1b}[2J"#),
        "{text}"
    );
    assert!(
        text.contains("! \"n\\u{440}x\": U+0440 looks like 'p'"),
        "{text}"
    );

    shown(&home, &["reload"]).await;
    shown(&home, &["remove", "dead"]).await;
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(daemon.id().expect("it runs").cast_signed())
            .expect("a process"),
        rustix::process::Signal::TERM,
    )
    .expect("signalled");
    within(daemon.wait()).await.expect("it ends");
    let text = harmless(&["serve"], screen.end().await);
    assert!(text.contains("\\u{9b}"), "{text}");

    // Without the daemon.
    for arguments in [
        ["logs", "evil"].as_slice(),
        &["logs", "evil", "--json"],
        &["records"],
        &["records", record["id"].as_str().expect("an id")],
        &["object", record["result_cid"].as_str().expect("an id")],
        &["tools", "--config", &config],
    ] {
        shown(&home, arguments).await;
    }

    // The protocol itself, tried out by hand.
    let mut terminal = Terminal::open();
    let mut child = terminal.start(home.command(&["mcp", "--config", &config]));
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "hand", "version": "1"},
    }});
    terminal.types(&format!("{hello}\n"));
    terminal.until("serverInfo").await;
    terminal.types("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n");
    terminal.types("{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"prompts/list\"}\n");
    terminal.until("\"prompts\":[").await;
    terminal.types("\u{4}");
    within(child.wait()).await.expect("it ends");
    let text = harmless(&["mcp"], terminal.end().await);
    let list = text.lines().find(|line| line.contains("\"prompts\":["));
    let list: Value = serde_json::from_str(list.expect("a list")).expect("JSON");
    assert!(list.to_string().contains('\u{9b}'), "{text}");
}

/// Pipes get the bytes as they are from commands whose output is data.
#[tokio::test]
async fn data_keeps_its_bytes_where_no_terminal_is() {
    let home = home!();
    let config = hostile_servers(&home);
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.says("ready: 1 of 2").await;
    let call = home
        .run(&["call", "evil/echo", &format!("text={HOSTILE}")])
        .await;
    assert_eq!(call.stdout, format!("{HOSTILE}\n"));
    let read = home.run(&["read", "evil", "fake://text"]).await;
    assert_eq!(read.stdout, format!("the text of the fake{HOSTILE}\n"));
    let raw = home.run(&["call", "evil/error", "--json"]).await;
    assert!(raw.stdout.contains('\u{9b}'), "{raw}");
    let arguments = json!({"text": HOSTILE}).to_string();
    home.run(&["call", "evil/echo", "--args", &arguments]).await;
    let record = within(async {
        loop {
            let found = home
                .run(&["records", "--json", "--tool", "echo"])
                .await
                .json();
            if found["total_count"] == 2 {
                return found["calls"][0].clone();
            }
        }
    })
    .await;
    let cid = record["arguments_cid"].as_str().expect("an identifier");
    assert_eq!(home.run(&["object", cid]).await.stdout, arguments);
    // What is laid out for people is shown to them in a pager as well.
    for arguments in [
        ["tools"].as_slice(),
        &["logs", "evil"],
        &["resources"],
        &["list"],
    ] {
        let run = home.run(arguments).await;
        assert!(
            !run.stdout.contains(['\u{1b}', '\u{9b}', '\u{202e}']),
            "{run}"
        );
    }
    daemon.stop().await;
    assert_eq!(home.run(&["object", cid]).await.stdout, arguments);
}
