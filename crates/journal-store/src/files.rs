//! Objects too large for the database: files named by their content. A file is written completely
//! or not at all.

use std::{
    fs::{self, File},
    io::{self, Read as _, Write as _},
    path::{Path, PathBuf},
};

use mainstay_core::{config::Durability, record::Cid};
use mainstay_journal::JournalError;
use mainstay_platform::state::{private_dir, private_options, sync_folder};
use sha2::{Digest as _, Sha256};

use super::StoreError;

/// Size of one read while a file is checked, in bytes.
const READ_BYTES: usize = 64 * 1024;
/// Maximum number of folders that the first file creates: this one, the journal's, and the state
/// directory.
const MAX_NEW_FOLDERS: usize = 3;
/// The name of an incomplete file.
const UNFINISHED_NAME: &str = "unfinished";

/// The `objects/` folder of a journal. The file `CID` lies in a subfolder named by its last two
/// letters, because the first letters of all CIDs are the same.
#[derive(Clone, Debug)]
pub struct Files {
    path: PathBuf,
    /// True if a file must be on the disk before its record.
    synced: bool,
}

/// The path of the objects in the journal's folder.
pub fn path(folder: &Path) -> PathBuf {
    folder.join("objects")
}

impl Files {
    pub fn new(folder: &Path) -> Self {
        Self {
            path: path(folder),
            synced: false,
        }
    }

    pub fn with_durability(self, durability: Durability) -> Self {
        Self {
            synced: durability == Durability::Strict,
            ..self
        }
    }

    pub fn path(&self, cid: &Cid) -> PathBuf {
        let name = cid.to_string();
        self.path.join(&name[name.len() - 2..]).join(name)
    }

    /// Writes content under its name. In strict mode, returns after the file and its name are on
    /// the disk. Does not write existing content again.
    pub fn write(&self, cid: &Cid, content: &[u8]) -> io::Result<()> {
        let path = self.path(cid);
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == content.len() as u64) {
            return Ok(());
        }
        let folder = path.parent().unwrap_or(&self.path);
        let is_new = !folder.exists();
        private_dir(folder)?;
        if is_new && self.synced {
            self.path
                .ancestors()
                .take(MAX_NEW_FOLDERS)
                .try_for_each(sync_folder)?;
        }
        let unfinished_path = self.path.join(UNFINISHED_NAME);
        // A killed run may have left an unfinished file.
        match fs::remove_file(&unfinished_path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = private_options()
            .write(true)
            .create_new(true)
            .open(&unfinished_path)?;
        file.write_all(content)?;
        if self.synced {
            file.sync_all()?;
        }
        fs::rename(&unfinished_path, &path)?;
        if self.synced {
            sync_folder(folder)?;
        }
        Ok(())
    }

    /// Reads `length` bytes from `offset` on, and checks the digest of the whole file.
    pub fn read(&self, cid: &Cid, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let path = self.path(cid);
        let to_store_error = |source: io::Error| match source.kind() {
            io::ErrorKind::NotFound => JournalError::Damaged(*cid).into(),
            _ => StoreError::Io {
                path: path.clone(),
                source,
            },
        };
        let mut file = File::open(&path).map_err(to_store_error)?;
        let (mut hash, mut slice) = (Sha256::new(), Vec::new());
        let (mut piece, mut position) = (vec![0; READ_BYTES], 0);
        loop {
            let read_bytes = file.read(&mut piece).map_err(to_store_error)?;
            if read_bytes == 0 {
                break;
            }
            hash.update(&piece[..read_bytes]);
            let from = offset.saturating_sub(position).min(read_bytes as u64) as usize;
            let length_in_piece = (length - slice.len()).min(read_bytes - from);
            slice.extend_from_slice(&piece[from..from + length_in_piece]);
            position += read_bytes as u64;
        }
        if hash.finalize()[..] == cid.digest()[..] {
            Ok(slice)
        } else {
            Err(JournalError::Damaged(*cid).into())
        }
    }

    /// Removes a file. A missing file is not an error.
    pub fn remove(&self, cid: &Cid) -> io::Result<()> {
        match fs::remove_file(self.path(cid)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Removes files of an earlier run: unfinished ones, and those without an object.
    pub fn sweep(
        &self,
        mut is_known: impl FnMut(&Cid) -> rusqlite::Result<bool>,
    ) -> Result<(), StoreError> {
        let to_store_error = |source| StoreError::Io {
            path: self.path.clone(),
            source,
        };
        let folders = match fs::read_dir(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            folders => folders.map_err(to_store_error)?,
        };
        for folder in folders {
            let folder = folder.map_err(to_store_error)?;
            if !folder.file_type().map_err(to_store_error)?.is_dir() {
                continue;
            }
            for file in fs::read_dir(folder.path()).map_err(to_store_error)? {
                let file = file.map_err(to_store_error)?;
                // Files of other programs stay.
                let name = file.file_name();
                let cid = name.to_str().and_then(|name| name.parse::<Cid>().ok());
                if let Some(cid) = cid
                    && !is_known(&cid)?
                {
                    fs::remove_file(file.path()).map_err(to_store_error)?;
                }
            }
        }
        Ok(())
    }
}
