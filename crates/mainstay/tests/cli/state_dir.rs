//! State directories that other users can write to must not be used. Such a user could redirect
//! commands to another daemon and read the token.

use std::{
    fs::{self, File, Permissions},
    io::ErrorKind,
    net::TcpListener,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, lchown, symlink},
    path::Path,
    time::Duration,
};

use mainstay_testkit::{Home, Run, home};
use serde_json::json;

use crate::fakes::fakes;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).expect("set");
}

/// True if the test runs as root. If not, prints that the test is skipped.
#[expect(clippy::print_stderr, reason = "a test that cannot run says so")]
fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("{test}: NOT TESTED, for giving a file to another user takes root");
    }
    is_root
}

/// All commands that use the state directory.
const COMMANDS: &[&[&str]] = &[
    &["serve", "--listen", "127.0.0.1:0", "--demo"],
    &["list"],
    &["tools", "--json"],
    &["token", "list"],
    &["token", "add", "laptop"],
    &["token", "rotate"],
    &["records"],
    &["records", "--instance", "x-1"],
    &[
        "object",
        "bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy",
    ],
    &["logs", "x"],
    &["add", "x", "--", "y"],
];

async fn assert_all_refused(home: &Home, text: &str) {
    for arguments in COMMANDS {
        let run = home.run(arguments).await;
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains(text), "{text}: {run}");
    }
}

#[tokio::test]
async fn a_directory_that_others_can_write_to_is_refused() {
    let home = home!();
    let state = home.state();
    fs::create_dir(&state).expect("made");
    let path = state.display();
    // The directory is writable by all users, is sticky, or is writable by a group.
    let mut modes = vec![0o777, 0o1777, 0o702];
    if is_root("a group of others") {
        chown(&state, None, Some(12345)).expect("given");
        modes.push(0o770);
    }
    for bits in modes {
        mode(&state, bits);
        assert_all_refused(
            &home,
            &format!("others can write to {path} (mode {bits:04o})"),
        )
        .await;
        let hint = home.run(&["list"]).await;
        assert!(
            hint.stderr.contains(&format!("chmod 700 '{path}'")),
            "{hint}"
        );
    }
    assert_eq!(fs::read_dir(&state).expect("read").count(), 0);
    // Commands that work without the directory do not use it here.
    let config = fakes(&home, &[("fake", &[])]);
    let run = home.run(&["call", "fake/pid", "--config", &config]).await;
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stderr.contains("nothing is kept"), "{run}");
    assert_eq!(fs::read_dir(&state).expect("read").count(), 0);
    // A directory that others can read is accepted.
    mode(&state, 0o755);
    let run = home.run(&["token", "list"]).await;
    assert_eq!(run.code, Some(0), "{run}");
}

#[tokio::test]
async fn a_replaceable_directory_is_refused() {
    let home = home!();
    let parent_folder = home.path().join("above");
    fs::create_dir_all(parent_folder.join("state")).expect("made");
    let run = async |arguments: &[&str]| -> Run {
        let mut command = home.command(arguments);
        command.env("MAINSTAY_HOME", parent_folder.join("state"));
        Run::new(arguments, &command.output().await.expect("it starts"))
    };
    mode(&parent_folder, 0o777);
    for arguments in [["token", "list"], ["token", "rotate"]] {
        let refused_run = run(&arguments).await;
        assert_eq!(refused_run.code, Some(1), "{refused_run}");
        let expected_error = format!(
            "others can write to {} (mode 0777)",
            parent_folder.display()
        );
        assert!(
            refused_run.stderr.contains(&expected_error),
            "{refused_run}"
        );
        assert!(refused_run.stderr.contains("chmod go-w"), "{refused_run}");
    }
    // In a sticky folder, only the owner of a file can rename it.
    mode(&parent_folder, 0o1777);
    assert_eq!(run(&["token", "rotate"]).await.code, Some(0));

    // A link of the same user is followed. Its target is checked.
    mode(&parent_folder, 0o700);
    let link = home.path().join("link");
    symlink(&parent_folder, &link).expect("linked");
    let run = async |arguments: &[&str]| -> Run {
        let mut command = home.command(arguments);
        command.env("MAINSTAY_HOME", link.join("state"));
        Run::new(arguments, &command.output().await.expect("it starts"))
    };
    assert_eq!(run(&["token", "rotate"]).await.code, Some(0));
    mode(&parent_folder, 0o777);
    assert_eq!(run(&["token", "rotate"]).await.code, Some(1));
    mode(&parent_folder, 0o700);
    if is_root("somebody else's link") {
        lchown(&link, Some(12345), None).expect("given");
        let refused_run = run(&["token", "rotate"]).await;
        assert_eq!(refused_run.code, Some(1), "{refused_run}");
        assert!(
            refused_run.stderr.contains("belongs to user 12345"),
            "{refused_run}"
        );
    }
}

#[tokio::test]
async fn a_directory_of_another_user_is_refused() {
    if !is_root("somebody else's directory") {
        return;
    }
    let home = home!();
    let state = home.state();
    fs::create_dir(&state).expect("made");
    chown(&state, Some(12345), None).expect("given");
    assert_all_refused(
        &home,
        &format!(
            "{} belongs to user 12345, and Mainstay runs as user 0",
            state.display()
        ),
    )
    .await;
    // The files in the directory are checked as well.
    chown(&state, Some(0), None).expect("given");
    for name in ["lock", "token", "tokens.json"] {
        let file = state.join(name);
        fs::write(&file, TOKEN).expect("written");
        mode(&file, 0o600);
        chown(&file, Some(12345), None).expect("given");
        let run = home.run(&["token", "add", "laptop"]).await;
        assert_eq!(run.code, Some(1), "{name}: {run}");
        assert!(
            run.stderr.contains("belongs to user 12345"),
            "{name}: {run}"
        );
        fs::remove_file(&file).expect("removed");
    }
}

/// Links that another user has planted do not redirect Mainstay's files.
#[tokio::test]
async fn planted_links_and_pipes_are_not_followed() {
    let home = home!();
    let state = home.state();
    fs::create_dir(&state).expect("made");
    let victim_file = home.path().join("victim");
    fs::write(&victim_file, "precious").expect("written");
    // Earlier versions used these names for temporary files.
    for name in [
        "token.new",
        "tokens.new",
        "session.new",
        "daemon.new",
        "switches.new",
    ] {
        symlink(&victim_file, state.join(name)).expect("linked");
    }
    let daemon = home.serve(&["--demo"]).await;
    let run = home.run(&["token", "add", "laptop"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    home.run(&["switches", "off", "laptop", "alpha"]).await;
    daemon.stop().await;
    assert_eq!(fs::read_to_string(&victim_file).expect("read"), "precious");
    let remaining_entries = fs::read_dir(&state).expect("read").filter(|entry| {
        let name = entry.as_ref().expect("an entry").file_name();
        name.to_string_lossy().starts_with('.')
    });
    assert_eq!(remaining_entries.count(), 0, "no new file is left");

    for name in ["lock", "token", "session.key", "tokens.json"] {
        let file = state.join(name);
        fs::remove_file(&file).ok();
        symlink(&victim_file, &file).expect("linked");
        let run = home.run(&["token", "add", "phone"]).await;
        assert_eq!(run.code, Some(1), "{name}: {run}");
        fs::remove_file(&file).expect("removed");
        // A named pipe at the path does not block.
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &file,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .expect("made");
        let run = home.run(&["token", "add", "phone"]).await;
        assert_eq!(run.code, Some(1), "{name}: {run}");
        fs::remove_file(&file).expect("removed");
    }
    assert_eq!(fs::read_to_string(&victim_file).expect("read"), "precious");

    // Logs and catalogs in a folder that others can write to are not used.
    let logs = state.join("logs");
    mode(&logs, 0o777);
    let run = home.run(&["logs", "alpha"]).await;
    assert!(run.stderr.contains("others can write to"), "{run}");
    fs::remove_dir_all(&logs).expect("removed");
    symlink("/tmp", &logs).expect("linked");
    let catalogs = state.join("catalogs");
    mode(&catalogs, 0o777);
    let mut daemon = home.serve(&["--demo"]).await;
    daemon.wait_for_stderr("catalogs cannot be kept").await;
    daemon.wait_for_stderr("ready: 3 of 3").await;
    daemon.stop().await;
    assert!(!Path::new("/tmp/mcp-alpha.log").exists());
}

/// A locked state directory with a forged `daemon.json`, and a listener at the forged address.
struct Forged {
    home: Home,
    listener: TcpListener,
    _lock: File,
}

impl Forged {
    fn new() -> Self {
        let home = home!();
        fs::create_dir(home.state()).expect("made");
        mode(&home.state(), 0o700);
        fs::write(home.path().join("secret"), TOKEN).expect("written");
        fs::write(home.state().join("token"), TOKEN).expect("written");
        let lock = File::create(home.state().join("lock")).expect("made");
        lock.lock().expect("locked");
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        listener.set_nonblocking(true).expect("set");
        Self {
            home,
            listener,
            _lock: lock,
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.listener.local_addr().expect("an address"))
    }

    fn announce(&self, url: &str, token_file: &Path) {
        let daemon = json!({"url": url, "pid": 1, "token_file": token_file});
        let path = self.home.state().join("daemon.json");
        fs::remove_file(&path).ok();
        fs::write(path, daemon.to_string()).expect("written");
    }

    /// Asserts that commands fail and send nothing to the forged address.
    async fn assert_refuses(&self, text: &str) {
        for arguments in [["list"].as_slice(), &["token", "list"], &["call", "a/b"]] {
            let run = self.home.run(arguments).await;
            assert_eq!(run.code, Some(1), "{run}");
            assert!(run.stderr.contains(text), "{text}: {run}");
        }
        let accept_error = self.listener.accept().expect_err("nobody came");
        assert_eq!(accept_error.kind(), ErrorKind::WouldBlock);
    }
}

#[tokio::test]
async fn a_forged_daemon_file_is_refused() {
    let forgery = Forged::new();
    let state = forgery.home.state();
    let file = state.join("daemon.json");
    let (url, token) = (forgery.url(), state.join("token"));

    // The file names a token file outside of the directory.
    let outside_text = "the token that it names is not in the same directory";
    for path in ["../secret", "/etc/hostname", "x/../../secret", ".."] {
        forgery.announce(&url, &state.join(path));
        forgery.assert_refuses(outside_text).await;
    }
    symlink(forgery.home.path().join("secret"), state.join("link")).expect("linked");
    forgery.announce(&url, &state.join("link"));
    forgery.assert_refuses("cannot use").await;

    // The file has an address on another machine.
    for url in [
        "http://192.0.2.1:7420",
        "http://127.0.0.1.example.com:7420",
        "http://127.0.0.1:7420@192.0.2.1:80",
        "https://127.0.0.1:7420",
        "http://localhost:7420",
        "",
    ] {
        forgery.announce(url, &token);
        forgery.assert_refuses("which is not loopback").await;
    }

    // The file has wrong permissions, or is not a regular file.
    forgery.announce(&url, &token);
    mode(&file, 0o666);
    forgery.assert_refuses("others can write to").await;
    fs::rename(&file, state.join("elsewhere")).expect("renamed");
    symlink("elsewhere", &file).expect("linked");
    forgery.assert_refuses("cannot use").await;
    fs::remove_file(&file).expect("removed");
    rustix::fs::mkfifoat(rustix::fs::CWD, &file, rustix::fs::Mode::RUSR).expect("made");
    forgery.assert_refuses("is not a regular file").await;
    if is_root("somebody else's daemon.json") {
        fs::remove_file(&file).expect("removed");
        forgery.announce(&url, &token);
        chown(&file, Some(12345), None).expect("given");
        forgery.assert_refuses("belongs to user 12345").await;
    }

    // With a correct file, commands connect.
    fs::remove_file(&file).expect("removed");
    forgery.announce(&url, &token);
    assert_eq!(fs::metadata(&file).expect("there").mode() & 0o022, 0);
    let mut child = forgery.home.command(&["list"]).spawn().expect("it starts");
    let contact = tokio::time::timeout(Duration::from_secs(30), async {
        while forgery.listener.accept().is_err() {
            tokio::task::yield_now().await;
        }
    });
    contact.await.expect("asked");
    child.kill().await.expect("killed");
}
