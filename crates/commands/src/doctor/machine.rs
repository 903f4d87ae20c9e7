//! The machine: the state directory, the disk, the open files and the clock.

use std::{
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use futures_util::future::join_all;
use mainstay_command_line::output;
use mainstay_core::{
    config::{Config, HttpLaunch, Launch, Secret},
    failure::with_causes,
};
use mainstay_platform::{
    descriptors,
    state::{StateDir, StateError, Untrusted},
};
use mainstay_transport::HealthUrl;
use tokio::time::timeout;

use super::finding::{Finding, Fix, quoted};

/// Files of the state directory that only their owner may read.
const PRIVATE: [&str; 7] = [
    "token",
    "tokens.json",
    "browsers.json",
    "session.key",
    "ended-sessions",
    "switches.json",
    "daemon.json",
];

/// Another state directory.
const OTHER_HOME: &str = "export MAINSTAY_HOME=\"$HOME/.mainstay\"";

/// Below this records and logs cannot be kept for long, and below that they cannot be kept.
const LITTLE_SPACE: u64 = 500 * MEGABYTE;
const NO_SPACE: u64 = 50 * MEGABYTE;
const MEGABYTE: u64 = 1_000_000;

/// Files that a server and its client's connection take, with room for a restart.
const FILES_OF_SERVER: usize = 8;

/// Files beside those of servers: the journal, logs, doors, a few clients.
const OTHER_FILES: usize = 512;

/// A clock that differs by more makes tokens expire early, and times of records wrong.
const SKEW: Duration = Duration::from_mins(1);

/// How long an HTTP server may take to say its time.
const DATE_LIMIT: Duration = Duration::from_secs(5);

/// No clock is right that is before this: 2026-01-01.
const BUILT_AFTER: Duration = Duration::from_secs(1_767_225_600);

/// The state directory, and what lies in it.
pub fn state(located: &Result<StateDir, StateError>) -> Vec<Finding> {
    let state = match located {
        Ok(state) => state,
        Err(error) => {
            return vec![
                Finding::error("state.nowhere", error.to_string())
                    .why("no daemon can run")
                    .mend(OTHER_HOME),
            ];
        }
    };
    let path = state.path();
    if !path.exists() {
        return vec![
            Finding::note(
                "state.missing",
                format!("the state directory {} is not there yet", path.display()),
            )
            .why("`mainstay serve` makes it")
            .fix(Fix::MakeFolder(path.to_owned())),
        ];
    }
    let mut findings = Vec::new();
    if let Err(error) = state.check() {
        findings.push(untrusted(&error));
    } else {
        findings.extend(readable(path));
    }
    findings.extend(PRIVATE.iter().filter_map(|name| readable(&path.join(name))));
    // An error is reported where the daemon is asked.
    if let Ok(None) = state.daemon() {
        let left = path.join("daemon.json");
        findings.extend(left.exists().then(|| {
            Finding::warning(
                "state.stale_daemon",
                "a daemon that was killed left its daemon.json",
            )
            .why("programs that read it look for the daemon where none is")
            .fix(Fix::Remove(left))
        }));
    }
    findings.extend(instances(state));
    if findings.is_empty() {
        let what = format!("the state directory is {}", path.display());
        findings.push(Finding::ok("state.usable", what));
    }
    findings
}

fn untrusted(error: &StateError) -> Finding {
    let finding = Finding::error("state.untrusted", with_causes(error))
        .why("others could read your tokens, or present a false daemon to commands");
    let StateError::Untrusted { source, .. } = error else {
        return finding;
    };
    match source {
        Untrusted::Writable {
            path,
            leads_there: false,
            ..
        } => finding.fix(Fix::Restrict {
            path: path.clone(),
            mode: if path.is_dir() { 0o700 } else { 0o600 },
        }),
        Untrusted::Writable { path, .. } => finding.mend(format!("chmod go-w {}", quoted(path))),
        Untrusted::NotDirectory(path) | Untrusted::NotFile(path) => {
            finding.mend(format!("rm {}", quoted(path)))
        }
        Untrusted::Owner { .. } => finding.mend(format!("{OTHER_HOME}  # or run it as that user")),
        Untrusted::Io(_) => finding.mend(OTHER_HOME),
    }
}

#[cfg(unix)]
fn readable(path: &Path) -> Option<Finding> {
    use std::os::unix::fs::PermissionsExt as _;
    let found = std::fs::symlink_metadata(path).ok()?;
    let mode = found.permissions().mode() & 0o777;
    (mode & 0o077 != 0 && !found.is_symlink()).then(|| {
        Finding::warning(
            "state.readable",
            format!("others can use {} (mode {mode:04o})", path.display()),
        )
        .why("it holds tokens and records of calls")
        .fix(Fix::Restrict {
            path: path.to_owned(),
            mode: if found.is_dir() { 0o700 } else { 0o600 },
        })
    })
}

#[cfg(not(unix))]
fn readable(_path: &Path) -> Option<Finding> {
    None
}

/// Mainstays that run for one client each.
fn instances(state: &StateDir) -> Option<Finding> {
    let instances = state.instances().ok()?;
    let runs = |(_, path): &&(String, PathBuf)| {
        let lock = std::fs::File::open(path.join("lock"));
        lock.is_ok_and(|lock| lock.try_lock_shared().is_err())
    };
    let running: Vec<&str> = instances
        .iter()
        .filter(runs)
        .map(|(name, _)| name.as_str())
        .collect();
    let mend = match state.daemon() {
        Ok(Some(daemon)) => format!(
            "mainstay connect  # a daemon runs already, at {}: have the clients use this in the place of `mainstay mcp --standalone`",
            daemon.url
        ),
        _ => "mainstay service install  # then have the clients use its URL".to_owned(),
    };
    (!running.is_empty()).then(|| {
        Finding::note(
            "mainstay.instances",
            format!(
                "Mainstays that serve one client each run, too: {}",
                running.join(", ")
            ),
        )
        .why("each has servers of its own")
        .mend(mend)
    })
}

/// What is free where the state lies.
#[cfg(unix)]
pub fn disk(state: &StateDir) -> Option<Finding> {
    let there = state.path().ancestors().find(|path| path.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let no_files = found.f_files > 0 && found.f_favail == 0;
    Some(space(there, free, no_files))
}

#[cfg(not(unix))]
pub fn disk(_state: &StateDir) -> Option<Finding> {
    None
}

fn space(path: &Path, free: u64, no_files: bool) -> Finding {
    let what = format!("{} MB are free at {}", free / MEGABYTE, path.display());
    let why = "records, logs and catalogs are kept there";
    let mend = format!(
        "df -h {}  # free space there, or set MAINSTAY_HOME to another disk",
        quoted(path)
    );
    if no_files {
        let what = format!("no more files can be made at {}", path.display());
        return Finding::error("disk.full", what).why(why).mend(mend);
    }
    match free {
        0..NO_SPACE => Finding::error("disk.full", what).why(why).mend(mend),
        NO_SPACE..LITTLE_SPACE => Finding::warning("disk.low", what).why(why).mend(mend),
        _ => Finding::ok("disk.free", what),
    }
}

/// Whether the servers may open as many files as they need.
pub fn files(config: Option<&Config>) -> Finding {
    let servers = config.iter().flat_map(|config| &config.servers);
    let servers = servers.filter(|server| server.enabled).count();
    open_files(descriptors::limit(), servers)
}

fn open_files(limit: usize, servers: usize) -> Finding {
    let needed = OTHER_FILES + FILES_OF_SERVER * servers;
    if limit >= needed {
        let what = if limit == usize::MAX {
            "as many files as are needed may be open".to_owned()
        } else {
            format!("{limit} files may be open")
        };
        return Finding::ok("files.limit", what);
    }
    Finding::warning(
        "files.low",
        format!("{limit} files may be open, and {servers} servers and their clients need about {needed}"),
    )
    .why("servers cannot be started, and clients are refused, once it is reached")
    .mend(format!("ulimit -Hn {needed}  # for a service: LimitNOFILE={needed} by `systemctl --user edit mainstay`"))
}

/// Compares the clock with those of HTTP servers.
pub async fn clock(config: Option<&Config>, may_ask: bool) -> Vec<Finding> {
    let now = SystemTime::now();
    if now < SystemTime::UNIX_EPOCH + BUILT_AFTER {
        return vec![skewed("the clock is before the year 2026".to_owned())];
    }
    let servers = config.map(|config| &config.servers[..]).unwrap_or_default();
    let asked = servers.iter().filter(|server| server.enabled && may_ask);
    let asked = asked.filter_map(|server| match &server.launch {
        Launch::Http(http) => Some((server.name.as_str(), http)),
        Launch::Stdio(_) | Launch::Broken(_) | Launch::Unapproved => None,
    });
    let dates = asked.map(|(name, http)| async move { (name, skew(http).await) });
    let dates = join_all(dates).await;
    let known = dates
        .iter()
        .filter_map(|(name, skew)| Some((name, (*skew)?)));
    let known: Vec<_> = known.collect();
    let wrong = known.iter().filter(|(_, skew)| *skew > SKEW);
    let findings: Vec<_> = wrong
        .map(|(name, skew)| {
            skewed(format!(
                "the clock differs by {} from that of its server",
                output::span(*skew)
            ))
            .of(name)
        })
        .collect();
    if findings.is_empty() && !known.is_empty() {
        return vec![Finding::ok(
            "clock.right",
            "the clock agrees with those of HTTP servers",
        )];
    }
    findings
}

fn skewed(what: String) -> Finding {
    let mend = if cfg!(target_os = "macos") {
        "sudo sntp -sS time.apple.com"
    } else if cfg!(windows) {
        "w32tm /resync"
    } else {
        "sudo timedatectl set-ntp true"
    };
    Finding::warning("clock.skew", what)
        .why("tokens seem expired or not valid yet, and certificates are refused")
        .mend(mend)
}

/// How far the server's clock is from ours. The request has none of its headers, which hold secrets.
async fn skew(http: &HttpLaunch) -> Option<Duration> {
    let url = HealthUrl::new(&Secret::new(http.url.clone()), None)?;
    let date = timeout(DATE_LIMIT, url.date()).await.ok()?.ok()??;
    let now = SystemTime::now();
    Some(
        now.duration_since(date)
            .unwrap_or_else(|before| before.duration()),
    )
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[test]
    fn little_space_is_told() {
        let level = |free, no_files| space(Path::new("/state"), free, no_files).level;
        assert_eq!(level(10 * MEGABYTE, false), Level::Error);
        assert_eq!(level(100 * MEGABYTE, false), Level::Warning);
        assert_eq!(level(10_000 * MEGABYTE, false), Level::Ok);
        assert_eq!(level(10_000 * MEGABYTE, true), Level::Error);
    }

    #[test]
    fn the_limit_of_open_files_grows_with_the_servers() {
        assert_eq!(open_files(1024, 20).level, Level::Ok);
        assert_eq!(open_files(1024, 200).level, Level::Warning);
        assert_eq!(open_files(usize::MAX, 2000).level, Level::Ok);
    }
}
