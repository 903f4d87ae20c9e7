//! Reads the configuration and the files that it names. Only regular files up to a size limit are read, and
//! no caller waits longer than [`PATIENCE`].
//!
//! If a disk or network mount hangs, the thread that reads from it blocks, and no system call can interrupt
//! it. Each file is therefore read by a thread that is never joined, and the number of such threads is
//! bounded.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{File, FileType, OpenOptions},
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant},
};

use mainstay_config::UnreadableFile;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    encoding::Encoding,
    state::trust::{self, Untrusted},
};

/// The time that a caller waits for files. Reading a file normally takes milliseconds.
pub const PATIENCE: Duration = Duration::from_secs(2);

/// The size limit of a file that a reference names, in bytes. It equals the limit of an expanded entry.
pub const MAX_REFERENCED: u64 = mainstay_config::MAX_EXPANDED as u64;

/// The size limit of a configuration, in bytes. A thousand servers take less than 1 MiB.
pub const MAX_CONFIGURATION: u64 = 16 * MIB;

const MIB: u64 = 1024 * 1024;

/// The size limit of all files together that one configuration references, in bytes.
const MAX_TOGETHER: usize = 64 * 1024 * 1024;

/// The number of files that are read concurrently for one configuration. If this number of files hang, the
/// other files wait.
const SIDE_BY_SIDE: usize = 8;

/// The maximum number of files that are read at once, including files that hang. Above it, no reference is
/// read.
const MAX_READINGS: usize = 16;

/// The number of additional reads for the configuration itself, so that it can be read while referenced files
/// hang.
const MAX_CONFIGURATIONS: usize = 4;

/// True if this file can be replaced: its folder accepts new files, or can be created. The check does not
/// touch the file, so that no watcher of the file wakes.
pub fn is_replaceable(path: &Path) -> bool {
    let real = path.canonicalize();
    let real = real.as_deref().unwrap_or(path);
    let folder = real.ancestors().skip(1).find(|folder| folder.is_dir());
    folder.is_some_and(takes_files)
}

#[cfg(unix)]
fn takes_files(folder: &Path) -> bool {
    use rustix::fs::{Access, access};
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

#[cfg(not(unix))]
fn takes_files(folder: &Path) -> bool {
    folder
        .metadata()
        .is_ok_and(|folder| !folder.permissions().readonly())
}

/// Files that are being read. The lock is held only to inspect and change the list.
static READINGS: Mutex<Vec<Reading>> = Mutex::new(Vec::new());

struct Reading {
    path: PathBuf,
    /// The time at which a caller began to wait for the file.
    since: Instant,
}

fn readings() -> MutexGuard<'static, Vec<Reading>> {
    READINGS.lock()
}

/// Marks a file as being read, until the value is dropped.
struct ReadingSlot {
    path: PathBuf,
    since: Instant,
}

impl ReadingSlot {
    /// Registers a read. `since` is the time at which the caller began to wait. Fails for a file whose
    /// earlier read hangs.
    fn take(path: &Path, since: Instant, most: usize) -> Result<Self, UnreadableFile> {
        let mut readings = readings();
        let hangs = |reading: &Reading| reading.path == path && reading.since.elapsed() >= PATIENCE;
        if readings.iter().any(hangs) {
            return Err(UnreadableFile::Late(PATIENCE));
        }
        if readings.len() >= most {
            return Err(UnreadableFile::Congested(readings.len()));
        }
        let path = path.to_owned();
        readings.push(Reading {
            path: path.clone(),
            since,
        });
        Ok(Self { path, since })
    }
}

impl Drop for ReadingSlot {
    fn drop(&mut self) {
        let mut readings = readings();
        let is_mine = |reading: &Reading| reading.path == self.path && reading.since == self.since;
        if let Some(at) = readings.iter().position(is_mine) {
            readings.swap_remove(at);
        }
    }
}

/// The text of a configuration file, ours or another program's. It may be UTF-16.
pub fn configuration(path: &Path) -> Result<String, UnreadableFile> {
    one(path, |path, most| {
        Encoding::decode(bytes_now(path, most)?).ok_or(UnreadableFile::NotText)
    })
}

/// Like [`configuration`], for our own file. Fails if another user can write to the file, because it names
/// programs to run.
pub fn own_configuration(path: &Path) -> Result<String, UnreadableFile> {
    one(path, |path, most| {
        match trust::configuration(path) {
            Ok(()) => {}
            Err(Untrusted::Io(error)) => return Err(error.into()),
            Err(untrusted) => return Err(UnreadableFile::Untrusted(untrusted.to_string())),
        }
        Encoding::decode(bytes_now(path, most)?).ok_or(UnreadableFile::NotText)
    })
}

fn one(
    path: &Path,
    read: fn(&Path, u64) -> Result<String, UnreadableFile>,
) -> Result<String, UnreadableFile> {
    let limits = Limits {
        bytes: MAX_CONFIGURATION,
        readings: MAX_READINGS + MAX_CONFIGURATIONS,
    };
    let mut read = read_all(&BTreeSet::from([path.to_owned()]), limits, read);
    let late = Err(UnreadableFile::Late(PATIENCE));
    read.remove(path).unwrap_or(late)
}

/// The texts of files that references name. Every path gets a result.
pub fn referenced(paths: &BTreeSet<PathBuf>) -> BTreeMap<PathBuf, Result<String, UnreadableFile>> {
    let limits = Limits {
        bytes: MAX_REFERENCED,
        readings: MAX_READINGS,
    };
    read_all(paths, limits, read_now)
}

/// The paths in this set that are not folders. A folder that cannot be checked in time counts as existing.
pub fn missing_folders(paths: &BTreeSet<PathBuf>) -> BTreeSet<PathBuf> {
    let limits = Limits {
        bytes: 0,
        readings: MAX_READINGS,
    };
    let looked = read_all(paths, limits, |path, _| match std::fs::metadata(path)? {
        metadata if metadata.is_dir() => Ok(String::new()),
        _ => Err(UnreadableFile::Absent),
    });
    let missing = looked
        .into_iter()
        .filter(|(_, result)| *result == Err(UnreadableFile::Absent));
    missing.map(|(path, _)| path).collect()
}

#[derive(Clone, Copy)]
struct Limits {
    /// The size limit of one file, in bytes.
    bytes: u64,
    /// The maximum length of [`READINGS`].
    readings: usize,
}

/// Calls `read` for several files concurrently. Returns within [`PATIENCE`] in any case.
fn read_all(
    paths: &BTreeSet<PathBuf>,
    limits: Limits,
    read: fn(&Path, u64) -> Result<String, UnreadableFile>,
) -> BTreeMap<PathBuf, Result<String, UnreadableFile>> {
    let since = Instant::now();
    // The lock is held only to take the next path.
    let queue = Arc::new(Mutex::new(paths.iter().cloned().collect::<Vec<_>>()));
    let next = |queue: &Mutex<Vec<PathBuf>>| {
        let mut queue = queue.lock();
        queue.pop()
    };
    let (found, answers) = mpsc::channel();
    for _ in 0..paths.len().min(SIDE_BY_SIDE) {
        let (queue, found) = (Arc::clone(&queue), found.clone());
        let work = move || {
            while let Some(path) = next(&queue) {
                let turn = ReadingSlot::take(&path, since, limits.readings);
                let text = turn.and_then(|_turn| read(&path, limits.bytes));
                // The caller stopped waiting.
                if found.send((path, text)).is_err() {
                    break;
                }
            }
        };
        // Not joined: the thread ends with the read, or never.
        if let Err(error) = thread::Builder::new().name("files".to_owned()).spawn(work) {
            tracing::warn!(%error, "no thread to read files with");
        }
    }
    drop(found);
    let (mut read, mut bytes) = (BTreeMap::new(), 0);
    while read.len() < paths.len() {
        let left = PATIENCE.saturating_sub(since.elapsed());
        let Ok((path, mut text)) = answers.recv_timeout(left) else {
            break;
        };
        bytes += text.as_ref().map_or(0, String::len);
        if bytes > MAX_TOGETHER {
            text = Err(UnreadableFile::TooLarge(MAX_TOGETHER as u64 / MIB));
        }
        read.insert(path, text);
    }
    for path in paths {
        let late = || Err(UnreadableFile::Late(PATIENCE));
        read.entry(path.clone()).or_insert_with(late);
    }
    read
}

fn read_now(path: &Path, most: u64) -> Result<String, UnreadableFile> {
    String::from_utf8(bytes_now(path, most)?).map_err(|_| UnreadableFile::NotText)
}

/// Reads a regular file of at most `most` bytes. Blocks as long as the disk does.
fn bytes_now(path: &Path, most: u64) -> Result<Vec<u8>, UnreadableFile> {
    // Opening a device may already have an effect.
    regular(std::fs::metadata(path)?.file_type())?;
    let file = open(path)?;
    // The path may have changed since, so check the open file again.
    let metadata = file.metadata()?;
    regular(metadata.file_type())?;
    let too_large = UnreadableFile::TooLarge(most / MIB);
    if metadata.len() > most {
        return Err(too_large);
    }
    let mut text = Vec::new();
    // The file may grow, and files of /proc have no size.
    file.take(most + 1).read_to_end(&mut text)?;
    if text.len() as u64 > most {
        return Err(too_large);
    }
    Ok(text)
}

/// Opens a file. Does not wait for the other end of a FIFO, and does not make a terminal the controlling one.
#[cfg(unix)]
fn open(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;

    use rustix::fs::OFlags;

    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits();
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.cast_signed());
    options.open(path)
}

#[cfg(not(unix))]
fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).open(path)
}

fn regular(kind: FileType) -> Result<(), UnreadableFile> {
    if kind.is_file() {
        return Ok(());
    }
    if kind.is_dir() {
        return Err(UnreadableFile::NotRegular("a folder"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;

        if kind.is_fifo() {
            return Err(UnreadableFile::NotRegular("a FIFO"));
        }
        if kind.is_socket() {
            return Err(UnreadableFile::NotRegular("a socket"));
        }
    }
    Err(UnreadableFile::NotRegular("a device"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serialises these tests, which share [`READINGS`].
    static ONE_BY_ONE: Mutex<()> = Mutex::new(());

    /// Simulates a mount that hangs. Reads from it block until the test releases the lock.
    static HUNG: Mutex<()> = Mutex::new(());

    #[expect(
        clippy::unnecessary_wraps,
        reason = "it stands for a reader that can fail"
    )]
    fn read_or_hang(path: &Path, _: u64) -> Result<String, UnreadableFile> {
        if path.starts_with("/hung") {
            drop(HUNG.lock());
        }
        Ok(path.display().to_string())
    }

    fn read(paths: &[&str], readings: usize) -> Vec<Result<String, UnreadableFile>> {
        let paths: BTreeSet<PathBuf> = paths.iter().map(PathBuf::from).collect();
        let limits = Limits { bytes: 1, readings };
        let read = read_all(&paths, limits, read_or_hang);
        read.into_values().collect()
    }

    fn until_all_returned() {
        while !readings().is_empty() {
            thread::yield_now();
        }
    }

    /// Callers wait only once for a file that hangs. The file does not delay others, and is read again after
    /// it has recovered.
    #[test]
    fn a_file_that_hangs_is_given_up() {
        let _alone = ONE_BY_ONE.lock();
        let late = Err(UnreadableFile::Late(PATIENCE));
        let hung = HUNG.lock();
        let found = read(&["/a", "/hung/b", "/z"], 8);
        assert_eq!(
            found,
            [Ok("/a".to_owned()), late.clone(), Ok("/z".to_owned())]
        );
        assert_eq!(read(&["/hung/b"], 8), [late]);
        assert_eq!(readings().len(), 1, "no second thread waits for it");
        drop(hung);
        until_all_returned();
        assert_eq!(read(&["/hung/b"], 8), [Ok("/hung/b".to_owned())]);
        until_all_returned();
    }

    /// The number of threads that wait for hanging files is bounded.
    #[test]
    fn files_that_hang_hold_a_bounded_number_of_threads() {
        let _alone = ONE_BY_ONE.lock();
        let hung = HUNG.lock();
        let congested = Err(UnreadableFile::Congested(3));
        let found = read(&["/hung/1", "/hung/2", "/hung/3", "/hung/4", "/hung/5"], 3);
        let count = |expected: &Result<_, _>| found.iter().filter(|text| *text == expected).count();
        assert_eq!(count(&congested), 2, "{found:?}");
        assert_eq!(count(&Err(UnreadableFile::Late(PATIENCE))), 3, "{found:?}");
        assert_eq!(read(&["/a"], 3), [congested]);
        assert_eq!(read(&["/a"], 4), [Ok("/a".to_owned())], "a further one may");
        drop(hung);
        until_all_returned();
    }

    /// The file may be replaced after the first check, so the open file is checked again.
    #[cfg(unix)]
    #[test]
    fn only_regular_files_are_read() {
        let device = read_now(Path::new("/dev/zero"), 1);
        assert_eq!(device, Err(UnreadableFile::NotRegular("a device")));
        let opened = open(Path::new("/dev/zero")).expect("it can be opened");
        let kind = opened.metadata().expect("known").file_type();
        assert_eq!(regular(kind), Err(UnreadableFile::NotRegular("a device")));
    }
}
