//! Writes a configuration file.

use std::{fs, io, path::Path};

use mainstay_config::edit::SCHEMA_FILE;
use mainstay_platform::{encoding::Encoding, state};

/// Replaces the file atomically: readers, and the disk after a power cut, have either the old or the
/// new content. Only the owner can read the new file, because it may contain secrets. Reads the file
/// back to detect a concurrent write.
pub fn save(path: &Path, text: &str) -> io::Result<()> {
    save_as(path, |encoding| encoding.encode(text))
}

/// Like [`save`], but writes these bytes unchanged.
pub fn save_bytes(path: &Path, bytes: &[u8]) -> io::Result<()> {
    save_as(path, |_| bytes.to_vec())
}

fn save_as(path: &Path, bytes: impl FnOnce(Encoding) -> Vec<u8>) -> io::Result<()> {
    // Replace the target of a link, and keep the link.
    let path = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path)?,
        found => found?,
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    state::create_private_dir(folder)?;
    // Keep an encoding such as UTF-16, because other programs that write the file expect it.
    let bytes = bytes(Encoding::of_file(&path)?);
    state::write_private(&path, &bytes)?;
    state::sync_folder(folder)?;
    if fs::read(&path)? == bytes {
        Ok(())
    } else {
        Err(io::Error::other("somebody else wrote it at the same time"))
    }
}

/// Writes the current schema into the folder of the configuration, unless the schema is already
/// there. A failure is only logged, because a configuration works without its schema.
pub fn schema_beside(path: &Path) {
    let schema = path.with_file_name(SCHEMA_FILE);
    let text = mainstay_config::schema_text();
    if fs::read_to_string(&schema).is_ok_and(|existing| existing == text) {
        return;
    }
    if let Err(error) = state::write_private(&schema, text.as_bytes()) {
        tracing::warn!(path = %schema.display(), %error, "the schema was not written");
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    /// A save sets the mode 0600, follows a link, and leaves no temporary file.
    #[test]
    fn the_file_is_its_owners_and_a_link_stays() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (real, link) = (
            folder.path().join("real.json"),
            folder.path().join("link.json"),
        );
        fs::write(&real, "old").expect("written");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o644)).expect("set");
        symlink(&real, &link).expect("linked");
        save(&link, "new").expect("saved");
        assert_eq!(fs::read_to_string(&real).expect("there"), "new");
        let mode = fs::metadata(&real).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 2);
    }

    #[test]
    fn a_file_in_utf_16_stays_in_utf_16() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("config.json");
        fs::write(&path, Encoding::Utf16Le.encode("{}")).expect("written");
        save(&path, "{\"ü\": 1}").expect("saved");
        let expected = Encoding::Utf16Le.encode("{\"ü\": 1}");
        assert_eq!(fs::read(&path).expect("there"), expected);
    }

    /// The first save creates the file and its folder.
    #[test]
    fn the_first_save_makes_the_folder() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("mainstay").join("config.json");
        save(&path, "{}").expect("saved");
        assert_eq!(fs::read_to_string(&path).expect("there"), "{}");
    }

    #[test]
    fn a_save_that_fails_leaves_nothing() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let occupied = folder.path().join("config.json");
        fs::create_dir(&occupied).expect("made");
        save(&occupied, "{}").expect_err("a folder is there");
        assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 1);
    }
}
