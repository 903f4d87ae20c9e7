//! Opens the journal, and handles a damaged or missing one.

use std::{
    error::Error,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use mainstay_core::config::{self, Durability};
use mainstay_journal::store::JournalQueue;
use mainstay_platform::{state::private_dir, utc};

use super::{
    StoreError,
    database::{Database, Published},
    gaps,
    layout::{self, FOLDER},
    work::Work,
};

/// The arguments for opening the journal, now or later.
#[derive(Debug)]
pub struct Opening {
    pub folder: PathBuf,
    pub settings: config::Journal,
    pub published: Published,
    pub queue: Arc<JournalQueue>,
    pub retry_after: Duration,
}

impl Opening {
    /// Opens the journal. In relaxed mode, `None` means that a later attempt may succeed. In strict
    /// mode, the failure is an error.
    pub fn begin(&self) -> Result<Option<Work>, StoreError> {
        match (self.work(), self.settings.durability) {
            (Err(error), Durability::Strict) if error.may_pass() => Err(self.refusal(error)),
            (Err(error), Durability::Relaxed) if error.may_pass() => {
                tracing::error!(
                    error = &error as &dyn Error,
                    "the journal cannot be opened; calls are not on record until it can"
                );
                self.queue.tally.failing(&error);
                Ok(None)
            }
            (result, _) => result.map(Some),
        }
    }

    /// Tries again to open the journal.
    pub fn retry(&self) -> Option<Work> {
        match self.work() {
            Ok(mut work) => {
                if let Some(outage) = self.queue.tally.succeeding() {
                    work.leave_gap(gaps::from_outage(outage));
                }
                tracing::info!("the journal is written again");
                Some(work)
            }
            Err(error) => {
                let error = &error as &dyn Error;
                tracing::debug!(error, "the journal still cannot be opened");
                None
            }
        }
    }

    /// Opens a new journal after the loss of the open one. Sets a damaged one aside.
    pub fn replace(&self, is_damaged: bool) -> Option<Work> {
        if is_damaged
            && self.folder.exists()
            && let Err(error) = set_aside(&self.folder, &StoreError::Corrupt("what was read"))
        {
            let error = &error as &dyn Error;
            tracing::error!(error, "the damaged journal cannot be set aside");
            return None;
        }
        self.retry()
    }

    /// Opens the journal. Sets a damaged one aside, except in strict mode, where a person decides.
    fn work(&self) -> Result<Work, StoreError> {
        match self.open() {
            Err(damage)
                if damage.is_damage() && self.settings.durability == Durability::Relaxed =>
            {
                set_aside(&self.folder, &damage)?;
                self.open()
            }
            result => result,
        }
    }

    fn open(&self) -> Result<Work, StoreError> {
        layout::check(&self.folder)?;
        private(&self.folder)?;
        let database = Database::open(&self.folder, &self.settings, self.published.clone())?;
        Work::new(database, Arc::clone(&self.queue))
    }

    fn refusal(&self, error: StoreError) -> StoreError {
        let path = self.folder.clone();
        let is_damage = error.is_damage();
        let source = Box::new(error);
        if is_damage {
            StoreError::Unusable { path, source }
        } else {
            StoreError::NotOpened { path, source }
        }
    }
}

fn private(folder: &Path) -> Result<(), StoreError> {
    private_dir(folder).map_err(|source| StoreError::Io {
        path: folder.to_owned(),
        source: source.into(),
    })
}

/// Renames a damaged journal. Nothing is deleted, because its records may still be recovered.
fn set_aside(folder: &Path, damage: &StoreError) -> Result<(), StoreError> {
    let now = utc::rfc3339(SystemTime::now()).replace([':', '.'], "-");
    let damaged_path = folder.with_file_name(format!("{FOLDER}-damaged-{now}"));
    fs::rename(folder, &damaged_path).map_err(|source| StoreError::Io {
        path: folder.to_owned(),
        source,
    })?;
    tracing::warn!(
        damage = damage as &dyn Error,
        damaged_path = %damaged_path.display(),
        "the journal is damaged; it was set aside, and a new one is begun"
    );
    Ok(())
}
