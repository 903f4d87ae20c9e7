//! `mainstay config`: path, show, edit and schema.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use insta::assert_snapshot;
use mainstay_testkit::{Home, Run, Terminal, home, within};
use serde_json::{Value, json};

use crate::fakes::fakes;

/// Writes an editor script that replaces the edited file by this text.
fn editor(home: &Home, text: &str) -> String {
    home.file("new-text", text);
    let script = home.file("editor", "#!/bin/sh\ncat \"$HOME/new-text\" > \"$1\"\n");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
    script
}

/// Runs `config edit` with these arguments and this editor, without a terminal.
async fn edit(home: &Home, editor: &str, arguments: &[&str]) -> Run {
    let arguments = [&["config", "edit"], arguments].concat();
    let mut command = home.command(&arguments);
    command.env("EDITOR", editor).env_remove("VISUAL");
    command.env("TMPDIR", home.path());
    let output = within(command.output()).await.expect("it starts");
    Run::new(&arguments, &output)
}

fn mode(path: &str) -> u32 {
    fs::metadata(path).expect("there").permissions().mode() & 0o777
}

#[tokio::test]
async fn the_file_is_named_with_the_reason() {
    let home = home!();
    let run = home.run(&["config", "path"]).await;
    let usual = home.state().join("config.json").display().to_string();
    assert_eq!(run.stdout.trim_end(), usual);
    assert_eq!(run.stderr, "there is no such file yet, and so no servers\n");
    assert_eq!(run.code, Some(0));
    let config = fakes(&home, &[("one", &[])]);
    let json = home
        .run(&["config", "path", "--json", "--config", &config])
        .await
        .json();
    let expected =
        json!({"path": config, "namedBy": "--config", "exists": true, "servedByDaemon": null});
    assert_eq!(json, expected);
    let mut named_command = home.command(&["config", "path", "--json"]);
    named_command.env("MAINSTAY_CONFIG", &config);
    let named_command = within(named_command.output()).await.expect("it starts");
    let named_command = Run::new(&["config", "path"], &named_command).json();
    assert_eq!(named_command["namedBy"], "MAINSTAY_CONFIG");

    // A daemon that serves another file causes a warning.
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 1 of 1").await;
    let run = home.run(&["config", "path"]).await;
    let served_path = fs::canonicalize(&config).expect("there");
    let warning = format!(
        "warning: the running daemon has read {}\n",
        served_path.display()
    );
    assert!(run.stderr.ends_with(&warning), "{run}");
    let same_run = home.run(&["config", "path", "--config", &config]).await;
    assert_eq!(same_run.stderr, "", "{same_run}");
    daemon.stop().await;
}

#[tokio::test]
async fn the_effective_configuration_is_shown_without_secrets() {
    let home = home!();
    let file = home.file(
        "vscode.json",
        r#"{"servers": [
            {"name": "files", "command": "npx", "args": ["-y", "${HOME}/x"], "env": {"API_KEY": "s3cret"}},
            {"name": "web", "serverUrl": "https://example.com/mcp", "preset": "manual", "isActive": false},
            {"name": "bad", "args": []}
        ], "naming": "slash"}"#,
    );
    let show_command = ["config", "show", "--config", &file];
    let show_with =
        |extra_arguments: &[&'static str]| [show_command.as_slice(), extra_arguments].concat();
    assert_snapshot!(
        home.transcript(&[
            &show_command,
            &show_with(&["-o", "yaml"]),
            &["config", "show"],
            &["config", "show", "--config", "nowhere.json"],
            &["config", "show", "--config", "nowhere.json", "-o", "json"],
        ])
        .await
    );
    let json = home.run(&show_with(&["--json"])).await;
    assert_eq!(json.stdout.lines().count(), 1);
    assert_eq!(json.json()["mcpServers"]["web"]["enabled"], false);
    let full_output = home
        .run(&show_with(&["--defaults", "-o", "json"]))
        .await
        .json();
    assert_eq!(full_output["mcpServers"]["files"]["timeout_s"], 30);
    assert_eq!(full_output["http"]["maxSessions"], 20_000);
}

#[tokio::test]
async fn the_schema_is_printed() {
    let home = home!();
    let run = home.run(&["config", "schema"]).await;
    assert_eq!(
        run.stdout,
        include_str!("../../../../docs/config.schema.json")
    );
}

#[tokio::test]
async fn a_text_that_can_be_used_is_saved_with_its_mode_and_links() {
    let home = home!();
    let config = fakes(&home, &[("one", &[]), ("two", &[])]);
    fs::set_permissions(&config, fs::Permissions::from_mode(0o640)).expect("set");
    let link = home.path().join("link.json").display().to_string();
    symlink(&config, &link).expect("linked");
    let mut daemon = home.serve(&["--config", &config]).await;
    daemon.wait_for_stderr("ready: 2 of 2").await;
    let program = fake_server::binary();
    let text = json!({"mcpServers": {
        "one": {"command": program, "timeout": 9000},
        "three": {"command": program},
    }});
    let text = format!("{text:#}\n");
    let run = edit(&home, &editor(&home, &text), &["--config", &link]).await;
    assert_snapshot!(home.redacted(&run.to_string()));
    assert_eq!(fs::read_to_string(&config).expect("there"), text);
    assert_eq!(mode(&config), 0o640);
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    daemon.wait_for_stderr("three  connected").await;

    let unchanged_run = edit(&home, "true", &["--config", &config]).await;
    assert_eq!(
        (unchanged_run.code, &*unchanged_run.stderr),
        (Some(0), "nothing was changed\n")
    );
    let json = edit(
        &home,
        "sed -i s/9000/8000/",
        &["--config", &config, "--json"],
    )
    .await
    .json();
    assert_eq!(json["plan"]["servers"][0]["action"], "changed", "{json}");
    assert_eq!(json["servedByDaemon"], true);
    daemon.stop().await;
    // No temporary file remains.
    let remaining_entries = fs::read_dir(home.path()).expect("there");
    let copies = remaining_entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    assert_eq!(
        copies.filter(|copy| copy.starts_with("mainstay-")).count(),
        0
    );
}

#[tokio::test]
async fn a_text_that_cannot_be_used_leaves_the_file_as_it_was() {
    let home = home!();
    let config = fakes(&home, &[("one", &[])]);
    let previous_text = fs::read_to_string(&config).expect("there");
    let mut runs = Vec::new();
    for text in [
        "{\"mcpServers\": {",
        r#"{"mcpServers": {"one": {"command": "x"}}, "naming": "colon"}"#,
        r#"{"mcpServers": {"one": {"args": []}}}"#,
    ] {
        let run = edit(&home, &editor(&home, text), &["--config", &config]).await;
        assert_eq!(run.code, Some(2), "{run}");
        assert_eq!(fs::read_to_string(&config).expect("there"), previous_text);
        let (_, end) = run
            .stderr
            .split_once("the new text is in ")
            .expect("a path");
        let copy = end.lines().next().expect("a line");
        assert_eq!(fs::read_to_string(copy).expect("kept"), text);
        let folder = Path::new(copy).parent().expect("a folder");
        assert_eq!(
            fs::metadata(folder).expect("there").permissions().mode() & 0o777,
            0o700
        );
        runs.push(
            run.to_string()
                .replace(folder.to_str().expect("UTF-8"), "[COPY]"),
        );
    }
    let failed_run = edit(&home, "false", &["--config", &config]).await;
    assert_eq!(failed_run.code, Some(1));
    runs.push(failed_run.to_string());
    // An edit is possible although the file already has an invalid server.
    let wrong_file = home.file("wrong.json", r#"{"mcpServers": {"bad": {"args": []}}}"#);
    let text = r#"{"mcpServers": {"bad": {"args": []}, "good": {"command": "x"}}}"#;
    let saved_run = edit(&home, &editor(&home, text), &["--config", &wrong_file]).await;
    assert_eq!(saved_run.code, Some(0), "{saved_run}");
    assert_eq!(fs::read_to_string(&wrong_file).expect("there"), text);
    assert_snapshot!(home.redacted(&runs.join("\n")));
    let json = edit(&home, &editor(&home, "{"), &["--config", &config, "--json"]).await;
    let error: Value = serde_json::from_str(json.stderr.trim()).expect("one line of JSON");
    assert_eq!(error["error"], "invalid_config");
}

/// A file that another program changes during the edit is not overwritten.
#[tokio::test]
async fn a_file_that_was_changed_meanwhile_stays() {
    let home = home!();
    let config = home.file("c.json", r#"{"mcpServers": {}}"#);
    let client_text = r#"{"mcpServers": {}, "pageSize": 5}"#;
    home.file("theirs", client_text);
    let script = format!("cp \"$HOME/theirs\" '{config}'; sed -i 's/}}}}/}}, \"pageSize\": 9}}/'");
    let run = edit(&home, &script, &["--config", &config]).await;
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("was changed meanwhile"), "{run}");
    assert_eq!(fs::read_to_string(&config).expect("there"), client_text);
}

/// The first edit creates the file, readable only by its owner, and its schema.
#[tokio::test]
async fn a_file_is_made_with_its_schema() {
    let home = home!();
    let empty_run = edit(&home, "true", &[]).await;
    assert_eq!(empty_run.stderr, "nothing was changed\n");
    assert!(!home.state().join("config.json").exists());
    let run = edit(&home, "sed -i 's/{}/{\"a\": {\"command\": \"x\"}}/'", &[]).await;
    assert_eq!(run.code, Some(0), "{run}");
    let path = home.state().join("config.json");
    let text = fs::read_to_string(&path).expect("there");
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["$schema"], "./mainstay.schema.json");
    assert_eq!(value["mcpServers"]["a"]["command"], "x");
    assert_eq!(mode(path.to_str().expect("UTF-8")), 0o600);
    let schema = fs::read_to_string(home.state().join("mainstay.schema.json"));
    assert_eq!(
        schema.expect("there"),
        include_str!("../../../../docs/config.schema.json")
    );
    // The created file validates without warnings.
    let valid_run = home.run(&["validate"]).await;
    assert_eq!(
        (&*valid_run.stdout, &*valid_run.stderr),
        ("ok: 1 server\n", "")
    );
}

/// `add` and `import` set `$schema` in new files only.
#[tokio::test]
async fn new_files_name_the_schema() {
    let home = home!();
    let program = fake_server::binary().display().to_string();
    let add_run = home.run(&["add", "one", "--yes", "--", &program]).await;
    assert_eq!(add_run.code, Some(0), "{add_run}");
    let path = home.state().join("config.json");
    let text = fs::read_to_string(&path).expect("there");
    assert!(
        text.starts_with("{\n  \"$schema\": \"./mainstay.schema.json\",\n"),
        "{text}"
    );
    assert!(home.state().join("mainstay.schema.json").exists());

    let from = fakes(&home, &[("two", &[])]);
    let new_path = home.path().join("folder/new.json");
    fs::create_dir(home.path().join("folder")).expect("made");
    let new_path = new_path.to_str().expect("UTF-8");
    let imported_run = home
        .run(&["import", "--from", &from, "--config", new_path])
        .await;
    assert_eq!(imported_run.code, Some(0), "{imported_run}");
    let text = fs::read_to_string(new_path).expect("there");
    assert!(
        text.contains("\"$schema\": \"./mainstay.schema.json\""),
        "{text}"
    );
    assert!(home.path().join("folder/mainstay.schema.json").exists());

    let old_file = home.file("old.json", r#"{"mcpServers": {}}"#);
    home.run(&["import", "--from", &from, "--config", &old_file])
        .await;
    assert!(
        !fs::read_to_string(&old_file)
            .expect("there")
            .contains("$schema")
    );
    assert!(!home.path().join("mainstay.schema.json").exists());
}

/// After an invalid edit, a person on a terminal can edit again, save, or discard.
#[tokio::test]
async fn a_person_is_asked_what_becomes_of_a_bad_text() {
    if !Terminal::is_available() {
        return;
    }
    let home = home!();
    let config = home.file("c.json", r#"{"mcpServers": {}}"#);
    // The first edit writes invalid JSON. The second edit writes an invalid server.
    let script = home.file(
        "editor",
        "#!/bin/sh\nif grep -q broken \"$1\"; then echo '{\"mcpServers\": {\"bad\": {\"args\": []}}}' > \"$1\"; else echo '{broken' > \"$1\"; fi\n",
    );
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("set");
    let mut command = home.command(&["config", "edit", "--config", &config]);
    command.env("VISUAL", &script).env("EDITOR", "false");
    command.env("TMPDIR", home.path());
    let terminal = Terminal::start(&command, 100, 30).await;
    terminal
        .wait_for_text("[e]dit again, or [d]iscard it?")
        .await;
    terminal.press(&["e", "Enter"]).await;
    let screen = terminal.wait_for_text("[s]ave it nevertheless").await;
    assert!(
        screen.contains("Server bad: command is required"),
        "{screen}"
    );
    terminal.press(&["s", "Enter"]).await;
    assert_eq!(terminal.ended().await, Some(0));
    let saved_text = fs::read_to_string(&config).expect("there");
    assert_eq!(saved_text, "{\"mcpServers\": {\"bad\": {\"args\": []}}}\n");

    let script = home.file("editor", "#!/bin/sh\necho '{' > \"$1\"\n");
    let terminal = Terminal::start(&command, 100, 30).await;
    assert!(Path::new(&script).exists());
    terminal
        .wait_for_text("[e]dit again, or [d]iscard it?")
        .await;
    terminal.press(&["d", "Enter"]).await;
    assert_eq!(terminal.ended().await, Some(2));
    assert_eq!(fs::read_to_string(&config).expect("there"), saved_text);
}
