use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use super::{queue::MAX_QUEUED, *};

fn name(text: &str) -> ServerName {
    ServerName::new(text).expect("a legal name")
}

fn state() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn file(state: &Path, name: &str) -> String {
    fs::read_to_string(state.join("logs").join(name)).unwrap_or_default()
}

/// The lines of a file without their times.
fn lines_of(state: &Path, name: &str) -> Vec<String> {
    let text = file(state, name);
    let lines = text.lines().map(|line| {
        let (time, rest) = line.split_once(' ').expect("a time");
        assert!(time.len() == 24 && time.ends_with('Z'), "{line}");
        rest.to_owned()
    });
    lines.collect()
}

#[tokio::test]
async fn faults_of_a_server_are_told_a_few_times_and_then_counted() {
    let state = state();
    let logs = ServerLogs::start(state.path());
    let (flooding, other) = (logs.server(&name("flooding")), logs.server(&name("other")));
    let reports: Vec<_> = (0..1000).filter_map(|_| flooding.fault()).collect();
    assert!((1..10).contains(&reports.len()), "{reports:?}");
    assert_eq!(other.fault(), Some(1));
}

/// S1, S5, S11: one file for each server, and one for all servers' errors. They contain no secrets.
#[tokio::test]
async fn what_a_server_says_is_in_its_file() {
    let state = state();
    let logs = ServerLogs::start(state.path());
    let log = logs.server(&name("fake"));
    logs.server(&name("silent"));
    log.note("started pid 7");
    let mut stderr = log.stream(LineSource::Stderr);
    let mut stdout = log.stream(LineSource::Stdout);
    assert_eq!(stderr.write(b"one\r\n\ntw"), 2);
    assert_eq!(stdout.write(b"\n  \nnoise \xff\nmore"), 1);
    assert_eq!(stderr.write(b"o, Bearer abc\nthe last wor"), 1);
    stderr.end();
    stdout.end();
    log.error("process exited unexpectedly (code 7)");
    assert_eq!(
        log.tail.texts(),
        ["one", "", "two, Bearer [redacted]", "the last wor"]
    );
    logs.close().await;
    assert_eq!(
        lines_of(state.path(), "mcp-fake.log"),
        [
            "mainstay started pid 7",
            "stderr one",
            "stderr ",
            "stdout noise \u{fffd}",
            "stderr two, Bearer [redacted]",
            "stderr the last wor",
            "stdout more",
            "mainstay process exited unexpectedly (code 7)",
        ]
    );
    assert_eq!(
        lines_of(state.path(), "mcp-errors.log"),
        ["fake process exited unexpectedly (code 7)"]
    );
    assert!(!state.path().join("logs/mcp-silent.log").exists());
}

/// A server called `errors` does not write into the log of all servers' errors.
#[tokio::test]
async fn no_server_has_the_file_of_the_errors() {
    let state = state();
    let logs = ServerLogs::start(state.path());
    for errors in ["errors", "ERRORS"] {
        logs.server(&name(errors)).note("mine");
    }
    logs.close().await;
    assert_eq!(file(state.path(), "mcp-errors.log"), "");
    assert_eq!(lines_of(state.path(), "mcp-errors_.log"), ["mainstay mine"]);
}

/// S4: a hundred lines are written at once. Fewer lines are written after a second.
#[tokio::test]
async fn lines_are_written_in_batches() {
    let state = state();
    let logs = ServerLogs::start(state.path());
    let log = logs.server(&name("fake"));
    let written = async |lines: usize| {
        let started_at = Instant::now();
        while lines_of(state.path(), "mcp-fake.log").len() < lines {
            assert!(
                started_at.elapsed() < Duration::from_secs(20),
                "{lines} lines"
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        started_at.elapsed()
    };
    let started_at = Instant::now();
    for _ in 0..99 {
        log.note("x");
    }
    // On a slow machine, the second may have passed already.
    let (waiting, waited) = (
        lines_of(state.path(), "mcp-fake.log").len(),
        started_at.elapsed(),
    );
    assert!(
        waiting == 0 || waited > Duration::from_millis(900),
        "{waiting}"
    );
    log.note("x");
    written(100).await;
    log.note("x");
    written(101).await;
    logs.close().await;
}

/// U8: a flood fills only a bounded queue. Dropped lines are counted, also in the log.
#[tokio::test]
async fn a_flood_is_dropped_and_counted() {
    let state = state();
    let logs = ServerLogs::start(state.path());
    let log = logs.server(&name("flood"));
    let mut stream = log.stream(LineSource::Stderr);
    let piece = [b"x".repeat(79), b"\n".to_vec()].concat().repeat(800);
    for _ in 0..300 {
        assert_eq!(stream.write(&piece), 800);
    }
    logs.close().await;
    let lines = lines_of(state.path(), "mcp-flood.log");
    let dropped = |line: &String| {
        let count = line
            .strip_prefix("mainstay … ")?
            .strip_suffix(" lines dropped")?;
        count.parse::<u64>().ok()
    };
    let dropped_here: u64 = lines.iter().filter_map(dropped).sum();
    let written = lines.iter().filter(|line| dropped(line).is_none()).count() as u64;
    let diagnostics = log.diagnostics();
    assert_eq!(written + dropped_here, 240_000);
    assert_eq!(
        (diagnostics.lines, diagnostics.dropped),
        (240_000, dropped_here)
    );
    assert_eq!(diagnostics.bytes, 240_000 * 80);
    let bytes = file(state.path(), "mcp-flood.log").len();
    assert!(dropped_here > 0 && bytes >= MAX_QUEUED / 2, "{bytes} bytes");
}

/// S7: a line without an end is cut, and the log reports it as an error.
#[tokio::test]
async fn a_line_without_an_end_is_cut() {
    let state = state();
    let logs = ServerLogs::start(state.path());
    let log = logs.server(&name("endless"));
    let mut stream = log.stream(LineSource::Stdout);
    for _ in 0..200 {
        assert_eq!(stream.write(&[b'x'; 10_000]), 0);
    }
    assert_eq!(stream.write(b"\nnext\n"), 2);
    let mut stderr = log.stream(LineSource::Stderr);
    stderr.write("y".repeat(100_000).as_bytes());
    stderr.end();
    let half = "y".repeat(1024);
    assert_eq!(log.tail.texts(), [format!("{half} … {half}")]);
    logs.close().await;
    let lines = lines_of(state.path(), "mcp-endless.log");
    assert_eq!(lines.len(), 4, "{lines:?}");
    assert_eq!(lines[0], "mainstay a line on stdout exceeds 1048576 bytes");
    let is_cut = lines[1].starts_with("stdout xxx") && lines[1].contains("x … x");
    assert!(
        is_cut && lines[1].len() < 64 * 1024 + 10,
        "{} bytes",
        lines[1].len()
    );
    assert_eq!(lines[2], "stdout next");
    assert_eq!(log.diagnostics().oversized, 1);
}

/// The end of a line contains the error, even if the line never ends or ends with a carriage return.
#[tokio::test]
async fn the_end_of_what_a_server_says_is_kept() {
    let log = ServerLogs::default().server(&name("fake"));
    let mut stream = log.stream(LineSource::Stderr);
    // A progress bar, in pieces of any length.
    for piece in [
        "10%",
        "\r20%\r",
        "\r30%",
        "\r",
        "\nError: no licence\r",
        "\n\r\n",
        "bye",
    ] {
        stream.write(piece.as_bytes());
    }
    drop(stream);
    let expected = ["10%", "20%", "30%", "Error: no licence", "", "bye"];
    assert_eq!(log.tail.texts(), expected);
    assert_eq!(log.last_words_before(), None);
    log.forget();
    assert_eq!(
        log.last_words_before().as_deref(),
        Some("Error: no licence")
    );
    let mut stream = log.stream(LineSource::Stderr);
    for _ in 0..1000 {
        stream.write(&[b'.'; 1000]);
    }
    stream.write("\u{1b}[31mError: no licence\u{1b}[0m".as_bytes());
    drop(stream);
    let [line] = &log.tail.texts()[..] else {
        panic!("one line");
    };
    assert!(line.ends_with("...Error: no licence"), "{line}");
}

/// The last line of a flood is in the file.
#[tokio::test]
async fn the_end_of_a_flood_is_written() {
    let state = state();
    let logs = ServerLogs::start(state.path());
    let log = logs.server(&name("flood"));
    let mut stream = log.stream(LineSource::Stderr);
    let piece = [b"x".repeat(79), b"\n".to_vec()].concat().repeat(800);
    for _ in 0..100 {
        stream.write(&piece);
    }
    stream.write(b"Error: no licence\n");
    logs.close().await;
    let lines = lines_of(state.path(), "mcp-flood.log");
    assert_eq!(lines.last().expect("a line"), "stderr Error: no licence");
    assert!(lines.iter().any(|line| line.ends_with("lines dropped")));
}

/// S6: lines that cannot be written are counted, and reported once the file can be written again.
#[tokio::test]
async fn a_log_that_cannot_be_written_is_not_fatal() {
    let state = state();
    // Create a file in place of the folder.
    fs::write(state.path().join("logs"), "").expect("written");
    let log_file = LogFile::new(
        state.path().join("logs/x.log"),
        None,
        Arc::default(),
        Redaction::AtWriting,
    );
    for _ in 0..3 {
        log_file.push("stderr", "lost");
        log_file.flush();
    }
    fs::remove_file(state.path().join("logs")).expect("removed");
    log_file.push("stderr", "kept");
    log_file.flush();
    assert_eq!(
        lines_of(state.path(), "x.log"),
        ["stderr kept", "mainstay … 3 lines dropped"]
    );
    assert_eq!(log_file.counts.write_errors.into_inner(), 3);
    assert_eq!(log_file.counts.dropped.into_inner(), 3);
}

/// A follower gets each line once: the current lines and the later ones.
#[tokio::test]
async fn a_follower_misses_nothing() {
    let state = state();
    let logs = ServerLogs::start(state.path());
    let log = logs.server(&name("fake"));
    for line in ["one", "two", "three"] {
        log.note(line);
    }
    let texts =
        |lines: &[Line]| -> Vec<String> { lines.iter().map(|line| line.text.clone()).collect() };
    let mut followed = log.last(2).expect("read");
    assert_eq!(
        (texts(&followed.lines), followed.last),
        (vec!["two".to_owned(), "three".to_owned()], 3)
    );
    log.note("four");
    log.note("five");
    let mut numbered = Vec::new();
    while numbered.len() < 2 {
        let batch = tokio::time::timeout(Duration::from_secs(20), followed.batches.recv());
        let batch = batch.await.expect("in time").expect("a batch");
        numbered.extend(batch.lines().map(|(number, line)| (number, line.text)));
    }
    assert_eq!(numbered, [(4, "four".to_owned()), (5, "five".to_owned())]);
    let resumed = log.after(3).expect("read");
    assert_eq!(
        (texts(&resumed.lines), resumed.last),
        (vec!["four".to_owned(), "five".to_owned()], 5)
    );
    logs.close().await;
    let left = left_behind(state.path(), &name("fake"), 1).expect("read");
    assert_eq!(
        left.map(|lines| texts(&lines)),
        Some(vec!["five".to_owned()])
    );
    assert_eq!(
        left_behind(state.path(), &name("nobody"), 1).expect("read"),
        None
    );
}

fn numbered(numbers: std::ops::Range<u32>) -> String {
    let lines = numbers.map(|number| format!("{number}\n"));
    lines.collect::<Vec<_>>().concat()
}

/// Without a state directory, only the last lines of stderr are stored.
#[tokio::test]
async fn without_a_place_there_is_the_tail() {
    let log = ServerLogs::default().server(&name("fake"));
    log.note("nowhere to write");
    let mut stream = log.stream(LineSource::Stderr);
    for number in 0..30 {
        stream.write(format!("{number}\n").as_bytes());
    }
    stream.write(numbered(30..45).as_bytes());
    let expected: Vec<_> = (25..45).map(|number| number.to_string()).collect();
    assert_eq!(log.tail.texts(), expected);
    stream.write(numbered(50..90).as_bytes());
    let expected: Vec<_> = (70..90).map(|number| number.to_string()).collect();
    assert_eq!(log.tail.texts(), expected);
    let last = log.last(2).expect("read");
    assert_eq!(last.lines[1].text, "89");
    assert_eq!(last.lines.len(), 2);
}
