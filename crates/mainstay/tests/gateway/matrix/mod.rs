//! Every revision in front of every other, over both kinds of transport: what works as it is, what is
//! translated, what is honestly refused (docs/dev/wire.md,
//! "Between the eras"). The result is the table in `docs/compatibility.md`.

mod cells;
mod client;

use std::{fmt::Write as _, path::Path};

use self::{
    cells::{Cell, Primitive, Verdict, is_translated},
    client::{Client, REVISIONS},
};
use crate::{
    backend::{Backend, Kind},
    gateway::{Gateway, soon},
};

/// The doors, and what they put before names.
const PATHS: [(&str, &str); 2] = [("/mcp", "x__"), ("/servers/x/mcp", "")];

/// Servers as their revision had them over HTTP, and as processes.
fn kinds(server: &str) -> [Kind; 2] {
    let remote = if server == "2024-11-05" {
        Kind::Sse
    } else {
        Kind::Http
    };
    [Kind::Stdio, remote]
}

/// All clients of one server, against what the specification asks for.
async fn check(server: &'static str) {
    for kind in kinds(server) {
        let backend = Backend::start(kind, &["--revisions", server]).await;
        let backend = backend.option("serverRequests", "forward");
        for (path, prefix) in PATHS {
            for revision in REVISIONS {
                // Each on its own: see the last of the primitives.
                let gateway = Gateway::of(&[("x", &backend)]).await;
                let client = Client::connect(&gateway, path, revision).await;
                let cell = Cell {
                    client: &client,
                    backend: &backend,
                    prefix,
                };
                for primitive in Primitive::ALL {
                    let name = primitive.name();
                    let what = format!("{path}: {revision} -> {server} over {kind:?}: {name}");
                    let verdict = soon(&what, cell.observe(primitive)).await;
                    assert_eq!(verdict, primitive.expected(revision, server), "{what}");
                }
                gateway.stop().await;
            }
        }
    }
}

macro_rules! servers {
    ($($name:ident: $revision:literal,)*) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $name() {
            check($revision).await;
        }
    )*};
}

servers! {
    servers_of_2024_11_05: "2024-11-05",
    servers_of_2025_03_26: "2025-03-26",
    servers_of_2025_06_18: "2025-06-18",
    servers_of_2025_11_25: "2025-11-25",
    servers_of_2026_07_28: "2026-07-28",
}

/// The table that people read says what the tests above have shown. `MAINSTAY_WRITE_DOCS=1` writes it.
#[test]
fn the_table_in_the_documentation_is_what_is_tested() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let (before, rest) = text.split_once(BEGIN).expect("its beginning is marked");
    let (_, after) = rest.split_once(END).expect("its end is marked");
    let should_be = format!("{before}{BEGIN}\n{}{END}{after}", table());
    if std::env::var_os("MAINSTAY_WRITE_DOCS").is_some() {
        std::fs::write(&path, &should_be).expect("written");
    }
    assert_eq!(text, should_be, "write it anew with MAINSTAY_WRITE_DOCS=1");
}

const BEGIN: &str = "<!-- matrix: generated -->";
const END: &str = "<!-- matrix: end -->";

fn table() -> String {
    let mut table = String::from("| Client | Server |");
    for primitive in Primitive::ALL {
        let _ = write!(table, " {} |", primitive.name());
    }
    table.push_str("\n|---|---|");
    table.push_str(&":-:|".repeat(Primitive::ALL.len()));
    table.push('\n');
    for client in REVISIONS {
        for server in REVISIONS {
            let _ = write!(table, "| {client} | {server} |");
            for primitive in Primitive::ALL {
                let sign = match primitive.expected(client, server) {
                    Verdict::Works if is_translated(client, server) => "⇄",
                    Verdict::Works => "✓",
                    Verdict::Refused => "✗",
                    Verdict::Absent => "–",
                };
                let _ = write!(table, " {sign} |");
            }
            table.push('\n');
        }
    }
    table
}
