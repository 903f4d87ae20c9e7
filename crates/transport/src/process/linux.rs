//! Features of Linux that other Unixes do not have: children that cannot outlive Mainstay, and /proc to find
//! processes that left their group.

use std::{
    io,
    sync::{LazyLock, mpsc},
    thread,
};

use mainstay_platform::{lineage::Marks, processes};
use tokio::{
    process::{Child, Command},
    runtime::Handle,
    sync::oneshot,
};

use super::isolate;
use crate::process::parent_death;

struct Job {
    command: Command,
    runtime: Handle,
    started: oneshot::Sender<io::Result<Child>>,
}

/// The thread that starts every child. It lasts as long as Mainstay, because the kernel kills a child when
/// the thread that started it ends. Each opening has at most one job in the queue.
static SPAWNER: LazyLock<mpsc::Sender<Job>> = LazyLock::new(|| {
    let (jobs, queue) = mpsc::channel::<Job>();
    let work = move || {
        for mut job in queue {
            let _context = job.runtime.enter();
            // If the caller has stopped waiting, the child is dropped and thereby killed.
            job.started.send(job.command.spawn()).ok();
        }
    };
    if let Err(error) = thread::Builder::new()
        .name("spawner".to_owned())
        .spawn(work)
    {
        tracing::error!(%error, "the thread that starts servers could not be started");
    }
    jobs
});

/// Starts a child in its own group. The kernel kills it when Mainstay ends, even by SIGKILL. A child of a
/// server gets the server's marks.
pub async fn spawn(mut command: Command, marks: Option<&Marks>) -> io::Result<Child> {
    isolate(&mut command);
    if let Some(marks) = marks {
        // Set the marks after the entry's own variables. An entry with the marks of another server would hide
        // its process.
        command.envs(marks.variables());
    }
    parent_death::tie(&mut command, marks.map(|marks| marks.brand.limit()));
    let (started, outcome) = oneshot::channel();
    let job = Job {
        command,
        runtime: Handle::current(),
        started,
    };
    let gone = || io::Error::other("the thread that starts servers is gone");
    SPAWNER.send(job).map_err(|_| gone())?;
    outcome.await.map_err(|_| gone())?
}

/// Ends all processes with these marks, even outside of the group (`setsid`, daemons). Returns when they have
/// ended. Logs the processes that even SIGKILL does not end.
pub async fn end_marked(marks: &Marks) {
    let left = processes::end_marked(marks).await;
    if !left.is_empty() {
        tracing::warn!(pids = ?left, ?marks, "processes of servers cannot be ended, even by SIGKILL");
    }
}
