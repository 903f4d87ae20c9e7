//! Checks the machine: the state directory, the disk, the open files and the clock.

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

use super::finding::{DoctorFinding, Fix, quoted};

/// Files of the state directory that are private to their owner.
const PRIVATE: [&str; 7] = [
    "token",
    "tokens.json",
    "browsers.json",
    "session.key",
    "ended-sessions",
    "switches.json",
    "daemon.json",
];

/// A command that names another state directory.
const OTHER_HOME: &str = "export MAINSTAY_HOME=\"$HOME/.mainstay\"";

/// Free space in bytes. Below the first limit, records and logs will soon fill the disk. Below the second,
/// nothing more should be written.
const LITTLE_SPACE: u64 = 500 * MEGABYTE;
const NO_SPACE: u64 = 50 * MEGABYTE;
const MEGABYTE: u64 = 1_000_000;

/// The number of open files for a server and a client's connection to it, with a reserve for a restart.
const FILES_OF_SERVER: usize = 8;

/// The number of other open files: the journal, logs, doors and a few clients.
const OTHER_FILES: usize = 512;

/// The maximum difference between clocks. A larger difference makes tokens expire early and records show
/// wrong times.
const SKEW: Duration = Duration::from_mins(1);

/// The time limit for an HTTP server's date.
const DATE_LIMIT: Duration = Duration::from_secs(5);

/// The time 2026-01-01. A clock with an earlier time is wrong.
const BUILT_AFTER: Duration = Duration::from_secs(1_767_225_600);

/// Findings about the state directory and the files in it.
pub fn state(located: &Result<StateDir, StateError>) -> Vec<DoctorFinding> {
    let state = match located {
        Ok(state) => state,
        Err(error) => {
            return vec![
                DoctorFinding::error("state.nowhere", error.to_string())
                    .consequence("no daemon can run")
                    .mend(OTHER_HOME),
            ];
        }
    };
    let path = state.path();
    if !path.exists() {
        return vec![
            DoctorFinding::note(
                "state.missing",
                format!("the state directory {} is not there yet", path.display()),
            )
            .consequence("`mainstay serve` makes it")
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
    // Ignore an error here, because the check of the daemon reports it.
    if let Ok(None) = state.daemon() {
        let left = path.join("daemon.json");
        findings.extend(left.exists().then(|| {
            DoctorFinding::warning(
                "state.stale_daemon",
                "a daemon that was killed left its daemon.json",
            )
            .consequence("programs that read it look for the daemon where none is")
            .fix(Fix::Remove(left))
        }));
    }
    findings.extend(instances(state));
    if findings.is_empty() {
        let message = format!("the state directory is {}", path.display());
        findings.push(DoctorFinding::ok("state.usable", message));
    }
    findings
}

fn untrusted(error: &StateError) -> DoctorFinding {
    let finding = DoctorFinding::error("state.untrusted", with_causes(error))
        .consequence("others could read your tokens, or present a false daemon to commands");
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
pub fn readable(path: &Path) -> Option<DoctorFinding> {
    use std::os::unix::fs::PermissionsExt as _;
    let found = std::fs::symlink_metadata(path).ok()?;
    let mode = found.permissions().mode() & 0o777;
    (mode & 0o077 != 0 && !found.is_symlink()).then(|| {
        DoctorFinding::warning(
            "state.readable",
            format!("others can use {} (mode {mode:04o})", path.display()),
        )
        .consequence("it holds tokens and records of calls")
        .fix(Fix::Restrict {
            path: path.to_owned(),
            mode: if found.is_dir() { 0o700 } else { 0o600 },
        })
    })
}

#[cfg(not(unix))]
pub fn readable(_path: &Path) -> Option<DoctorFinding> {
    None
}

/// A finding about Mainstay processes that serve one client each.
fn instances(state: &StateDir) -> Option<DoctorFinding> {
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
            daemon.client_url()
        ),
        _ => "mainstay service install  # then have the clients use its URL".to_owned(),
    };
    (!running.is_empty()).then(|| {
        DoctorFinding::note(
            "mainstay.instances",
            format!(
                "Mainstays that serve one client each run, too: {}",
                running.join(", ")
            ),
        )
        .consequence("each has servers of its own")
        .mend(mend)
    })
}

/// A finding about the free space of the state directory's disk.
#[cfg(unix)]
pub fn disk(state: &StateDir) -> Option<DoctorFinding> {
    let there = state.path().ancestors().find(|path| path.exists())?;
    let found = rustix::fs::statvfs(there).ok()?;
    let free = found.f_bavail.saturating_mul(found.f_frsize);
    let no_files = found.f_files > 0 && found.f_favail == 0;
    Some(space(there, free, no_files))
}

#[cfg(not(unix))]
pub fn disk(_state: &StateDir) -> Option<DoctorFinding> {
    None
}

fn space(path: &Path, free: u64, no_files: bool) -> DoctorFinding {
    let message = format!("{} MB are free at {}", free / MEGABYTE, path.display());
    let consequence = "records, logs and catalogs are kept there";
    let mend = format!(
        "df -h {}  # free space there, or set MAINSTAY_HOME to another disk",
        quoted(path)
    );
    if no_files {
        let no_files_message = format!("no more files can be made at {}", path.display());
        return DoctorFinding::error("disk.full", no_files_message)
            .consequence(consequence)
            .mend(mend);
    }
    match free {
        0..NO_SPACE => DoctorFinding::error("disk.full", message)
            .consequence(consequence)
            .mend(mend),
        NO_SPACE..LITTLE_SPACE => DoctorFinding::warning("disk.low", message)
            .consequence(consequence)
            .mend(mend),
        _ => DoctorFinding::ok("disk.free", message),
    }
}

/// A finding about the limit of open files.
pub fn files(config: Option<&Config>) -> DoctorFinding {
    let servers = config.iter().flat_map(|config| &config.servers);
    let servers = servers.filter(|server| server.enabled).count();
    open_files(descriptors::limit(), servers)
}

fn open_files(limit: usize, servers: usize) -> DoctorFinding {
    let needed = OTHER_FILES + FILES_OF_SERVER * servers;
    if limit >= needed {
        let message = if limit == usize::MAX {
            "as many files as are needed may be open".to_owned()
        } else {
            format!("{limit} files may be open")
        };
        return DoctorFinding::ok("files.limit", message);
    }
    DoctorFinding::warning(
        "files.low",
        format!("{limit} files may be open, and {servers} servers and their clients need about {needed}"),
    )
    .consequence("servers cannot be started, and clients are refused, once it is reached")
    .mend(format!("ulimit -Hn {needed}  # for a service: LimitNOFILE={needed} by `systemctl --user edit mainstay`"))
}

/// Compares the clock with the clocks of HTTP servers.
pub async fn clock(config: Option<&Config>, may_ask: bool) -> Vec<DoctorFinding> {
    let now = SystemTime::now();
    if now < SystemTime::UNIX_EPOCH + BUILT_AFTER {
        return vec![skewed("the clock is before the year 2026".to_owned())];
    }
    let servers = config.map(|config| &config.servers[..]).unwrap_or_default();
    let enabled = servers.iter().filter(|server| server.enabled && may_ask);
    let http_servers = enabled.filter_map(|server| match &server.launch {
        Launch::Http(http) => Some((server.name.as_str(), http)),
        Launch::Stdio(_) | Launch::Broken(_) | Launch::Unapproved => None,
    });
    let dates = http_servers.map(|(name, http)| async move { (name, skew(http).await) });
    let dates = join_all(dates).await;
    let skews = dates
        .iter()
        .filter_map(|(name, skew)| Some((name, (*skew)?)));
    let skews: Vec<_> = skews.collect();
    let wrong = skews.iter().filter(|(_, skew)| *skew > SKEW);
    let findings: Vec<_> = wrong
        .map(|(name, skew)| {
            skewed(format!(
                "the clock differs by {} from that of its server",
                output::span(*skew)
            ))
            .about(name)
        })
        .collect();
    if findings.is_empty() && !skews.is_empty() {
        return vec![DoctorFinding::ok(
            "clock.right",
            "the clock agrees with those of HTTP servers",
        )];
    }
    findings
}

fn skewed(message: String) -> DoctorFinding {
    let mend = if cfg!(target_os = "macos") {
        "sudo sntp -sS time.apple.com"
    } else if cfg!(windows) {
        "w32tm /resync"
    } else {
        "sudo timedatectl set-ntp true"
    };
    DoctorFinding::warning("clock.skew", message)
        .consequence("tokens seem expired or not valid yet, and certificates are refused")
        .mend(mend)
}

/// The difference between the server's clock and this one. The request leaves out the headers of the
/// server's entry, because they contain secrets.
async fn skew(http: &HttpLaunch) -> Option<Duration> {
    let url = HealthUrl::new(&Secret::new(http.url.clone()), None, None)?;
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
