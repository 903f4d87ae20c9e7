//! An unusable journal. With `relaxed`, calls continue. With `strict`, the error says how to repair
//! it.

use std::{
    fs,
    io::{Seek as _, SeekFrom, Write as _},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use mainstay_testkit::{Home, Serving, get, home, within};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::json;

use crate::records::until_recorded;

/// A configuration of one server with this durability.
fn config(home: &Home, durability: &str) -> String {
    let config = json!({
        "mcpServers": {"fake": {"command": fake_server::binary()}},
        "journal": {"durability": durability},
    });
    home.file(&format!("{durability}.json"), &config.to_string())
}

/// A damaged journal is renamed and reported, and calls continue. With `strict`, the daemon does
/// not start.
#[tokio::test]
async fn a_damaged_journal_is_set_aside() {
    let home = home!();
    let (strict_config, relaxed_config) = (config(&home, "strict"), config(&home, "relaxed"));
    let journal = home.state().join("journal");
    let database = journal.join("journal.db");
    let call: &[&str] = &["call", "fake/echo", "text=x"];
    let overwritten_file = |from: u64| {
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(&database)
            .expect("a file");
        file.seek(SeekFrom::Start(from)).expect("a place");
        file.write_all(&[0x55; 4096]).expect("written");
    };
    let damages: [&dyn Fn(); 3] = [
        &|| overwritten_file(0),
        // Keep the header, and damage the tables.
        &|| overwritten_file(100),
        &|| {
            let journal = rusqlite::Connection::open(&database).expect("a database");
            journal.execute_batch("DROP TABLE calls").expect("dropped");
        },
    ];
    for (previous_damages, damage) in damages.into_iter().enumerate() {
        let daemon = home.serve(&["--config", &relaxed_config]).await;
        assert_eq!(home.run(call).await.code, Some(0));
        daemon.stop().await;

        damage();
        let refused_run = home
            .run(&[
                "serve",
                "--config",
                &strict_config,
                "--listen",
                "127.0.0.1:0",
            ])
            .await;
        assert_eq!(refused_run.code, Some(1), "{refused_run}");
        assert!(refused_run.stderr.contains("is damaged"), "{refused_run}");
        assert_eq!(
            entries(&home.state(), "journal-damaged-").len(),
            previous_damages
        );

        let mut daemon = home.serve(&["--config", &relaxed_config]).await;
        let stderr_line = daemon.wait_for_stderr("the journal is damaged").await;
        let damaged_entries = entries(&home.state(), "journal-damaged-");
        assert_eq!(damaged_entries.len(), previous_damages + 1);
        let newest_entry = damaged_entries.last().expect("one");
        assert!(
            stderr_line.contains(newest_entry.to_str().expect("UTF-8")),
            "{stderr_line}"
        );
        assert!(newest_entry.join("journal.db").is_file());
        assert_eq!(home.run(call).await.code, Some(0));
        until_recorded(&home, 1, &[]).await;
        daemon.stop().await;
    }

    overwritten_file(0);
    let refused_run = home
        .run(&[
            "serve",
            "--config",
            &strict_config,
            "--listen",
            "127.0.0.1:0",
        ])
        .await;
    let command = refused_run
        .stderr
        .split("begun: ")
        .nth(1)
        .expect("a command");
    let exit_status = std::process::Command::new("sh")
        .args(["-c", command])
        .status();
    assert!(exit_status.expect("it starts").success());
    let daemon = home.serve(&["--config", &strict_config]).await;
    assert_eq!(home.run(call).await.code, Some(0));
    daemon.stop().await;
}

/// Replaces a file or folder by what `make` creates.
fn replace(path: &Path, make: impl FnOnce(&Path)) {
    let removal = if path.is_dir() {
        fs::remove_dir_all(path)
    } else {
        fs::remove_file(path)
    };
    // Ignore the error: a closed database may lack these files.
    removal.ok();
    make(path);
}

fn folder(path: &Path) {
    fs::create_dir(path).expect("made");
}

fn file(path: &Path) {
    fs::write(path, "").expect("written");
}

fn pipe(path: &Path) {
    mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).expect("made");
}

fn link_to_nowhere(path: &Path) {
    symlink("/nowhere/at/all", path).expect("linked");
}

fn another_database(path: &Path) {
    let other_database = rusqlite::Connection::open(path).expect("a database");
    let photos = "CREATE TABLE photos (place)";
    other_database.execute_batch(photos).expect("made");
}

/// If the journal's path has another kind of file, it is renamed together with the journal's files.
/// The daemon does not follow it, block on it or delete it.
#[tokio::test]
async fn files_in_place_of_the_journal_are_renamed() {
    let home = home!();
    let (strict_config, relaxed_config) = (config(&home, "strict"), config(&home, "relaxed"));
    let journal = home.state().join("journal");
    let (database, objects) = (journal.join("journal.db"), journal.join("objects"));
    let victim_path = home.path().join("victim");
    let link = |path: &Path| {
        fs::copy(path, &victim_path).expect("copied");
        fs::remove_file(path).expect("removed");
        symlink(&victim_path, path).expect("linked");
    };
    let old_version = || {
        let journal = rusqlite::Connection::open(&database).expect("a database");
        let set = journal.pragma_update(None, "user_version", 1);
        set.expect("set");
    };
    let sidecar = |end: &str| journal.join(format!("journal.db-{end}"));
    let call: &[&str] = &["call", "fake/big", "bytes=100000"];
    // Each row has a description, the damage, the warning, and true if the objects remain.
    let damages: [(&str, &dyn Fn(), &str, bool); 13] = [
        (
            "the database is a folder",
            &|| replace(&database, folder),
            "journal.db is a folder",
            true,
        ),
        (
            "a pipe",
            &|| replace(&database, pipe),
            "journal.db is not a regular file",
            true,
        ),
        ("a link", &|| link(&database), "journal.db is a link", true),
        (
            "a link to nowhere",
            &|| replace(&database, link_to_nowhere),
            "journal.db is a link",
            true,
        ),
        (
            "empty",
            &|| replace(&database, file),
            "journal.db is empty",
            true,
        ),
        (
            "another's",
            &|| replace(&database, another_database),
            "journal.db is not a journal",
            true,
        ),
        (
            "of another version",
            &old_version,
            "made by another version (1)",
            true,
        ),
        (
            "the log is a folder",
            &|| replace(&sidecar("wal"), folder),
            "journal.db-wal is a folder",
            true,
        ),
        (
            "its index is a folder",
            &|| replace(&sidecar("shm"), folder),
            "journal.db-shm is a folder",
            true,
        ),
        (
            "the objects are a file",
            &|| replace(&objects, file),
            "objects is not a folder",
            false,
        ),
        (
            "so are all",
            &|| replace(&journal, file),
            "journal is not a folder",
            false,
        ),
        (
            "a pipe instead of all",
            &|| replace(&journal, pipe),
            "journal is not a folder",
            false,
        ),
        (
            "a link instead of all",
            &|| replace(&journal, link_to_nowhere),
            "journal is not a folder",
            false,
        ),
    ];
    for (number, (case, damage, expected_text, has_objects)) in damages.into_iter().enumerate() {
        let daemon = home.serve(&["--config", &relaxed_config]).await;
        assert_eq!(home.run(call).await.code, Some(0));
        until_recorded(&home, 1, &[]).await;
        daemon.stop().await;

        damage();
        let refused_run = home
            .run(&[
                "serve",
                "--config",
                &strict_config,
                "--listen",
                "127.0.0.1:0",
            ])
            .await;
        assert_eq!(refused_run.code, Some(1), "{case}: {refused_run}");
        for part in [expected_text, "mv '"] {
            assert!(
                refused_run.stderr.contains(part),
                "{case}: {part}: {refused_run}"
            );
        }
        assert!(
            !refused_run.stderr.contains("CREATE TABLE"),
            "{case}: {refused_run}"
        );

        let mut daemon = home.serve(&["--config", &relaxed_config]).await;
        let stderr_line = daemon.wait_for_stderr("the journal is damaged").await;
        assert!(stderr_line.contains(expected_text), "{case}: {stderr_line}");
        let damaged_entries = entries(&home.state(), "journal-damaged-");
        assert_eq!(damaged_entries.len(), number + 1, "{case}");
        let newest_entry = damaged_entries.last().expect("one");
        assert!(
            stderr_line.contains(newest_entry.to_str().expect("UTF-8")),
            "{stderr_line}"
        );
        let objects = entries(&newest_entry.join("objects"), "");
        assert_eq!(!objects.is_empty(), has_objects, "{case}");
        daemon.stop().await;
        fs::remove_dir_all(&journal).expect("a new one");
    }
    assert!(victim_path.is_file());
}

/// Waits until the metrics contain this line.
async fn until_measured(daemon: &Serving, line: &str) {
    let line = format!("\n{line}\n");
    within(async { while !get(&daemon.url, "/metrics").await.contains(&line) {} }).await;
}

/// Without a usable journal, calls continue. Lost records are counted.
#[tokio::test]
async fn calls_continue_without_a_journal() {
    let home = home!();
    let (strict_config, relaxed_config) = (config(&home, "strict"), config(&home, "relaxed"));
    let journal = home.state().join("journal");
    home.serve(&["--config", &relaxed_config])
        .await
        .stop()
        .await;
    let set_write_mode = |write: u32| {
        let mode = fs::Permissions::from_mode(0o700 | write);
        fs::set_permissions(&journal, mode).expect("set");
    };
    set_write_mode(0o022);
    let refused_run = home
        .run(&[
            "serve",
            "--config",
            &strict_config,
            "--listen",
            "127.0.0.1:0",
        ])
        .await;
    assert_eq!(refused_run.code, Some(1), "{refused_run}");
    assert!(refused_run.stderr.contains("chmod 700"), "{refused_run}");

    let mut daemon = home.serve(&["--config", &relaxed_config]).await;
    let line = daemon.wait_for_stderr("calls are not on record").await;
    assert!(line.contains("others can write to"), "{line}");
    let call: &[&str] = &["call", "fake/echo", "text=x"];
    assert_eq!(home.run(call).await.code, Some(0));
    for line in [
        "mainstay_journal_recording 0",
        "mainstay_journal_lost_records_total 1",
    ] {
        until_measured(&daemon, line).await;
    }
    for command in ["list", "health", "records", "stats"] {
        let warned_run = home.run(&[command]).await;
        for part in [
            "warning: calls are not put on record since",
            "(1 call so far)",
        ] {
            assert!(warned_run.stderr.contains(part), "{part} in {warned_run}");
        }
    }
    let unread_run = home.run(&["records"]).await;
    assert_eq!(unread_run.code, Some(1), "{unread_run}");
    assert!(
        unread_run.stderr.contains("calls are not on record"),
        "{unread_run}"
    );
    daemon.stop().await;

    set_write_mode(0);
    let daemon = home.serve(&["--config", &relaxed_config]).await;
    assert_eq!(home.run(call).await.code, Some(0));
    until_recorded(&home, 1, &[]).await;
    until_measured(&daemon, "mainstay_journal_recording 1").await;
    daemon.stop().await;
}

/// The journal is removed while the daemon runs. `strict` then refuses calls. `relaxed` starts a
/// new journal and counts lost records.
#[tokio::test]
async fn a_journal_that_is_removed_is_noticed() {
    let home = home!();
    let (strict_config, relaxed_config) = (config(&home, "strict"), config(&home, "relaxed"));
    let journal = home.state().join("journal");
    let call: &[&str] = &["call", "fake/echo", "text=x"];

    let mut daemon = home.serve(&["--config", &strict_config]).await;
    assert_eq!(home.run(call).await.code, Some(0));
    fs::remove_dir_all(&journal).expect("removed");
    for _ in 0..2 {
        let refused_run = home.run(call).await;
        assert_eq!(refused_run.code, Some(1), "{refused_run}");
        for part in ["was not sent", "could not be put on record", "daemon's log"] {
            assert!(refused_run.stderr.contains(part), "{part} in {refused_run}");
        }
    }
    let line = daemon.wait_for_stderr("calls are refused until").await;
    assert!(line.contains("journal.db was removed"), "{line}");
    until_measured(&daemon, "mainstay_journal_recording 0").await;
    until_measured(&daemon, "mainstay_journal_records_total 1").await;
    daemon.stop().await;

    let mut daemon = home.serve(&["--config", &relaxed_config]).await;
    assert_eq!(home.run(call).await.code, Some(0));
    until_recorded(&home, 1, &[]).await;
    // A call whose start is recorded before the removal.
    let long_run = home.run(&["call", "fake/sleep", "ms=3000"]);
    let removal = async {
        until_recorded(&home, 2, &[]).await;
        fs::remove_dir_all(&journal).expect("removed");
        assert_eq!(home.run(call).await.code, Some(0));
    };
    let (long_run, ()) = tokio::join!(long_run, removal);
    assert_eq!(long_run.code, Some(0), "{long_run}");
    daemon
        .wait_for_stderr("the journal was lost; a new one is begun")
        .await;
    until_recorded(&home, 1, &[]).await;
    for line in [
        "mainstay_journal_recording 1",
        "mainstay_journal_lost_records_total 1",
    ] {
        until_measured(&daemon, line).await;
    }
    // The record of that call is counted as missing.
    let records = home.run(&["records"]).await;
    assert!(records.stderr.contains("1 call of "), "{records}");
    daemon.stop().await;
    let history = home.run(&["history"]).await;
    for part in ["unrecorded", "is not on record: ", "was removed"] {
        assert!(history.stdout.contains(part), "{part} in {history}");
    }
    home.serve(&["--config", &strict_config]).await.stop().await;
}

/// A daemon serves even if it cannot write its address file.
#[tokio::test]
async fn a_daemon_starts_though_it_cannot_say_where_it_is() {
    let home = home!();
    let relaxed_config = config(&home, "relaxed");
    folder(&home.state());
    folder(&home.state().join("daemon.json"));
    let mut daemon = home.serve(&["--config", &relaxed_config]).await;
    let line = daemon
        .wait_for_stderr("commands cannot find this daemon without")
        .await;
    assert!(line.contains("daemon.json"), "{line}");
    assert!(get(&daemon.url, "/healthz").await.ends_with("ok\n"));
    daemon.stop().await;
}

/// The entries of a folder whose names have this prefix, sorted.
fn entries(parent: &Path, beginning: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let name = |path: &PathBuf| {
        path.file_name()
            .expect("a name")
            .to_string_lossy()
            .into_owned()
    };
    let mut paths: Vec<_> = paths
        .filter(|path| name(path).starts_with(beginning))
        .collect();
    paths.sort();
    paths
}
