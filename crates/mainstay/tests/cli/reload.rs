//! Reloads after a signal, by the command, and after changes of the file.

use std::path::{Path, PathBuf};

use mainstay_testkit::{Home, Serving, home, within};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

/// A configuration of fakes with these names.
fn config(names: &[&str]) -> String {
    let program = fake_server::binary();
    let entries = names
        .iter()
        .map(|name| ((*name).to_owned(), json!({"command": program})));
    json!({"mcpServers": Value::Object(entries.collect())}).to_string()
}

/// Runs `serve` until this number of servers is connected.
async fn serve_until_ready(home: &Home, arguments: &[&str], count: usize) -> Serving {
    let mut daemon = home.serve(arguments).await;
    daemon
        .wait_for_stderr(&format!("ready: {count} of {count}"))
        .await;
    daemon
}

/// Creates a folder with a configuration of these fakes. Returns the path of the file.
fn folder_with(folder: &Path, file: &str, names: &[&str]) -> PathBuf {
    std::fs::create_dir(folder).expect("made");
    let path = folder.join(file);
    std::fs::write(&path, config(names)).expect("written");
    path
}

/// The names of the servers, each with its process id.
async fn servers(home: &Home) -> Vec<(String, u64)> {
    let servers = home.run(&["list", "--json"]).await.json()["servers"].clone();
    let servers = servers.as_array().expect("a list").iter();
    let name_and_pid = |server: &Value| {
        let name = server["name"].as_str().expect("a name").to_owned();
        (name, server["pid"].as_u64().unwrap_or_default())
    };
    servers.map(name_and_pid).collect()
}

/// Waits until exactly these servers have a process.
async fn until_up(home: &Home, names: &[&str]) -> Vec<(String, u64)> {
    within(async {
        loop {
            let servers = servers(home).await;
            let running_servers = servers.iter().filter(|(_, pid)| *pid > 0);
            if servers.len() == names.len() && running_servers.map(|(name, _)| name).eq(names) {
                return servers;
            }
        }
    })
    .await
}

#[tokio::test]
async fn a_file_that_changes_is_read_again() {
    let home = home!();
    let path = home.file("servers.json", &config(&["one"]));
    let mut daemon = serve_until_ready(&home, &["--config", &path], 1).await;
    let servers_before = servers(&home).await;

    // Write the file in place. The log has a line for each change.
    home.file("servers.json", &config(&["one", "two"]));
    let line = daemon.wait_for_stderr("reloaded").await;
    assert_eq!(line, "reloaded:");
    assert_eq!(
        daemon.wait_for_stderr("two").await,
        "  + two  is added and started"
    );
    assert_eq!(daemon.wait_for_stderr("unchanged").await, "  = 1 unchanged");
    let after = until_up(&home, &["one", "two"]).await;
    assert_eq!(after[0], servers_before[0], "the same process");

    // Replace the file by a rename, twice, as editors do.
    for names in [&["one", "three"][..], &["one", "four"]] {
        let new_file = home.file("servers.json.swp", &config(names));
        std::fs::rename(new_file, &path).expect("renamed");
        daemon.wait_for_stderr("reloaded:").await;
        assert_eq!(until_up(&home, names).await[0], servers_before[0]);
    }

    // An invalid file changes nothing. The log has the reason.
    home.file("servers.json", "{\n  \"mcpServers\": {\n");
    daemon
        .wait_for_stderr("not reloaded: the configuration stays as it was")
        .await;
    daemon.wait_for_stderr("servers.json:").await;
    assert_eq!(servers(&home).await.len(), 2);
    // The error is printed once.
    assert!(
        !daemon.stderr_text.contains("ERROR"),
        "{}",
        daemon.stderr_text
    );
    // A problem in an entry has its position.
    home.file(
        "servers.json",
        r#"{"mcpServers": {"wrong": {"url": "http://localhost:99999/"}}}"#,
    );
    let finding = daemon.wait_for_stderr("the URL's port").await;
    assert!(finding.contains("servers.json:1:34: "), "{finding}");
    let line = daemon.wait_for_stderr("wrong  error").await;
    assert!(line.contains("correct its entry in"), "{line}");
    daemon.stop().await;
}

#[tokio::test]
async fn a_hangup_reloads() {
    let home = home!();
    let target_folder = folder_with(&home.path().join("elsewhere"), "servers.json", &["one"]);
    let link = home.path().join("servers.json");
    std::os::unix::fs::symlink(&target_folder, &link).expect("linked");
    let link = link.to_str().expect("UTF-8");
    let mut daemon = serve_until_ready(&home, &["--config", link], 1).await;
    std::fs::write(&target_folder, config(&["one", "two"])).expect("written");
    daemon.signal(Signal::HUP);
    daemon.wait_for_stderr("reloaded:").await;
    until_up(&home, &["one", "two"]).await;
    // Signal the daemon process itself.
    std::fs::write(&target_folder, config(&["two"])).expect("written");
    let pid = i32::try_from(daemon.daemon_pid())
        .ok()
        .and_then(Pid::from_raw);
    kill_process(pid.expect("a process id"), Signal::HUP).expect("it lives");
    daemon.wait_for_stderr("reloaded:").await;
    until_up(&home, &["two"]).await;
    daemon.stop().await;
}

/// A warning is printed only once for each change of the file.
#[tokio::test]
async fn a_reload_says_what_is_odd_about_the_file() {
    let home = home!();
    let program = fake_server::binary();
    let odd_config =
        |key: &str| json!({"mcpServers": {"one": {"command": program, key: 1}}}).to_string();
    let path = home.file("servers.json", &config(&["one"]));
    let mut daemon = serve_until_ready(&home, &["--config", &path], 1).await;

    home.file("servers.json", &odd_config("comand"));
    let line = daemon.wait_for_stderr("unknown key").await;
    assert!(
        line.starts_with("warning: ") && line.contains("servers.json:1:"),
        "{line}"
    );
    assert!(line.contains("mcpServers.one.comand"), "{line}");
    assert_eq!(
        daemon.wait_for_stderr("reloaded").await,
        "reloaded: nothing changes"
    );

    // Write the same text again, and then another key.
    home.file("servers.json", &odd_config("comand"));
    home.file("servers.json", &odd_config("arsg"));
    assert!(daemon.wait_for_stderr("arsg").await.contains("unknown key"));
    daemon.wait_for_stderr("reloaded: nothing changes").await;
    assert_eq!(
        daemon.stderr_text.matches(".comand: ").count(),
        1,
        "{}",
        daemon.stderr_text
    );

    // Reload by a signal.
    daemon.signal(Signal::HUP);
    assert!(daemon.wait_for_stderr("arsg").await.contains("unknown key"));
    daemon.wait_for_stderr("reloaded: nothing changes").await;
    daemon.stop().await;
}

#[tokio::test]
async fn the_command_reloads_or_says_what_it_would() {
    let home = home!();
    // A file that the configuration refers to is not watched.
    let number = home.path().join("number");
    std::fs::write(&number, "1").expect("written");
    let program = fake_server::binary();
    let text = json!({"mcpServers": {
        "one": {"command": program, "env": {"NUMBER": "${file:number}"}},
        "two": {"command": program},
    }});
    let path = home.file("servers.json", &text.to_string());
    let daemon = serve_until_ready(&home, &["--config", &path], 2).await;
    let servers_before = servers(&home).await;
    std::fs::write(&number, "2").expect("written");

    let dry_run = home.run(&["reload", "--dry-run"]).await;
    assert_eq!(dry_run.code, Some(0), "{dry_run}");
    assert!(dry_run.stdout.contains("one  is restarted"), "{dry_run}");
    assert_eq!(servers(&home).await, servers_before);

    let json = home.run(&["reload", "--dry-run", "--json"]).await.json();
    assert_eq!(json["applied"], false, "{json}");
    let run = home.run(&["reload", "--json"]).await;
    assert_eq!((run.code, &run.json()["applied"]), (Some(0), &json!(true)));
    assert_eq!(run.json()["plan"], json["plan"], "it does what it said");
    let after = within(async {
        loop {
            let after = until_up(&home, &["one", "two"]).await;
            if after[0] != servers_before[0] {
                return after;
            }
        }
    })
    .await;
    assert_eq!(after[1], servers_before[1]);

    std::fs::write(&path, "{\"mcpServers\": {\"a\": {}}").expect("written");
    let invalid_run = home.run(&["reload"]).await;
    assert_eq!(invalid_run.code, Some(2), "{invalid_run}");
    assert!(
        invalid_run.stderr.contains("servers.json:1:"),
        "{invalid_run}"
    );
    assert_eq!(servers(&home).await, after);
    daemon.stop().await;
}

/// If the file disappears, the servers continue with a warning. The file is read again when it
/// returns.
#[tokio::test]
async fn a_file_that_is_gone_for_a_moment_stops_nothing() {
    let home = home!();
    let path = folder_with(&home.state(), "config.json", &["one", "two"]);
    let mut daemon = serve_until_ready(&home, &[], 2).await;
    let servers_before = servers(&home).await;

    std::fs::remove_file(&path).expect("removed");
    daemon
        .wait_for_stderr("not reloaded: the configuration stays")
        .await;
    daemon.wait_for_stderr("config.json has gone").await;
    assert_eq!(servers(&home).await, servers_before);
    for command in [&["list"][..], &["health"]] {
        let run = home.run(command).await;
        let warning = "warning: the configuration stays as it was: ";
        assert!(run.stderr.contains(warning), "{run}");
        assert!(run.stderr.contains("config.json has gone"), "{run}");
    }
    let list = home.run(&["list", "--json"]).await.json();
    assert_eq!(list["warnings"].as_array().map(Vec::len), Some(1), "{list}");

    // An unreadable file has the same effect.
    std::fs::create_dir(&path).expect("made");
    daemon
        .wait_for_stderr("it is a folder, not a regular file")
        .await;
    assert_eq!(servers(&home).await, servers_before);
    std::fs::remove_dir(&path).expect("removed");

    std::fs::write(&path, config(&["one", "two"])).expect("written");
    daemon.wait_for_stderr("reloaded: nothing changes").await;
    assert_eq!(servers(&home).await, servers_before);
    let run = home.run(&["list"]).await;
    assert_eq!(run.stderr, "", "{run}");

    // The file is still watched.
    std::fs::write(&path, config(&["one"])).expect("written");
    daemon.wait_for_stderr("reloaded:").await;
    until_up(&home, &["one"]).await;
    daemon.stop().await;
}

/// The folder of the file may be removed and created again.
#[tokio::test]
async fn a_folder_that_comes_back_is_watched_again() {
    let home = home!();
    let folder = home.path().join("etc");
    let path = folder_with(&folder, "servers.json", &["one"]);
    let mut daemon =
        serve_until_ready(&home, &["--config", path.to_str().expect("UTF-8")], 1).await;
    std::fs::remove_dir_all(&folder).expect("removed");
    daemon.wait_for_stderr("not reloaded: ").await;
    folder_with(&folder, "servers.json", &["one", "two"]);
    daemon.wait_for_stderr("reloaded:").await;
    until_up(&home, &["one", "two"]).await;
    std::fs::write(&path, config(&["one"])).expect("written");
    daemon.wait_for_stderr("reloaded:").await;
    until_up(&home, &["one"]).await;
    daemon.stop().await;
}

/// A manual reload without a file removes all servers. `add` creates the file again.
#[tokio::test]
async fn a_file_that_is_gone_is_done_without_by_reload() {
    let home = home!();
    let path = folder_with(&home.state(), "config.json", &["one", "two"]);
    let mut daemon = serve_until_ready(&home, &[], 2).await;
    let program = fake_server::binary();
    let program = program.to_str().expect("UTF-8");

    std::fs::remove_file(&path).expect("removed");
    daemon.wait_for_stderr("config.json has gone").await;
    let run = home.run(&["add", "three", "--", program]).await;
    assert_eq!(run.code, Some(0), "{run}");
    until_up(&home, &["one", "two", "three"]).await;
    let text = std::fs::read_to_string(&path).expect("it is back");
    assert!(text.contains("two") && text.contains("three"), "{text}");
    let run = home.run(&["list"]).await;
    assert_eq!(run.stderr, "", "{run}");

    std::fs::remove_file(&path).expect("removed");
    daemon.wait_for_stderr("config.json has gone").await;
    let run = home.run(&["reload"]).await;
    assert_eq!(run.code, Some(0), "{run}");
    until_up(&home, &[]).await;
    let run = home.run(&["list"]).await;
    assert_eq!(run.stderr, "no servers are configured\n", "{run}");
    daemon.stop().await;
}

/// The folder may be renamed, and another folder may take its name.
#[tokio::test]
async fn a_folder_that_is_swapped_is_followed_by_its_name() {
    let home = home!();
    let path_of = |name: &str| home.path().join(name);
    let write = |folder: &str, names: &[&str]| folder_with(&path_of(folder), "servers.json", names);
    let path = write("cfg", &["one"]);
    let path = path.to_str().expect("UTF-8");
    let mut daemon = serve_until_ready(&home, &["--config", path], 1).await;
    let servers_before = servers(&home).await;

    std::fs::rename(path_of("cfg"), path_of("cfg2")).expect("renamed");
    daemon.wait_for_stderr("not reloaded: ").await;
    let run = home.run(&["list"]).await;
    assert!(run.stderr.contains("stays as it was"), "{run}");
    assert_eq!(servers(&home).await, servers_before);
    write("cfg", &["one", "two"]);
    daemon.wait_for_stderr("reloaded:").await;
    assert_eq!(until_up(&home, &["one", "two"]).await[0], servers_before[0]);

    write("new", &["one", "three"]);
    std::fs::rename(path_of("cfg"), path_of("old")).expect("renamed");
    std::fs::rename(path_of("new"), path_of("cfg")).expect("renamed");
    until_up(&home, &["one", "three"]).await;
    // The new folder is watched.
    std::fs::write(path_of("cfg").join("servers.json"), config(&["one"])).expect("written");
    assert_eq!(until_up(&home, &["one"]).await, servers_before);
    let run = home.run(&["list"]).await;
    assert_eq!(run.stderr, "", "{run}");
    daemon.stop().await;
}

/// The path may be a symbolic link whose target changes.
#[tokio::test]
async fn the_target_of_a_link_is_watched() {
    let home = home!();
    let path_of = |name: &str| home.path().join(name);
    for (folder, names) in [("etc", &[][..]), ("real", &["one"]), ("next", &["three"])] {
        folder_with(&path_of(folder), "c.json", names);
    }
    let link = path_of("etc").join("config.json");
    std::os::unix::fs::symlink("../real/c.json", &link).expect("linked");
    let path = link.to_str().expect("UTF-8");
    let daemon = serve_until_ready(&home, &["--config", path], 1).await;
    std::fs::write(path_of("real").join("c.json"), config(&["two"])).expect("written");
    until_up(&home, &["two"]).await;
    std::fs::rename(path_of("real"), path_of("old")).expect("renamed");
    std::fs::rename(path_of("next"), path_of("real")).expect("renamed");
    until_up(&home, &["three"]).await;
    std::os::unix::fs::symlink("../old/c.json", path_of("etc").join("new")).expect("linked");
    std::fs::rename(path_of("etc").join("new"), &link).expect("renamed");
    until_up(&home, &["two"]).await;
    daemon.stop().await;
}

/// If a referenced file is missing at a reload, no server stops.
#[tokio::test]
async fn a_referenced_file_that_is_away_stops_nothing() {
    let home = home!();
    let token = home.path().join("token");
    let program = fake_server::binary();
    let config = |extra_arguments: &[&str]| {
        let mut entries = json!({
            "one": {"command": program, "env": {"TOKEN": "${file:token}"}},
            "env": {"command": program, "envFile": "token"},
        });
        for name in extra_arguments {
            entries[*name] = json!({"command": program});
        }
        json!({"mcpServers": entries}).to_string()
    };
    std::fs::write(&token, "A=1").expect("written");
    let path = home.file("servers.json", &config(&[]));
    let mut daemon = serve_until_ready(&home, &["--config", &path], 2).await;
    let servers_before = servers(&home).await;
    std::fs::remove_file(&token).expect("removed");
    home.file("servers.json", &config(&["two"]));
    daemon.wait_for_stderr("reloaded:").await;
    assert_eq!(
        until_up(&home, &["one", "env", "two"]).await[..2],
        servers_before
    );
    let run = home.run(&["list"]).await;
    let warning = "one goes on with what it was started with: ";
    assert!(run.stderr.contains(warning), "{run}");
    std::fs::write(&token, "A=1").expect("written");
    daemon.wait_for_stderr("reloaded: nothing changes").await;
    let run = home.run(&["list"]).await;
    assert_eq!(run.stderr, "", "{run}");
    assert_eq!(servers(&home).await[..2], servers_before);
    daemon.stop().await;

    // A server whose file is missing starts when the file exists.
    std::fs::remove_file(&token).expect("removed");
    let mut daemon = home.serve(&["--config", &path]).await;
    daemon.wait_for_stderr("ready: ").await;
    std::fs::write(&token, "A=1").expect("written");
    until_up(&home, &["one", "env", "two"]).await;
    daemon.stop().await;
}
