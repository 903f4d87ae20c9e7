//! Chooses the build of the page that the program embeds.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Folders of `ui/` without sources of the page.
const NOT_SOURCES: [&str; 3] = ["build", "dist", "node_modules"];

/// A build of the page.
#[derive(Debug, PartialEq, Eq)]
pub struct PageBuild {
    /// Contains `index.html`.
    pub folder: PathBuf,
    /// Files and folders that decide whether this build is chosen and current.
    pub watched: Vec<PathBuf>,
    /// A source file that changed after this build was made. `None` for the build of the last release:
    /// the sources are expected to be ahead of it.
    pub newer_source: Option<PathBuf>,
}

impl PageBuild {
    /// Finds the build to embed in the folder `ui/`: the fresh one if it exists, else the committed one.
    pub fn find(ui: &Path) -> io::Result<Self> {
        let fresh = ui.join("build/page");
        let committed = ui.join("dist");
        let mut watched = vec![ui.join("build"), committed.clone()];
        let Ok(index) = fs::metadata(fresh.join("index.html")) else {
            return Ok(Self {
                folder: committed,
                watched,
                newer_source: None,
            });
        };
        let built_at = index.modified()?;
        let mut newer_source = None;
        for entry in fs::read_dir(ui)? {
            let entry = entry?;
            if NOT_SOURCES.iter().any(|name| entry.file_name() == *name) {
                continue;
            }
            newer_source = newer_source.or(find_newer(&entry.path(), built_at)?);
            watched.push(entry.path());
        }
        watched.sort();
        Ok(Self {
            folder: fresh,
            watched,
            newer_source,
        })
    }
}

/// Finds a file at or below `path` that was modified after `time`.
fn find_newer(path: &Path, time: SystemTime) -> io::Result<Option<PathBuf>> {
    let metadata = fs::metadata(path)?;
    if !metadata.is_dir() {
        let is_newer = metadata.modified()? > time;
        return Ok(is_newer.then(|| path.to_owned()));
    }
    for entry in fs::read_dir(path)? {
        if let Some(newer) = find_newer(&entry?.path(), time)? {
            return Ok(Some(newer));
        }
    }
    Ok(None)
}
