//! Private files and directories. New content is written under a random name that no other process can
//! predict, and then renamed. Links are not followed.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use super::{Untrusted, random_token, trust};

/// The number of characters in the random part of a name.
const RANDOM: usize = 12;

/// The age at which an unfinished file counts as left over from a killed run.
const ABANDONED: Duration = Duration::from_secs(60 * 60);

/// Writes a file that only its owner can read. Readers see either the old or the new content.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = temporary_name(path)?;
    let written = write_new(&new, bytes).and_then(|()| fs::rename(&new, path));
    if written.is_err() {
        // Return the error of the write, not of the removal.
        fs::remove_file(&new).ok();
    }
    written
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = private_options().write(true).create_new(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Syncs a folder. The name of a new file is on the disk only when its folder is synced.
#[cfg(unix)]
pub fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

#[cfg(not(unix))]
pub fn sync_folder(_folder: &Path) -> io::Result<()> {
    Ok(())
}

/// Returns an unused name in the same folder, because a rename is atomic only there.
fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let random = random_token().map_err(io::Error::other)?;
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}", &random.expose()[..RANDOM]));
    Ok(path.with_file_name(name))
}

/// Removes unfinished files of [`write_private`] that killed runs left behind.
pub fn sweep(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_old = || {
            let changed = entry.metadata()?.modified()?;
            let age = SystemTime::now().duration_since(changed);
            Ok::<_, io::Error>(age.is_ok_and(|age| age > ABANDONED))
        };
        if entry.file_name().to_str().is_some_and(is_unfinished) && is_old()? {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// True for the name of an unfinished file, such as `.token.0123456789ab`.
fn is_unfinished(name: &str) -> bool {
    let parts = name
        .strip_prefix('.')
        .and_then(|rest| rest.rsplit_once('.'));
    parts.is_some_and(|(name, random)| {
        let is_random = |byte: u8| byte.is_ascii_hexdigit();
        !name.is_empty() && random.len() == RANDOM && random.bytes().all(is_random)
    })
}

/// Opens a private file. Creates it if it does not exist.
pub fn open_private(path: &Path, options: &OpenOptions) -> Result<File, Untrusted> {
    let file = options.open(path)?;
    trust::file(path, &file)?;
    Ok(file)
}

/// Reads a private file.
pub fn read_private(path: &Path) -> Result<Vec<u8>, Untrusted> {
    let mut options = private_options();
    let mut file = open_private(path, options.create(false).read(true))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Options to create a file that only its owner can read. Links are not followed, and opening a pipe does not
/// block.
pub fn private_options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits().cast_signed());
    }
    options
}

/// Creates a private directory, or checks an existing one.
pub fn private_dir(path: &Path) -> Result<(), Untrusted> {
    create_private_dir(path)?;
    trust::directory(path)
}

/// Creates a directory and its parents, which only their owner can read.
pub fn create_private_dir(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}
