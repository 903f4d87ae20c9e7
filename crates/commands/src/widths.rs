//! Tests of the tables of all commands at different terminal widths. No row may be wider than the terminal,
//! whatever the names are.

use mainstay_api::{HealthReport, HealthStatus, ServerHealth};
use mainstay_command_line::{
    output,
    shape::Tabular,
    style::Palette,
    table::{Cell, Column, Room, laid_out},
};
use mainstay_core::display;
use unicode_width::UnicodeWidthStr as _;

use super::{
    access, health, list, prompts, records, requests, resources, search, secret, stats, switches,
    token, tools,
};

const WIDTHS: [usize; 3] = [60, 80, 140];

/// Names of servers and people: long, double-width, with combining marks, with emoji sequences, and with
/// control characters of terminals.
const LONG: &str = "a-server-with-a-name-of-32-bytes/create_or_update_a_file_with_a_very_long_name";
const WIDE: &str = "天気サーバー/東京の天気予報を取得する長い名前のツールです";
const COMBINING: &str = "cafe\u{301}/re\u{301}sume\u{301}-tro\u{302}s-de\u{301}taille\u{301}-des-e\u{301}ve\u{301}nements";
const PICTURES: &str =
    "👩\u{200d}👩\u{200d}👧/🦀⚠\u{fe0f}e\u{336}\u{336}\u{336}\u{336}\u{336}\u{336}";
const HOSTILE: &str = "x\u{1b}[2J\u{202e}/\u{9b}31m\ny";
const NAMES: [&str; 6] = ["files/read", LONG, WIDE, COMBINING, PICTURES, HOSTILE];

/// Lays out a table with a row for each name. The name replaces the empty cells.
fn tables_of<const N: usize>(columns: &[Column; N], cells: [&str; N]) -> String {
    let row = |name: &str| cells.map(|cell| Cell::from(if cell.is_empty() { name } else { cell }));
    let rows = |room| laid_out(columns, NAMES.map(row), room);
    let room = |width| Room {
        width,
        wide: false,
        palette: Palette::PLAIN,
    };
    for width in 1..=200 {
        fits(&rows(room(Some(width))), width);
    }
    let tables = WIDTHS.map(|width| {
        let ruler = "─".repeat(width);
        format!("{ruler}\n{}", rows(room(Some(width))).join("\n"))
    });
    tables.join("\n\n")
}

/// Asserts that there is one line for each name and one for the head, and that none is wider than `width`.
fn fits(lines: &[String], width: usize) {
    assert_eq!(lines.len(), NAMES.len() + 1);
    for line in lines {
        assert!(line.width() <= width, "{width}: {line}");
        assert_eq!(display::line(line), *line, "{width}: {line:?}");
    }
}

#[test]
fn every_table_fits_the_terminal() {
    let check = |name: &str, table: String| insta::assert_snapshot!(name, table);
    check(
        "list",
        tables_of(
            &list::COLUMNS,
            [
                "",
                "reconnecting",
                "stdio",
                "14",
                "9",
                "4",
                "81432",
                "process exited unexpectedly (signal 9); attempt 3 in 4.0 s",
            ],
        ),
    );
    check("tools", tables_of(&tools::COLUMNS, ["", ""]));
    check(
        "records",
        tables_of(
            &records::COLUMNS,
            [
                "1024",
                "07:04:11.020",
                "",
                "unknown",
                "30.0 s",
                "claude-code",
                "Server was lost during the call: the connection was lost",
            ],
        ),
    );
    check(
        "stats",
        tables_of(
            &stats::COLUMNS,
            ["", "1024", "12", "4 ms", "1.2 s", "3.4 s", "12 kB", "3 MB"],
        ),
    );
    check(
        "resources",
        tables_of(&resources::COLUMNS, ["", "files", "text/plain", ""]),
    );
    check(
        "prompts",
        tables_of(&prompts::COLUMNS, ["", "name, city", ""]),
    );
    check(
        "search",
        tables_of(&search::COLUMNS, ["", "1.2.3", "npx -y @a/thing", ""]),
    );
    check(
        "requests",
        tables_of(
            &requests::COLUMNS,
            ["3", "", "elicitation/create", "07:04:11.020", "you", ""],
        ),
    );
    check("switches", tables_of(&switches::COLUMNS, ["", ""]));
    check(
        "access",
        tables_of(&access::COLUMNS, ["", "agents", "read-only", ""]),
    );
    check(
        "access_rules",
        tables_of(&access::RULE_COLUMNS, ["", "", "", "not destructive"]),
    );
    check(
        "token",
        tables_of(
            &token::COLUMNS,
            ["", "2026-11-24 02:00", "2027-02-22 02:00", ""],
        ),
    );
    check(
        "secret",
        tables_of(&secret::COLUMNS, ["", "2026-11-24 02:00", ""]),
    );
    let arguments = output::cut_column(["ARGUMENT", "TYPE", "", "DESCRIPTION"], 3);
    check(
        "arguments_of_a_tool",
        tables_of(&arguments, ["", "string", "required", ""]),
    );
}

/// The rows of `health` have their own format (B11).
#[test]
fn the_health_of_servers_fits_the_terminal() {
    let server = |name: &str, status, message: Option<&str>| ServerHealth {
        name: name.to_owned(),
        status,
        ping_ms: (status == HealthStatus::Healthy).then_some(12),
        last_success_ms: Some(190_000),
        consecutive_failures: 5,
        message: message.map(str::to_owned),
    };
    let long = "a-server-with-a-name-of-64-bytes-which-is-the-most-that-it-may-be";
    let servers = vec![
        server("geocoder", HealthStatus::Healthy, None),
        server(long, HealthStatus::Unhealthy, None),
        server(
            "a-server-with-a-name-of-32-bytes",
            HealthStatus::Timeout,
            Some("ping timed out after 5s"),
        ),
        server("broken", HealthStatus::Error, Some(WIDE)),
        server("hostile", HealthStatus::Error, Some(HOSTILE)),
        server("long", HealthStatus::Error, Some(&LONG.repeat(3))),
    ];
    let report = HealthReport {
        servers,
        warnings: Vec::new(),
    };
    let tabular = Tabular { wide: false };
    for width in 50..=200 {
        fits(&health::lines(&report, tabular, Some(width)), width);
    }
    let tables = WIDTHS.map(|width| {
        let ruler = "─".repeat(width);
        let lines = health::lines(&report, tabular, Some(width));
        format!("{ruler}\n{}", lines.join("\n"))
    });
    insta::assert_snapshot!("health", tables.join("\n\n"));
    // Without a terminal the table cuts no text.
    let whole = health::lines(&report, tabular, None).join("\n");
    assert!(
        whole.contains(long) && whole.contains(&LONG.repeat(3)),
        "{whole}"
    );
}
