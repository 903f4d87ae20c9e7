//! A log file that is renamed when it is full: `x.log`, then `x.log.1` to `x.log.5`.
//!
//! `file-rotate` renames the files. Mainstay writes them itself, because `file-rotate` silently drops bytes
//! that it cannot write, and Mainstay reports such a loss.

use std::{
    fs::File,
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
};

use file_rotate::{ContentLimit, FileRotate, compression::Compression, suffix::AppendCount};
use mainstay_platform::state;

/// The size, in bytes, at which a file is renamed.
pub const MAX_FILE: u64 = 10 * 1024 * 1024;

/// Number of renamed files that are kept.
pub const KEPT_FILES: usize = 5;

#[derive(Debug)]
pub struct Rotating {
    path: PathBuf,
    max_file: u64,
    open: Option<Open>,
    /// True if a write failed in the middle of a line.
    torn: bool,
}

#[derive(Debug)]
struct Open {
    file: File,
    /// The size of the file in bytes. It is counted, not read from the file system.
    size: u64,
}

impl Rotating {
    pub fn new(path: PathBuf, max_file: u64) -> Self {
        Self {
            path,
            max_file,
            open: None,
            torn: false,
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends a batch of lines in one write. Returns `true` if the file was rotated before the write.
    pub fn write(&mut self, batch: &[u8]) -> io::Result<bool> {
        let mut open = self.take()?;
        let size = batch.len() as u64;
        let rotates = open.size > 0 && open.size + size > self.max_file;
        if rotates {
            drop(open);
            rotate(&self.path)?;
            open = self.take()?;
        }
        if self.torn {
            open.file.write_all(b"\n")?;
        }
        self.torn = true;
        open.file.write_all(batch)?;
        self.torn = false;
        open.size += size;
        self.open = Some(open);
        Ok(rotates)
    }

    /// Returns the open file. The caller puts it back only after a success, so that the file is opened again
    /// after an error.
    fn take(&mut self) -> io::Result<Open> {
        if let Some(open) = self.open.take() {
            return Ok(open);
        }
        if let Some(dir) = self.path.parent() {
            state::private_dir(dir)?;
        }
        let file = state::open_private(&self.path, state::private_options().append(true))?;
        let size = file.metadata()?.len();
        Ok(Open { file, size })
    }
}

fn rotate(path: &Path) -> io::Result<()> {
    // `file-rotate` panics if something unexpected is in the way, such as a folder called `x.log.1`. The
    // panic must not end the thread that writes all logs.
    let rotated = catch_unwind(AssertUnwindSafe(|| {
        let mut options = state::private_options();
        options.read(true).append(true);
        let scheme = AppendCount::new(KEPT_FILES);
        FileRotate::new(
            path,
            scheme,
            ContentLimit::None,
            Compression::None,
            Some(options),
        )
        .rotate()
    }));
    rotated.unwrap_or_else(|_| Err(io::Error::other("the log files cannot be rotated")))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// There are at most six files. None is larger than the limit, and they contain the newest lines.
    #[test]
    fn files_are_rotated_by_size_and_the_oldest_goes() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("logs").join("x.log");
        let mut file = Rotating::new(path.clone(), 100);
        let mut rotations = 0;
        for number in 0..50 {
            let line = format!("{number:039}\n");
            rotations += u32::from(file.write(line.as_bytes()).expect("written"));
        }
        assert_eq!(rotations, 24);
        let dir = path.parent().expect("a folder");
        assert_eq!(fs::read_dir(dir).expect("read").count(), KEPT_FILES + 1);
        let mut newest = 49;
        for index in 0..=KEPT_FILES {
            let file = match index {
                0 => path.clone(),
                _ => dir.join(format!("x.log.{index}")),
            };
            let text = fs::read_to_string(&file).expect("read");
            assert!(text.len() <= 100, "{} bytes", text.len());
            for line in text.lines().rev() {
                assert_eq!(line.parse::<i32>().expect("a number"), newest);
                newest -= 1;
            }
        }
        assert_eq!(newest, 49 - 12);
    }

    /// The size counts the bytes from before a restart.
    #[test]
    fn a_file_that_is_there_is_continued() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("x.log");
        for expected in [false, false, true] {
            let mut file = Rotating::new(path.clone(), 100);
            assert_eq!(file.write(&[b'x'; 50]).expect("written"), expected);
        }
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_can_read_it() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a temporary folder");
        let dir = folder.path().join("logs");
        let mut file = Rotating::new(dir.join("x.log"), 10);
        for _ in 0..3 {
            file.write(b"1234567\n").expect("written");
        }
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(&dir), 0o700);
        for name in ["x.log", "x.log.1", "x.log.2"] {
            assert_eq!(mode(&dir.join(name)), 0o600, "{name}");
        }
    }

    /// An obstacle causes an error until it is removed.
    #[test]
    fn what_stands_in_the_way_is_an_error_until_it_is_gone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("x.log");
        let mut file = Rotating::new(path.clone(), 10);
        fs::create_dir(&path).expect("made");
        file.write(b"a\n").expect_err("a folder is no file");
        fs::remove_dir(&path).expect("removed");
        file.write(b"12345678\n").expect("written");
        let blocked = folder.path().join("x.log.1");
        fs::create_dir(&blocked).expect("made");
        file.write(b"12345678\n").expect_err("cannot be renamed");
        fs::remove_dir(&blocked).expect("removed");
        assert!(file.write(b"12345678\n").expect("written"));
    }
}
