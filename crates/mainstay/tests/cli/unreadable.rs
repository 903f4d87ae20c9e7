//! Configurations and referenced files that cannot be read.

use mainstay_testkit::{Home, home, within};
use rustix::fs::{CWD, FileType, Mode, mknodat};

fn fifo(home: &Home, name: &str) -> String {
    let path = home.path().join(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO can be made");
    path.to_str().expect("UTF-8").to_owned()
}

/// `validate` reports the error with its position and reason, as text and as JSON.
#[tokio::test]
async fn validate_ends_whatever_the_paths_lead_to() {
    let home = home!();
    let fifo = fifo(&home, "fifo");
    let run = within(home.run(&["validate", &fifo])).await;
    assert_eq!(run.code, Some(2), "{run}");
    let error = format!("cannot read {fifo}: it is a FIFO, not a regular file");
    assert!(run.stderr.contains(&error), "{run}");
    assert!(run.stderr.contains("name a regular file"), "{run}");

    let entry = |reference: &str| {
        let servers = format!(
            r#"{{"a": {{"command": "x", "args": ["{reference}"]}}, "b": {{"command": "x"}}}}"#
        );
        home.file("servers.json", &format!(r#"{{"mcpServers": {servers}}}"#))
    };
    for (path, reason) in [
        (
            fifo.as_str(),
            "it is a FIFO, not a regular file (name a regular file)",
        ),
        (
            "/dev/zero",
            "it is a device, not a regular file (name a regular file)",
        ),
        (
            "/dev/ptmx",
            "it is a device, not a regular file (name a regular file)",
        ),
        (
            "/dev/stdin",
            "it is a device, not a regular file (name a regular file)",
        ),
        (
            "/",
            "it is a folder, not a regular file (name a regular file)",
        ),
    ] {
        let file = entry(&format!("${{file:{path}}}"));
        let run = within(home.run(&["validate", &file])).await;
        assert_eq!(run.code, Some(2), "{run}");
        let error = format!("mcpServers.a.args[0]: cannot read {path:?}: {reason}");
        assert!(run.stderr.contains(&error), "{run}");
        let run = within(home.run(&["validate", "--json", &file])).await;
        let report = run.json();
        assert_eq!(report["errors"].as_array().map(Vec::len), Some(1), "{run}");
        assert_eq!(report["servers"], 2, "{run}");
    }
    let file = entry(&"${input:p}".repeat(3));
    let text = std::fs::read_to_string(&file).expect("there");
    let inputs = format!(
        r#"{{"inputs": [{{"id": "p", "default": "{}"}}], "#,
        "x".repeat(400_000)
    );
    std::fs::write(&file, text.replacen('{', &inputs, 1)).expect("written");
    let run = within(home.run(&["validate", &file])).await;
    assert_eq!(run.code, Some(2), "{run}");
    assert!(run.stderr.contains("have more than 1 MiB"), "{run}");
}

/// Without a daemon, commands that read or change the file fail at once.
#[tokio::test]
async fn no_command_waits_for_a_configuration_that_is_no_file() {
    let home = home!();
    std::fs::create_dir_all(home.state()).expect("made");
    let path = home.state().join("config.json");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a FIFO can be made");
    for arguments in [
        &["add", "x", "--", "echo"][..],
        &["remove", "x"],
        &["enable", "x"],
        &["serve", "--listen", "127.0.0.1:0"],
        &["mcp"],
        &["validate"],
    ] {
        let run = within(home.run(arguments)).await;
        assert_eq!(run.code, Some(2), "{run}");
        assert!(
            run.stderr.contains("it is a FIFO, not a regular file"),
            "{run}"
        );
    }
    assert!(
        std::fs::symlink_metadata(&path).is_ok_and(|metadata| !metadata.is_file()),
        "it is as it was"
    );
}
