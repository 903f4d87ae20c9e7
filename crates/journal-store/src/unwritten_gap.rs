//! The gap that could not be written to the database. It is written to a small file whose space is
//! reserved in advance, so that it fits on a full disk. The next run moves the gap to the database.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use mainstay_journal::Gap;
use mainstay_platform::state::{open_private, private_options};

use super::time::{micros, time};

const NAME: &str = "unwritten-gap";

/// The length of the file. Overwriting needs no new space on most file systems.
const FILE_LENGTH: usize = 512;

/// Maximum bytes of the stored reason.
const MAX_REASON: usize = 256;

/// Time between two writes while the disk stays full.
const WRITE_PAUSE: Duration = Duration::from_secs(1);

pub fn path(folder: &Path) -> PathBuf {
    folder.join(NAME)
}

/// The file, and the gap in it.
#[derive(Debug)]
pub struct UnwrittenGap {
    file: File,
    stored_gap: Option<Gap>,
    written_at: Option<Instant>,
}

impl UnwrittenGap {
    /// Opens the file and reserves its space. After a failure, `None`: a gap may be lost at exit.
    pub fn open(folder: &Path) -> Option<Self> {
        Self::read(&path(folder))
            .inspect_err(|error| tracing::debug!(%error, "no gap can be kept beside the journal"))
            .ok()
    }

    fn read(path: &Path) -> io::Result<Self> {
        let mut options = private_options();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = open_private(path, &options).map_err(io::Error::other)?;
        let mut text = String::new();
        // An unreadable text is not a gap.
        (&file)
            .take(FILE_LENGTH as u64)
            .read_to_string(&mut text)
            .ok();
        let stored_gap = parse(&text);
        if stored_gap.is_none() && text.len() < FILE_LENGTH {
            overwrite(&mut file, "")?;
        }
        Ok(Self {
            file,
            stored_gap,
            written_at: None,
        })
    }

    /// The gap of an earlier run.
    pub fn gap(&self) -> Option<&Gap> {
        self.stored_gap.as_ref()
    }

    /// Writes the gap that is not in the database yet. With `is_last`, ignores [`WRITE_PAUSE`].
    pub fn keep(&mut self, gap: Option<Gap>, is_last: bool) {
        let calls = |gap: &Option<Gap>| gap.as_ref().map(|gap| (gap.since, gap.calls));
        let is_early = self
            .written_at
            .is_some_and(|time| time.elapsed() < WRITE_PAUSE);
        if calls(&self.stored_gap) == calls(&gap) || (is_early && !is_last && gap.is_some()) {
            return;
        }
        let text = gap.as_ref().map(render).unwrap_or_default();
        self.written_at = Some(Instant::now());
        match overwrite(&mut self.file, &text) {
            Ok(()) => self.stored_gap = gap,
            // The next turn tries again. The next run must not report a gap that is already in the
            // database.
            Err(error) => tracing::debug!(%error, "a gap is not kept beside the journal"),
        }
    }
}

fn overwrite(file: &mut File, text: &str) -> io::Result<()> {
    let mut bytes = [b' '; FILE_LENGTH];
    bytes[..text.len()].copy_from_slice(text.as_bytes());
    file.rewind()?;
    file.write_all(&bytes)?;
    file.sync_data()
}

/// The lines of the file: start and end in microseconds since 1970, calls, and reason. Shorter than
/// [`FILE_LENGTH`].
fn render(gap: &Gap) -> String {
    let reason = &gap.reason[..gap.reason.floor_char_boundary(MAX_REASON)];
    let until = gap.until.unwrap_or(gap.since);
    let reason = reason.replace('\n', " ");
    format!(
        "{}\n{}\n{}\n{reason}\n",
        micros(gap.since),
        micros(until),
        gap.calls
    )
}

fn parse(text: &str) -> Option<Gap> {
    let mut lines = text.lines();
    let mut number = || lines.next()?.parse::<i64>().ok();
    let (since, until, calls) = (number()?, number()?, number()?);
    Some(Gap {
        since: time(since),
        until: Some(time(until)),
        calls: calls.try_into().ok()?,
        reason: lines.next()?.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn a_gap_is_stored_in_a_file_of_fixed_length() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let length = || std::fs::metadata(path(folder.path())).expect("there").len();
        let open_file = || UnwrittenGap::open(folder.path()).expect("opened");
        let mut file = open_file();
        assert_eq!((file.gap(), length()), (None, FILE_LENGTH as u64));
        let gap = Gap {
            since: time(1_000_000),
            until: Some(SystemTime::UNIX_EPOCH + Duration::from_mins(1)),
            calls: 7,
            reason: format!("disk\nis full {}", "ü".repeat(1000)),
        };
        file.keep(Some(gap.clone()), false);
        let stored_gap = open_file().gap().cloned().expect("a gap");
        assert_eq!(
            (stored_gap.since, stored_gap.until, stored_gap.calls),
            (gap.since, gap.until, 7)
        );
        assert!(
            stored_gap.reason.starts_with("disk is full ü"),
            "{}",
            stored_gap.reason
        );
        assert_eq!(length(), FILE_LENGTH as u64);
        // A second write within a second is delayed, unless it is the last one.
        let later_gap = Gap { calls: 8, ..gap };
        file.keep(Some(later_gap.clone()), false);
        assert_eq!(open_file().gap().map(|gap| gap.calls), Some(7));
        file.keep(Some(later_gap), true);
        assert_eq!(open_file().gap().map(|gap| gap.calls), Some(8));
        file.keep(None, false);
        assert_eq!(open_file().gap(), None);
        std::fs::write(path(folder.path()), [0xff; 9]).expect("written");
        assert_eq!((open_file().gap(), length()), (None, FILE_LENGTH as u64));
    }
}
