//! Reads a journal without a writer to its end: every record, and every object that a record names
//! against its identifier. Prints one JSON report; exits 1 when an object is missing or damaged.

use std::{io::Write as _, path::PathBuf, process::ExitCode, time::Duration};

use clap::Parser;
use mainstay_core::config;
use mainstay_journal::RecordFilter;
use serde_json::json;

/// Reads a whole journal, and checks every object.
#[derive(Parser)]
struct Args {
    /// The state directory of the daemon that wrote it
    dir: PathBuf,
}

const PAGE: usize = 1000;

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<ExitCode> {
    let args = Args::parse();
    let database = args.dir.join("journal/journal.db");
    anyhow::ensure!(database.is_file(), "{} is not there", database.display());
    // Nothing goes because it is looked at.
    let settings = config::Journal {
        retention: Duration::MAX,
        max_bytes: u64::MAX / 2,
        ..config::Journal::default()
    };
    let journal = mainstay_journal_store::open(&args.dir, &settings)?;
    let (mut records, mut objects) = (0, 0);
    let mut unresolved = Vec::new();
    let mut filter = RecordFilter::default();
    loop {
        let page = journal.records(filter.clone(), PAGE).await?.calls;
        let Some(oldest) = page.last() else { break };
        filter.before = Some(oldest.id);
        for record in page {
            records += 1;
            for payload in record.arguments.into_iter().chain(record.result) {
                let Some(cid) = payload.cid else {
                    unresolved.push(format!("{}: a payload that was not kept", record.id.0));
                    continue;
                };
                objects += 1;
                if let Err(error) = journal.object(cid).await {
                    unresolved.push(format!("{}: {error}", record.id.0));
                }
            }
        }
    }
    journal.close().await;
    let sound = unresolved.is_empty();
    let report = json!({
        "records": records, "objects": objects, "unresolved": unresolved,
    });
    writeln!(std::io::stdout(), "{report}")?;
    Ok(ExitCode::from(u8::from(!sound)))
}
