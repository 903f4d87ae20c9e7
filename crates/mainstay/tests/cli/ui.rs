//! `mainstay ui`, and the link to the web page in the output of `mainstay serve`.

use std::{fs, os::unix::fs::PermissionsExt as _};

use mainstay_testkit::{Home, Run, Serving, home, limits::PROGRAMS, until, within};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::terminal::Terminal;

/// The HTTP response to a browser's request.
async fn ask(url: &str, request: &str, headers: &str, body: &str) -> String {
    let address = url.trim_start_matches("http://");
    let request = format!(
        "{request} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len()
    );
    let mut answer = String::new();
    within(async {
        let mut stream = TcpStream::connect(address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("written");
        stream.read_to_string(&mut answer).await.expect("answered");
    })
    .await;
    answer
}

/// The browser session after a sign-in.
struct SignedIn {
    /// The value of the cookie.
    secret: String,
    page_key: String,
}

/// Signs in with a link. `None` if its code is invalid.
async fn follow_link(url: &str, link: &str) -> Option<SignedIn> {
    let code = link.strip_prefix(url)?.strip_prefix("/#/sign-in?code=")?;
    let body = json!({"code": code}).to_string();
    let answer = ask(url, "POST /api/session", "", &body).await;
    let cookie = answer.split("set-cookie: ").nth(1)?.split(';').next()?;
    let key = answer.split("\"pageKey\":\"").nth(1)?.split('"').next()?;
    let (_, secret) = cookie.split_once('=')?;
    Some(SignedIn {
        secret: secret.to_owned(),
        page_key: key.to_owned(),
    })
}

/// True if the browser session opens the API of the daemon at `url`. The port may differ from that
/// of the sign-in.
async fn opens_api(url: &str, SignedIn { secret, page_key }: &SignedIn) -> bool {
    let port = url.rsplit(':').next().expect("a port");
    let headers = format!("cookie: mainstay-{port}={secret}\r\nx-page-key: {page_key}\r\n");
    let answer = ask(url, "GET /api/session", &headers, "").await;
    answer.starts_with("HTTP/1.1 200 ")
}

async fn run(home: &Home, arguments: &[&str], variables: &[(&str, &str)]) -> Run {
    let mut command = home.command(arguments);
    command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    command.envs(variables.iter().copied());
    let output = within(command.output()).await.expect("it starts");
    Run::new(arguments, &output)
}

async fn serve(home: &Home) -> Serving {
    let config = home.file("servers.json", r#"{"mcpServers": {}}"#);
    home.serve(&["--config", &config]).await
}

#[tokio::test]
async fn the_link_is_printed_where_nothing_can_open_it() {
    let home = home!();
    let daemon = serve(&home).await;
    for (arguments, expected_text) in [
        (["ui", "--no-open"], ""),
        (["ui", "--print"], ""),
        (["ui", "--color=never"], "there is no display here"),
    ] {
        let ui = run(&home, &arguments, &[]).await;
        assert_eq!(ui.code, Some(0), "{ui}");
        assert!(ui.stderr.contains(expected_text), "{ui}");
        assert!(
            ui.stderr.contains("within 15 minutes") && !ui.stderr.contains("code="),
            "{ui}"
        );
        let link = ui.stdout.trim_end();
        let browser = follow_link(&daemon.url, link).await.expect("signed in");
        assert!(opens_api(&daemon.url, &browser).await);
        assert!(
            follow_link(&daemon.url, link).await.is_none(),
            "it was used"
        );
    }
    let display = [("DISPLAY", ":9"), ("PATH", "/nonexistent")];
    let ui = run(&home, &["ui"], &display).await;
    assert_eq!(ui.code, Some(0), "{ui}");
    assert!(ui.stderr.contains("xdg-open cannot be started"), "{ui}");
    assert!(
        follow_link(&daemon.url, ui.stdout.trim_end())
            .await
            .is_some()
    );
    let ui = run(&home, &["ui", "--json"], &[]).await;
    let printed: Value = ui.json();
    assert_eq!(
        (&printed["opened"], &printed["expiresInSeconds"]),
        (&json!(false), &json!(900))
    );
    let link = printed["url"].as_str().expect("a link");
    assert!(follow_link(&daemon.url, link).await.is_some(), "{ui}");
    daemon.stop().await;
}

#[tokio::test]
async fn the_desktop_opens_the_link_and_nobody_else_sees_it() {
    let home = home!();
    let daemon = serve(&home).await;
    let (programs, opened_path) = (home.path().join("bin"), home.path().join("seen"));
    fs::create_dir(&programs).expect("made");
    let desktop = programs.join("xdg-open");
    // The script stays alive, like a browser.
    let script = format!(
        "#!/bin/sh\necho noise\necho \"$@\" > {0}.new\nmv {0}.new {0}\n\
         while [ -d {1} ]; do sleep 0.1; done\n",
        opened_path.display(),
        programs.display()
    );
    fs::write(&desktop, script).expect("written");
    fs::set_permissions(&desktop, fs::Permissions::from_mode(0o755)).expect("set");
    let path = format!("{}:/usr/bin:/bin", programs.display());
    for variable in ["DISPLAY", "WAYLAND_DISPLAY"] {
        let ui = run(&home, &["ui"], &[("PATH", &path), (variable, "x")]).await;
        assert_eq!((ui.code, &*ui.stdout), (Some(0), ""), "{ui}");
        assert!(
            ui.stderr.starts_with(&format!("opened {}", daemon.url)),
            "{ui}"
        );
        assert!(!ui.stderr.contains("code="), "{ui}");
        until(PROGRAMS, "the link to be opened", || opened_path.exists()).await;
        let link = fs::read_to_string(&opened_path).expect("a link");
        fs::remove_file(&opened_path).expect("removed");
        assert!(
            follow_link(&daemon.url, link.trim_end()).await.is_some(),
            "{link}"
        );
    }
    daemon.stop().await;
}

#[tokio::test]
async fn without_a_daemon_or_its_page_the_exit_code_says_so() {
    let home = home!();
    let ui = run(&home, &["ui", "--no-open"], &[]).await;
    assert_eq!((ui.code, &*ui.stdout), (Some(3), ""), "{ui}");
    assert!(
        ui.stderr
            .contains("hint: start one with `mainstay serve`\n"),
        "{ui}"
    );
    assert!(!home.state().exists(), "asking makes nothing");

    let config = home.file(
        "servers.json",
        r#"{"mcpServers": {}, "http": {"page": false}}"#,
    );
    let mut daemon = home.serve(&["--config", &config]).await;
    let ui = run(&home, &["ui", "--json"], &[]).await;
    assert_eq!((ui.code, &*ui.stdout), (Some(1), ""), "{ui}");
    let error: Value = serde_json::from_str(&ui.stderr).expect("JSON");
    assert_eq!(error["error"], "no_page");
    assert!(
        error["hint"]
            .as_str()
            .is_some_and(|hint| hint.contains("http.page")),
        "{ui}"
    );
    daemon.wait_for_stderr("ready: ").await;
    assert!(
        !daemon.stderr_text.contains("web page"),
        "{}",
        daemon.stderr_text
    );
    daemon.stop().await;
}

/// The link is printed only on a terminal, because other output may be stored.
#[tokio::test]
async fn serve_prints_a_link_on_a_terminal_only() {
    let home = home!();
    let mut daemon = serve(&home).await;
    daemon
        .wait_for_stderr("web page: `mainstay ui` opens it")
        .await;
    daemon.wait_for_stderr("ready: ").await;
    assert!(
        !daemon.stderr_text.contains("code="),
        "{}",
        daemon.stderr_text
    );
    daemon.stop().await;

    let mut terminal = Terminal::of_width(200);
    let mut daemon = terminal.start(home.command(&["serve", "--demo", "--listen", "127.0.0.1:0"]));
    terminal.until("(once; later `mainstay ui`)").await;
    daemon.kill().await.expect("killed");
    let screen = String::from_utf8(terminal.end().await).expect("UTF-8");
    let line = screen
        .lines()
        .find(|line| line.starts_with("web page: http://127.0.0.1:"));
    assert!(
        line.is_some_and(|line| line.contains("/#/sign-in?code=")),
        "{screen}"
    );
}

/// `token rotate` signs all browsers out. A daemon is not needed.
#[tokio::test]
async fn a_new_control_token_signs_every_browser_out() {
    let home = home!();
    let daemon = serve(&home).await;
    let link = run(&home, &["ui", "--no-open"], &[]).await;
    let browser = follow_link(&daemon.url, link.stdout.trim_end())
        .await
        .expect("signed in");
    daemon.stop().await;
    let daemon = serve(&home).await;
    assert!(opens_api(&daemon.url, &browser).await);
    daemon.stop().await;
    let rotated_run = home.run(&["token", "rotate"]).await;
    assert_eq!(rotated_run.code, Some(0), "{rotated_run}");
    let daemon = serve(&home).await;
    assert!(!opens_api(&daemon.url, &browser).await);
    daemon.stop().await;
}
