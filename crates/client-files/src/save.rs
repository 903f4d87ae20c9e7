//! Writes a client's file.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use mainstay_platform::encoding::Encoding;

/// Replaces the file atomically. The file keeps its mode and its encoding. If the path is a symbolic
/// link, its target is replaced and the link stays. A new file is in UTF-8. Only its owner can read it,
/// because it may contain secrets.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    write_in(path, text, Encoding::of_file(path)?)
}

/// Writes the file in this encoding. See [`write`].
pub fn write_in(path: &Path, text: &str, encoding: Encoding) -> io::Result<()> {
    let path = match fs::canonicalize(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => std::path::absolute(path)?,
        found => found?,
    };
    let folder = path.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(folder)?;
    // Report the folder instead of the temporary file, which the user does not know.
    let temporary = tempfile::Builder::new()
        .prefix(".mainstay-")
        .tempfile_in(folder);
    let mut new = temporary.map_err(|error| unwritable(folder, &error))?;
    new.write_all(&encoding.encode(text))?;
    if let Ok(metadata) = fs::metadata(&path) {
        new.as_file().set_permissions(metadata.permissions())?;
    }
    new.as_file().sync_all()?;
    new.persist(&path)
        .map_err(|error| unwritable(folder, &error.error))?;
    Ok(())
}

fn unwritable(folder: &Path, error: &io::Error) -> io::Error {
    let kind = error.kind();
    io::Error::new(
        kind,
        format!(
            "its folder {} cannot be written to ({kind})",
            folder.display()
        ),
    )
}

/// Copies the file in its folder, with its mode. The copy is named `mcp.json.mainstay-backup`, with a
/// number if that name is taken. Returns `None` if there is no file.
pub fn back_up(path: &Path) -> io::Result<Option<PathBuf>> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut number = 1;
    loop {
        let ending = if number == 1 {
            String::new()
        } else {
            format!("-{number}")
        };
        let backup = path.with_file_name(format!("{name}.mainstay-backup{ending}"));
        let mut options = fs::OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        match options.open(&backup) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            opened => {
                let mut file = opened?;
                file.set_permissions(fs::metadata(path)?.permissions())?;
                file.write_all(&bytes)?;
                file.sync_all()?;
                return Ok(Some(backup));
            }
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use mainstay_platform::files;

    use super::*;

    #[test]
    fn a_file_keeps_its_mode_and_a_link_stays() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let (real, link) = (
            folder.path().join("real.json"),
            folder.path().join("link.json"),
        );
        fs::write(&real, "old").expect("written");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("set");
        symlink(&real, &link).expect("linked");
        let backup = back_up(&link).expect("copied").expect("there");
        write(&link, "new").expect("written");
        assert_eq!(fs::read_to_string(&real).expect("there"), "new");
        assert_eq!(fs::read_to_string(&backup).expect("there"), "old");
        for path in [&real, &backup] {
            let mode = fs::metadata(path).expect("there").permissions().mode();
            assert_eq!(mode & 0o777, 0o640);
        }
        assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
        let second = back_up(&link).expect("copied").expect("there");
        assert_ne!(second, backup);
        assert_eq!(
            back_up(&folder.path().join("none")).expect("no error"),
            None
        );
    }

    #[test]
    fn a_file_keeps_its_encoding() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("windows.json");
        let old = Encoding::Utf16Le.encode("{}");
        fs::write(&path, &old).expect("written");
        assert_eq!(files::configuration(&path).as_deref(), Ok("{}"));
        write(&path, "{\"a\": \"\u{fc}\"}").expect("written");
        let new = fs::read(&path).expect("there");
        assert_eq!(new, Encoding::Utf16Le.encode("{\"a\": \"\u{fc}\"}"));

        fs::remove_file(&path).expect("removed");
        write(&path, "{}").expect("written");
        assert_eq!(fs::read(&path).expect("there"), b"{}");
        write_in(&path, "{}", Encoding::Utf16Le).expect("written");
        assert_eq!(fs::read(&path).expect("there"), old);
    }

    #[test]
    fn an_error_names_the_folder_and_no_temporary_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("it.json");
        // A file cannot replace this folder.
        fs::create_dir(&path).expect("made");
        let error_for = |path: &Path| {
            let error = write_in(path, "{}", Encoding::Utf8).expect_err("it cannot be");
            let error = error.to_string();
            assert!(!error.contains(".mainstay-"), "{error}");
            error
        };
        assert!(error_for(&path).contains(&folder.path().display().to_string()));
        // Nobody can create files there, not even root.
        #[cfg(target_os = "linux")]
        assert!(error_for(Path::new("/proc/it.json")).starts_with("its folder /proc cannot be"));
    }

    #[test]
    fn a_new_file_is_its_owners_alone() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("a").join("b.json");
        write(&path, "{}").expect("written");
        let mode = fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
