//! The program: parses arguments, splits into guardian and daemon, starts a runtime, and runs the command.

use std::{process::ExitCode, sync::Mutex, thread, time::Duration};

use anyhow::Context as _;
use mainstay::{
    cli::{self, Cli, CliCommand},
    demo,
};
use mainstay_command_line::{run_command::Role, stderr};
use mainstay_platform::guardian::{self, Post};

mod allocator;

/// The system's allocator took a tenth of the user time of a call (docs/dev/decisions/0008-mimalloc.md).
#[global_allocator]
static ALLOCATOR: allocator::Mimalloc = allocator::Mimalloc;

/// The time limit of blocking work at exit, such as a read of stdin.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(1);

fn main() -> ExitCode {
    if let Some(exit) = cli::answered_a_shell() {
        return exit;
    }
    let cli = match Cli::from_arguments() {
        Ok(cli) => cli,
        Err(exit) => return exit,
    };
    let exit = start(cli).unwrap_or_else(|error| {
        stderr::complain(&format!("error: {error:#}"));
        ExitCode::FAILURE
    });
    stderr::flush();
    exit
}

fn start(cli: Cli) -> anyhow::Result<ExitCode> {
    if let CliCommand::DemoServer(server) = &cli.command {
        demo::server::run(&server.name).context("the demo server's pipes failed")?;
        return Ok(ExitCode::SUCCESS);
    }
    let facts = cli.command.facts();
    cli.color.hold();
    stderr::start(cli.verbose, facts.is_quiet);
    let is_guarded = facts.is_guarded();
    if is_guarded {
        #[cfg(target_os = "linux")]
        mainstay_platform::huge_pages::turn_off();
        // This must happen before a second thread exists.
        match guardian::take_post() {
            Ok(Post::Daemon) => {}
            Ok(Post::Relieved { exit }) => return Ok(exit.into()),
            Err(error) => tracing::warn!(
                %error,
                "there is no guardian; if Mainstay is killed, what its servers started may outlive it"
            ),
        }
        #[cfg(target_os = "linux")]
        mainstay_platform::core_dumps::turn_off();
    }
    if facts.serves() {
        stderr::queue();
    }
    if is_guarded {
        allow_many_files();
    }
    let workers = match cli.workers {
        Some(workers) => workers.get(),
        None if facts.role == Role::Front => 1,
        None => worker_threads(),
    };
    if facts.serves() {
        check_threads(workers + SERVICE_THREADS)?;
    }
    // Use the single-threaded runtime, which has no queue between threads. A call costs less, and each write
    // has more bytes.
    let mut builder = if workers == 1 {
        tokio::runtime::Builder::new_current_thread()
    } else {
        tokio::runtime::Builder::new_multi_thread()
    };
    let runtime = builder
        .worker_threads(workers)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    if is_guarded {
        // Prepare redaction early, so that the first call need not wait for it.
        runtime.spawn_blocking(mainstay_core::redact::prepare);
    }
    let exit = runtime.block_on(cli.run());
    runtime.shutdown_timeout(SHUTDOWN_LIMIT);
    Ok(exit)
}

/// The threads that a daemon needs besides the workers: for the journal, files, and blocking work.
const SERVICE_THREADS: usize = 4;

/// Fails if the system does not allow that many threads. Otherwise the runtime would panic later.
fn check_threads(count: usize) -> anyhow::Result<()> {
    let gate = Mutex::new(());
    thread::scope(|scope| {
        let closed = gate.lock();
        for started in 0..count {
            let wait = || drop(gate.lock());
            if let Err(error) = thread::Builder::new().spawn_scoped(scope, wait) {
                drop(closed);
                anyhow::bail!(
                    "the system gave {started} threads of the {count} that are needed ({error}); allow more address \
                     space (`ulimit -v`) or threads (`ulimit -u`, the unit's TasksMax)"
                );
            }
        }
        Ok(())
    })
}

/// The number of open files that Mainstay requests: two or three for each server, and one for each client. A
/// higher limit slows down children that examine every possible descriptor.
#[cfg(unix)]
const FILES: u64 = 65_536;

/// Raises the limit of open files. The usual limit of 1024 is too low for 500 servers.
#[cfg(unix)]
fn allow_many_files() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    let target = limit.maximum.map_or(FILES, |hard| hard.min(FILES));
    if limit.current.is_some_and(|soft| soft < target) {
        limit.current = Some(target);
        if let Err(error) = setrlimit(Resource::Nofile, limit) {
            tracing::warn!(%error, wanted = target, "more files cannot be opened");
        }
    }
}

#[cfg(not(unix))]
fn allow_many_files() {}

/// The number of worker threads unless `MAINSTAY_WORKERS` is set: half of the cores, because stdio servers
/// need the other half. Fewer threads also pass less work to each other, and each write has more bytes.
fn worker_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().div_ceil(2))
}
