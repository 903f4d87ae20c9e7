//! Tests every client revision with every server revision, over two transports. Checks which
//! features work, which are translated, and which are refused (docs/dev/wire.md, "Between the
//! eras"). `docs/compatibility.md` has the result.

mod cells;
mod client;

use std::{fmt::Write as _, path::Path};

use self::{
    cells::{Cell, CellVerdict, Primitive, is_translated},
    client::{MatrixClient, REVISIONS},
};
use crate::{
    backend::{Backend, BackendKind},
    gateway::{Gateway, soon},
};

/// The endpoints, each with the prefix of its tool and prompt names.
const PATHS: [(&str, &str); 2] = [("/mcp", "x__"), ("/servers/x/mcp", "")];

/// The transports of a server: a process, and the HTTP transport of its revision.
fn kinds(server: &str) -> [BackendKind; 2] {
    let remote = if server == "2024-11-05" {
        BackendKind::Sse
    } else {
        BackendKind::Http
    };
    [BackendKind::Stdio, remote]
}

/// Checks one server revision with all clients.
async fn check(server: &'static str) {
    for kind in kinds(server) {
        let backend = Backend::start(kind, &["--revisions", server]).await;
        let backend = backend.option("serverRequests", "forward");
        for (path, prefix) in PATHS {
            for revision in REVISIONS {
                // Start a new gateway for each cell, because the last operation leaves a cancelled
                // call.
                let gateway = Gateway::with_servers(&[("x", &backend)]).await;
                let client = MatrixClient::connect(&gateway, path, revision).await;
                let cell = Cell {
                    client: &client,
                    backend: &backend,
                    prefix,
                };
                for primitive in Primitive::ALL {
                    let name = primitive.name();
                    let description =
                        format!("{path}: {revision} -> {server} over {kind:?}: {name}");
                    let verdict = soon(&description, cell.observe(primitive)).await;
                    assert_eq!(
                        verdict,
                        primitive.expected(revision, server),
                        "{description}"
                    );
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

/// The published table must have the results of these tests. `MAINSTAY_WRITE_DOCS=1` writes the
/// table.
#[test]
fn the_table_in_the_documentation_is_what_is_tested() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/compatibility.md");
    let text = std::fs::read_to_string(&path).expect("the page is there");
    let (text_before, rest) = text
        .split_once(TABLE_BEGIN)
        .expect("its beginning is marked");
    let (_, after) = rest.split_once(TABLE_END).expect("its end is marked");
    let expected_table = format!("{text_before}{TABLE_BEGIN}\n{}{TABLE_END}{after}", table());
    if std::env::var_os("MAINSTAY_WRITE_DOCS").is_some() {
        std::fs::write(&path, &expected_table).expect("written");
    }
    assert_eq!(
        text, expected_table,
        "write it anew with MAINSTAY_WRITE_DOCS=1"
    );
}

const TABLE_BEGIN: &str = "<!-- matrix: generated -->";
const TABLE_END: &str = "<!-- matrix: end -->";

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
                    CellVerdict::Works if is_translated(client, server) => "⇄",
                    CellVerdict::Works => "✓",
                    CellVerdict::Refused => "✗",
                    CellVerdict::Absent => "–",
                };
                let _ = write!(table, " {sign} |");
            }
            table.push('\n');
        }
    }
    table
}
