//! A chaos test: twenty servers over all transports, with seeded faults under steady calls, and one server
//! without calls. The calls go through the program `mainstay` and directly to the servers. A fault of one
//! server must not affect the others.
//!
//! ```text
//! plan        the faults and their times, from the seed alone
//! fleet       the servers and their faults                 (processes, fake_server::gate)
//! daemon      `mainstay serve`: its process, file and REST (usage: its resources)
//! peer        plain MCP clients                            (caller: steady calls)
//! run         one run: faults, calls and constant checks   (standing: servers without a fault)
//! account     each call in the views of its caller, the journal and its server
//! report      the figures, and the verdict
//! ```
//!
//! The test checks that:
//!
//! - every call to a healthy server is answered, with a p99 within twice that of direct calls (five times in
//!   a debug build),
//! - no call runs twice, and the journal has each call once, as its caller and its server saw it,
//! - no process outlives its parent, and no two processes serve one session,
//! - every server recovers within the bound of its policy,
//! - no server loses its session or is reported unhealthy without its own fault,
//! - the resources of Mainstay do not grow.
#![expect(clippy::print_stdout, reason = "figures go to stdout")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "figures are far below where it matters"
)]

mod account;
mod caller;
mod daemon;
mod fleet;
mod peer;
mod plan;
mod processes;
mod report;
mod run;
mod standing;
mod usage;

use std::{
    fs,
    path::PathBuf,
    process::ExitCode,
    time::{Duration, SystemTime},
};

use anyhow::Context as _;
use clap::Parser;

use crate::plan::Strike;

/// Strikes servers behind a Mainstay, and checks that other servers are not affected
#[derive(Debug, Parser)]
struct Arguments {
    /// The program [default: the one beside this]
    #[arg(long, value_name = "PATH")]
    mainstay: Option<PathBuf>,
    /// Keep configuration, state and stderr of Mainstay there
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Repeats a run; the time, unless given
    #[arg(long)]
    seed: Option<u64>,
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Rounds after which the resources of Mainstay must not grow
    #[arg(long, default_value_t = 1)]
    warm_up: usize,
    /// Least duration of a round
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Print the figures as JSON
    #[arg(long)]
    json: bool,
    /// Print what would happen, and do nothing
    #[arg(long)]
    plan: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    let now = || SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    let seed = arguments.seed.unwrap_or_else(|| now().as_secs());
    let length = Duration::from_secs(arguments.seconds);
    let rounds = plan::rounds(seed, arguments.rounds, length);
    if arguments.plan {
        print(&rounds);
        return Ok(ExitCode::SUCCESS);
    }
    run::tell(&format!(
        "chaos --seed {seed} --rounds {} --seconds {}",
        arguments.rounds, arguments.seconds
    ));
    let program = arguments.mainstay.map_or_else(built_mainstay, Ok)?;
    let program = program.canonicalize().with_context(|| {
        let build = "build it with cargo build --package mainstay, or name it with --mainstay";
        format!("no {}: {build}", program.display())
    })?;
    let temporary = tempfile::tempdir()?;
    let folder = arguments.keep.as_deref().unwrap_or(temporary.path());
    fs::create_dir_all(folder)?;
    let folder = folder.canonicalize()?;
    let report =
        run::ChaosRun::perform(&program, &rounds, arguments.warm_up, length, &folder).await?;
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

/// The program that cargo has built with the same profile.
fn built_mainstay() -> std::io::Result<PathBuf> {
    let name = format!("mainstay{}", std::env::consts::EXE_SUFFIX);
    Ok(std::env::current_exe()?.with_file_name(name))
}

fn print(rounds: &[Vec<Strike>]) {
    for (number, round) in rounds.iter().enumerate() {
        for strike in round {
            let Strike {
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
    }
}
