//! Sessions that clients have ended (DELETE). The state directory stores them, one per line, so
//! that a later run does not revive them. They are dropped when their seals expire.

use std::{
    collections::BTreeSet,
    fs::File,
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use mainstay_platform::{blocking::try_off_the_runtime, state};
use parking_lot::{Mutex, MutexGuard};

/// Time after the opening of a session in which a later run may revive it.
pub const REVIVED_FOR: Duration = Duration::from_hours(7 * 24);

/// Maximum number of stored sessions. They take 3 MB of memory. Beyond the limit, the oldest is
/// dropped, and sessions of its age are never revived.
const MAX_ENDED: usize = 100_000;

/// Maximum number of lines in the file. A longer file is rewritten.
const MAX_LINES: usize = 2 * MAX_ENDED;

/// Number of hexadecimal digits of a time and of a seal.
const TIME: usize = 11;
const SEAL: usize = 16;

/// Maximum size of the file in bytes. It may have an incomplete last line.
const MAX_BYTES: usize = (MAX_LINES + 1) * (TIME + SEAL + 1);

/// Identifies a session: its time of opening (milliseconds since 1970), and the seal of its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Birth {
    pub opened: u64,
    pub seal: u64,
}

/// The sessions that clients have ended, in this run and in earlier ones.
#[derive(Debug)]
pub struct EndedSessions(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    set: Mutex<EndedSet>,
    /// `None` without a state directory. Only blocking threads lock it.
    file: Option<Mutex<Lines>>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct EndedSet {
    /// Sessions that were opened at this time (milliseconds since 1970) or before are never
    /// revived.
    floor: u64,
    births: BTreeSet<Birth>,
}

impl EndedSet {
    fn has(&self, birth: Birth) -> bool {
        birth.opened <= self.floor || self.births.contains(&birth)
    }

    fn add(&mut self, birth: Birth) {
        self.births.insert(birth);
        if self.births.len() > MAX_ENDED
            && let Some(oldest_birth) = self.births.pop_first()
        {
            self.floor = self.floor.max(oldest_birth.opened);
        }
    }

    /// Drops sessions whose seals have expired.
    fn expire(&mut self, now: u64) {
        let lifetime = u64::try_from(REVIVED_FOR.as_millis()).unwrap_or(u64::MAX);
        let oldest_birth = Birth {
            opened: now.saturating_sub(lifetime),
            seal: 0,
        };
        self.births = self.births.split_off(&oldest_birth);
    }

    /// Reads the ended sessions from the file; none if the file is missing.
    fn load(path: &Path) -> io::Result<Self> {
        let mut options = state::private_options();
        let file = match state::open_private(path, options.create(false).read(true)) {
            Ok(file) => file,
            Err(error) if error.is_not_found() => return Ok(Self::default()),
            Err(error) => return Err(error.into()),
        };
        let mut text = String::new();
        // Read one byte more than allowed, to detect a file that is too large.
        file.take(MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
        if text.len() > MAX_BYTES {
            return Err(io::Error::other("the file is too large"));
        }
        Self::read(&text).ok_or_else(|| io::Error::other("a line is damaged"))
    }

    /// Parses the lines of a file; `None` if a line is invalid. Ignores an incomplete last line.
    fn read(text: &str) -> Option<Self> {
        let mut set = Self::default();
        let complete_lines = text.rfind('\n').map_or("", |end| &text[..end]);
        for line in complete_lines.lines() {
            let (time, seal) = line.split_at_checked(TIME)?;
            let opened_at = u64::from_str_radix(time, 16).ok()?;
            if seal.is_empty() {
                set.floor = set.floor.max(opened_at);
                continue;
            }
            let seal = Some(seal).filter(|seal| seal.len() == SEAL)?;
            let seal = u64::from_str_radix(seal, 16).ok()?;
            set.add(Birth {
                opened: opened_at,
                seal,
            });
        }
        Some(set)
    }

    fn text(&self) -> String {
        std::iter::once(format!("{:0TIME$x}\n", self.floor))
            .chain(self.births.iter().copied().map(line))
            .collect()
    }
}

fn line(Birth { opened, seal }: Birth) -> String {
    format!("{opened:0TIME$x}{seal:0SEAL$x}\n")
}

/// The file, opened for appending.
#[derive(Debug)]
struct Lines {
    path: PathBuf,
    /// `None` after a write error. The next write replaces the file.
    file: Option<File>,
    count: usize,
}

impl Lines {
    fn add(&mut self, birth: Birth, set: impl FnOnce() -> EndedSet) -> io::Result<()> {
        if let Some(mut file) = self.file.take()
            && self.count < MAX_LINES
        {
            file.write_all(line(birth).as_bytes())?;
            self.file = Some(file);
            self.count += 1;
            return Ok(());
        }
        self.rewrite(&set())
    }

    fn rewrite(&mut self, set: &EndedSet) -> io::Result<()> {
        state::write_private(&self.path, set.text().as_bytes())?;
        let mut options = state::private_options();
        let file = state::open_private(&self.path, options.create(false).append(true))?;
        self.file = Some(file);
        self.count = set.births.len() + 1;
        Ok(())
    }
}

impl EndedSessions {
    /// Reads the ended sessions of earlier runs. If that fails, no session that was opened before
    /// `now` is revived.
    pub fn open(path: Option<PathBuf>, now: u64) -> Self {
        let Some(path) = path else {
            return Self(Arc::new(Shared {
                set: Mutex::default(),
                file: None,
            }));
        };
        let mut set = EndedSet::load(&path).unwrap_or_else(|error| {
            tracing::warn!(%error, path = %path.display(), "which sessions have ended cannot be read: none is revived");
            EndedSet {
                floor: now,
                ..EndedSet::default()
            }
        });
        set.expire(now);
        let mut lines = Lines {
            path,
            file: None,
            count: 0,
        };
        if let Err(error) = lines.rewrite(&set) {
            warn_not_stored(&error);
        }
        Self(Arc::new(Shared {
            set: Mutex::new(set),
            file: Some(Mutex::new(lines)),
        }))
    }

    pub fn has(&self, birth: Birth) -> bool {
        self.0.set().has(birth)
    }

    /// Stores an ended session for this run and later ones.
    pub async fn add(&self, birth: Birth, now: u64) {
        {
            let mut set = self.0.set();
            set.expire(now);
            set.add(birth);
        }
        if self.0.file.is_none() {
            return;
        }
        let shared_set = Arc::clone(&self.0);
        let write_result = try_off_the_runtime(move || shared_set.write(birth)).await;
        if let Err(error) = write_result.map_err(io::Error::other).flatten() {
            warn_not_stored(&error);
        }
    }
}

impl Shared {
    fn set(&self) -> MutexGuard<'_, EndedSet> {
        // Locked for operations on the set, never across an await.
        self.set.lock()
    }

    fn write(&self, birth: Birth) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut lines = file.lock();
        lines.add(birth, || self.set().clone())
    }
}

fn warn_not_stored(error: &io::Error) {
    tracing::warn!(%error, "the end of a session could not be kept: a later run may revive it");
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const NOW: u64 = 1_795_000_000_000;

    fn birth(number: u64) -> Birth {
        Birth {
            opened: NOW + number,
            seal: number,
        }
    }

    #[tokio::test]
    async fn a_later_run_reads_ended_sessions_until_their_seals_expire() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("ended");
        let ended_sessions = EndedSessions::open(Some(path.clone()), NOW);
        for number in [1, 2] {
            ended_sessions.add(birth(number), NOW).await;
        }
        // An incomplete last line, from a run that was killed during a write.
        let mut file = File::options().append(true).open(&path).expect("a file");
        file.write_all(b"000").expect("written");
        let later_sessions = EndedSessions::open(Some(path.clone()), NOW);
        assert!(
            later_sessions.has(birth(1))
                && later_sessions.has(birth(2))
                && !later_sessions.has(birth(3))
        );
        later_sessions.add(birth(3), NOW).await;
        assert!(EndedSessions::open(Some(path.clone()), NOW).has(birth(3)));
        let lifetime = u64::try_from(REVIVED_FOR.as_millis()).expect("it fits");
        let last_sessions = EndedSessions::open(Some(path.clone()), NOW + lifetime + 3);
        assert!(!last_sessions.has(birth(2)) && last_sessions.has(birth(3)));
    }

    #[tokio::test]
    async fn an_unreadable_file_prevents_revival() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("ended");
        for text in ["what?\n\n", "00000000001g\n", "000000000010000\n"] {
            fs::write(&path, text).expect("written");
            let ended_sessions = EndedSessions::open(Some(path.clone()), NOW);
            assert!(
                ended_sessions.has(birth(0)) && !ended_sessions.has(birth(1)),
                "{text:?}"
            );
        }
        fs::write(&path, b"\xff\n").expect("written");
        assert!(EndedSessions::open(Some(path.clone()), NOW).has(birth(0)));
        fs::write(&path, "0".repeat(MAX_BYTES + 1)).expect("written");
        assert!(EndedSessions::open(Some(path), NOW).has(birth(0)));
    }

    /// A pipe in the file's place does not block, and a link is not followed. Both are replaced.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn other_file_types_are_replaced() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (path, other_path) = (folder.path().join("ended"), folder.path().join("other"));
        let make_pipe = || {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0)
                .expect("a pipe");
        };
        let make_link = || std::os::unix::fs::symlink(&other_path, &path).expect("a link");
        for make in [&make_pipe as &dyn Fn(), &make_link] {
            fs::write(&other_path, "0000000000a\n").expect("written");
            make();
            let ended_sessions = EndedSessions::open(Some(path.clone()), NOW);
            assert!(ended_sessions.has(birth(0)) && !ended_sessions.has(birth(1)));
            ended_sessions.add(birth(1), NOW).await;
            assert_eq!(
                fs::read_to_string(&other_path).expect("a file"),
                "0000000000a\n"
            );
            assert!(EndedSessions::open(Some(path.clone()), NOW).has(birth(1)));
            fs::remove_file(&path).expect("removed");
        }
    }

    #[test]
    fn excess_entries_are_dropped_and_raise_the_floor() {
        let mut set = EndedSet::default();
        let max_ended = u64::try_from(MAX_ENDED).expect("it fits");
        for number in (1..=max_ended + 1).rev() {
            set.add(birth(number));
        }
        assert_eq!(set.births.len(), MAX_ENDED);
        for number in 0..=max_ended + 1 {
            assert!(set.has(birth(number)), "{number}");
        }
        assert!(!set.has(birth(max_ended + 2)));
        assert_eq!(EndedSet::read(&set.text()), Some(set));
    }
}
