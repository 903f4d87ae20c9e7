//! Twenty servers of every transport in seeded trouble under steady calls, through Mainstay and
//! directly, and one that nobody calls: who does not know that something is wrong shall not notice.
//!
//! ```text
//! plan        what goes wrong and when, from the seed alone
//! fleet       the servers, and how they are struck         (processes, fake_server::gate)
//! gateway     Mainstay's process                           (daemon: the same from outside)
//! peer        plain MCP clients                            (caller: steady calls)
//! run         all of it together, watched throughout       (standing: who has no fault)
//! report      the figures, and the verdict
//! ```
//!
//! Checked: every call to a healthy server is answered, with a p99 within twice that of direct calls; no
//! call runs twice; no process outlives its parent, and no two serve one session; every server is back
//! within its policy's bound; none loses its session, or is said to be unwell, without a fault of its
//! own; what Mainstay holds does not grow.
#![expect(clippy::print_stdout, reason = "figures go to stdout")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "figures are far below where it matters"
)]

mod caller;
mod daemon;
mod fleet;
mod gateway;
mod peer;
mod plan;
mod processes;
mod report;
mod run;
mod standing;

use std::{process::ExitCode, time::Duration};

use clap::Parser;

/// As in the product.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Strikes servers behind a Mainstay, and watches whether anybody notices
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    role: Option<Role>,
    /// Repeats a run; the time, unless given
    #[arg(long)]
    seed: Option<u64>,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// How long a round lasts at least
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Print what would happen, and do nothing
    #[arg(long)]
    plan: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Role {
    /// Mainstay itself, with commands on stdin
    #[command(hide = true)]
    Gateway(gateway::Gateway),
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(Role::Gateway(gateway)) = arguments.role {
        gateway.run().await?;
        return Ok(ExitCode::SUCCESS);
    }
    let now = || {
        std::time::SystemTime::UNIX_EPOCH
            .elapsed()
            .unwrap_or_default()
    };
    let seed = arguments.seed.unwrap_or_else(|| now().as_secs());
    let length = Duration::from_secs(arguments.seconds);
    let rounds = plan::rounds(seed, arguments.rounds, length);
    if arguments.plan {
        for (number, strike) in rounds
            .iter()
            .enumerate()
            .flat_map(|(n, round)| round.iter().map(move |it| (n, it)))
        {
            let plan::Strike {
                at,
                server,
                fault,
                lasts,
            } = strike;
            println!(
                "round {} at {at:?}: s{server} {fault:?} for {lasts:?}",
                number + 1
            );
        }
        return Ok(ExitCode::SUCCESS);
    }
    run::tell(&format!(
        "chaos --seed {seed} --rounds {} --seconds {}",
        arguments.rounds, arguments.seconds
    ));
    let folder = tempfile::tempdir()?;
    let report = run::Run::perform(&rounds, length, folder.path()).await?;
    if arguments.json {
        let mut value = serde_json::to_value(&report)?;
        value["seed"] = seed.into();
        println!("{value}");
    } else {
        println!("seed: {seed}\n{report}");
    }
    Ok(if report.is_good() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
