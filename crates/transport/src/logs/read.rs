//! Reads the end of a log, including rotated files, without reading whole files.

use std::{
    fs::File,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

use mainstay_core::ids::ServerName;
use mainstay_platform::state;

use super::{
    Line,
    paths::{file_name, folder},
    rotating::KEPT_FILES,
};

/// The maximum number of lines that can be requested at once.
pub const MAX_TAIL: usize = 10_000;

/// The maximum number of bytes that are read, however long the lines are.
const MAX_BYTES: usize = 8 * 1024 * 1024;

const BLOCK: usize = 64 * 1024;

/// The last lines in a state directory whose daemon does not run. `None` if there is no log of this server.
pub fn left_behind(
    state: &Path,
    server: &ServerName,
    lines: usize,
) -> io::Result<Option<Vec<Line>>> {
    let folder = folder(state);
    let path = folder.join(file_name(server));
    if path.try_exists()? {
        state::trusted_dir(&folder)?;
        tail(&path, lines).map(|end| Some(end.lines))
    } else {
        Ok(None)
    }
}

/// The end of a log.
#[derive(Debug)]
pub struct End {
    /// The lines, oldest first.
    pub lines: Vec<Line>,
    /// True if the log has no older lines.
    pub is_all: bool,
}

/// Reads the last lines of a log, of its rotated files as well.
pub fn tail(path: &Path, lines: usize) -> io::Result<End> {
    let limit = lines.min(MAX_TAIL);
    let mut budget = MAX_BYTES;
    let mut newest_first = Vec::new();
    let mut is_all = true;
    for path in files(path) {
        let mut options = state::private_options();
        let file = match state::open_private(&path, options.create(false).read(true)) {
            Err(error) if error.is_not_found() => break,
            file => file?,
        };
        let missing = limit - newest_first.len();
        let (end, is_whole) = read_end(file, missing, &mut budget)?;
        let text = String::from_utf8_lossy(&end);
        let mut lines = text.lines().rev().filter_map(Line::parse);
        newest_first.extend(lines.by_ref().take(missing));
        if !is_whole || lines.next().is_some() {
            is_all = false;
            break;
        }
    }
    newest_first.reverse();
    Ok(End {
        lines: newest_first,
        is_all,
    })
}

/// The log file and its rotated files, newest first.
fn files(path: &Path) -> impl Iterator<Item = PathBuf> {
    (0..=KEPT_FILES).map(move |number| match number {
        0 => path.to_owned(),
        _ => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{number}"));
            name.into()
        }
    })
}

/// Reads the end of a file. It has at least `lines` whole lines, if the file and the budget allow. Also
/// returns `true` if it is the whole file.
fn read_end(mut file: File, lines: usize, budget: &mut usize) -> io::Result<(Vec<u8>, bool)> {
    let mut at = file.seek(SeekFrom::End(0))?;
    let (mut blocks, mut ends) = (Vec::new(), 0);
    // Find one more line end than `lines`. It belongs to the line before them.
    while at > 0 && ends <= lines && *budget > 0 {
        let size = usize::try_from(at).map_or(BLOCK, |left| left.min(BLOCK));
        at -= size as u64;
        file.seek(SeekFrom::Start(at))?;
        let mut block = vec![0; size];
        file.read_exact(&mut block)?;
        ends += memchr::memchr_iter(b'\n', &block).count();
        *budget = budget.saturating_sub(size);
        blocks.push(block);
    }
    blocks.reverse();
    let mut end = blocks.concat();
    if at > 0 {
        // The first line is incomplete.
        let first = memchr::memchr(b'\n', &end).map_or(end.len(), |at| at + 1);
        end.drain(..first);
    }
    Ok((end, at == 0))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn text(numbers: std::ops::Range<u32>) -> String {
        let line = |number| format!("T stderr {number} {}\n", "x".repeat(700));
        numbers.map(line).collect::<Vec<_>>().concat()
    }

    fn numbers(path: &Path, lines: usize) -> Vec<u32> {
        let lines = tail(path, lines).expect("read").lines;
        let number = |line: &Line| {
            let word = line.text.split(' ').next().unwrap_or_default();
            word.parse().expect("a number")
        };
        lines.iter().map(number).collect()
    }

    #[test]
    fn it_is_known_whether_anything_stands_before() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("x.log");
        let is_all = |lines| tail(&path, lines).expect("read").is_all;
        assert!(is_all(0));
        fs::write(folder.path().join("x.log.1"), text(0..300)).expect("written");
        fs::write(&path, text(300..310)).expect("written");
        assert_eq!([10, 309, 310, 1000].map(is_all), [false, false, true, true]);
        // First the number of lines exceeds its limit, and then the number of bytes.
        fs::remove_file(folder.path().join("x.log.1")).expect("removed");
        fs::write(&path, "T stderr 1\n".repeat(MAX_TAIL)).expect("written");
        assert!(is_all(MAX_TAIL));
        fs::write(&path, "T stderr 1\n".repeat(MAX_TAIL + 1)).expect("written");
        assert!(!is_all(usize::MAX));
        let long = format!("T stderr {}\n", "x".repeat(MAX_BYTES / 100));
        fs::write(&path, long.repeat(101)).expect("written");
        assert!(!is_all(usize::MAX));
    }

    #[test]
    fn the_tail_reaches_back_into_rotated_files() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("x.log");
        assert_eq!(numbers(&path, 5), Vec::<u32>::new());
        fs::write(folder.path().join("x.log.2"), text(0..300)).expect("written");
        fs::write(folder.path().join("x.log.1"), text(300..600)).expect("written");
        fs::write(&path, text(600..610)).expect("written");
        for count in [0, 1, 10, 11, 200, 310, 500, 610, 700] {
            let expected: Vec<u32> = (610 - count.min(610)..610).collect();
            assert_eq!(numbers(&path, count as usize), expected, "{count}");
        }
    }

    #[test]
    fn what_is_no_line_is_left_out() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("x.log");
        fs::write(&path, "half\n\nT stdout a  b\nT nobody c\nT mainstay ünï").expect("written");
        let texts = tail(&path, 9).expect("read").lines;
        let texts: Vec<_> = texts.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["a  b", "ünï"]);
    }
}
