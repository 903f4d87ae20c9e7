//! Unpacks a checked bundle. The folder appears completely or not at all.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufWriter, Read, Seek, Write as _},
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use crate::{
    bundle::{self, BundleRefusal, MANIFEST, UnpackPlan},
    manifest::{BadManifest, MAX_MANIFEST, Manifest},
    system::System,
    zip::{Archive, ZipError},
};

/// The maximum size of a bundle, in bytes.
pub const MAX_BUNDLE: u64 = 512 * 1024 * 1024;

/// The reason that a bundle is refused.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("cannot read the bundle {path}")]
    Read { path: PathBuf, source: io::Error },
    #[error("the bundle {0} is refused: it is no file")]
    NoFile(PathBuf),
    #[error("the bundle {0} is refused: it is larger than 512 MiB")]
    TooLarge(PathBuf),
    #[error("the bundle {path} is refused")]
    Zip { path: PathBuf, source: ZipError },
    #[error("the bundle {path} is refused")]
    Refused {
        path: PathBuf,
        source: BundleRefusal,
    },
    #[error("the bundle {path} is refused")]
    Manifest { path: PathBuf, source: BadManifest },
    #[error("cannot unpack the bundle into {path}")]
    Write { path: PathBuf, source: io::Error },
}

/// A bundle that was checked but is not unpacked yet.
#[derive(Debug)]
pub struct Bundle {
    pub path: PathBuf,
    pub manifest: Manifest,
    plan: UnpackPlan,
    /// The path of the server's main file, which must be executable if it is a program.
    entry_point: Vec<String>,
    archive: Archive<File>,
    /// The first half of the file's SHA-256, in hexadecimal.
    pub digest: String,
    pub is_signed: bool,
}

impl Bundle {
    /// Opens a bundle and checks everything except the contents of its files.
    pub fn open(path: &Path, system: System) -> Result<Self, BundleError> {
        let owned = || path.to_owned();
        let read = |source| BundleError::Read {
            path: path.to_owned(),
            source,
        };
        // Refuse a pipe, because reading it may not end.
        let metadata = fs::metadata(path).map_err(read)?;
        if !metadata.is_file() {
            return Err(BundleError::NoFile(owned()));
        }
        if metadata.len() > MAX_BUNDLE {
            return Err(BundleError::TooLarge(owned()));
        }
        let mut file = File::open(path).map_err(read)?;
        let digest = sha256(&mut file).map_err(read)?[..32].to_owned();
        let zip = |source| BundleError::Zip {
            path: path.to_owned(),
            source,
        };
        let mut archive = Archive::open(file).map_err(zip)?;
        let plan =
            bundle::plan(&archive.entries, archive.overlaps(), system).map_err(|source| {
                BundleError::Refused {
                    path: owned(),
                    source,
                }
            })?;
        let manifest = plan.files.iter().find(|file| file.path == [MANIFEST]);
        let manifest = manifest.ok_or_else(|| BundleError::Refused {
            path: owned(),
            source: BundleRefusal::NoManifest,
        })?;
        let manifest = archive.read(manifest.index, MAX_MANIFEST).map_err(zip)?;
        let invalid = |source| BundleError::Manifest {
            path: path.to_owned(),
            source,
        };
        let manifest = Manifest::read(&manifest, system).map_err(invalid)?;
        let paths = plan.files.iter().map(|file| file.path.as_slice());
        let entry_point = manifest.entry_point(paths, system).map_err(invalid)?;
        Ok(Self {
            path: owned(),
            manifest,
            plan,
            entry_point,
            is_signed: archive.is_signed,
            archive,
            digest,
        })
    }

    pub fn files(&self) -> usize {
        self.plan.files.len()
    }

    pub fn bytes(&self) -> u64 {
        self.plan.total
    }

    /// Unpacks the bundle into a temporary folder next to `to`, and then renames that folder to
    /// `to` in one step. Deletes the old folder.
    pub fn unpack(&mut self, to: &Path) -> Result<(), BundleError> {
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source| BundleError::Write { path, source }
        };
        let parent = to.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(write(parent))?;
        let temporary = tempdir(parent).map_err(write(parent))?;
        self.write_into(&temporary.0)?;
        let aside = tempdir(parent).map_err(write(parent))?;
        if to.exists() {
            // `aside` deletes the old folder when it is dropped.
            fs::rename(to, aside.0.join("old")).map_err(write(to))?;
        }
        fs::rename(&temporary.0, to).map_err(write(to))
    }

    fn write_into(&mut self, folder: &Path) -> Result<(), BundleError> {
        let write = |path: &Path| {
            let path = path.to_owned();
            move |source| BundleError::Write { path, source }
        };
        for path in &self.plan.folders {
            let path = joined(folder, path);
            fs::create_dir_all(&path).map_err(write(&path))?;
        }
        let mut left = bundle::MAX_TOTAL;
        for file in &self.plan.files {
            let path = joined(folder, &file.path);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(write(parent))?;
            }
            let executable = file.executable || file.path == self.entry_point;
            // The file is new, because the folder was empty before.
            let output = options(executable).open(&path).map_err(write(&path))?;
            let mut output = BufWriter::new(output);
            let copied = self.archive.copy(file.index, left, &mut output);
            copied.map_err(|source| BundleError::Zip {
                path: self.path.clone(),
                source,
            })?;
            output.flush().map_err(write(&path))?;
            left = left.saturating_sub(self.archive.entries[file.index].size);
        }
        Ok(())
    }
}

/// The SHA-256 of a whole file, in hexadecimal.
pub fn sha256(file: &mut (impl Read + Seek)) -> io::Result<String> {
    use std::fmt::Write as _;
    file.rewind()?;
    let mut hash = Sha256::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    Ok(text)
}

fn joined(folder: &Path, parts: &[String]) -> PathBuf {
    parts
        .iter()
        .fold(folder.to_owned(), |path, part| path.join(part))
}

fn options(executable: bool) -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(if executable { 0o700 } else { 0o600 });
    }
    #[cfg(not(unix))]
    let _ = executable;
    options
}

/// A folder that is deleted when the value is dropped, unless the folder was moved.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a move there is nothing to delete.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// Creates a folder that only its owner can read.
fn tempdir(parent: &Path) -> io::Result<Temporary> {
    const TRIES: u32 = 1000;
    for number in 0..TRIES {
        let path = parent.join(format!(".unpacking-{}-{number}", std::process::id()));
        let mut builder = fs::DirBuilder::new();
        #[cfg(unix)]
        {
            use std::os::unix::fs::DirBuilderExt as _;
            builder.mode(0o700);
        }
        match builder.create(&path) {
            Ok(()) => return Ok(Temporary(path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
