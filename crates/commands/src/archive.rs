//! Reads records without a daemon: from the daemon's journal, and from the journals of `mainstay mcp` and of
//! commands with `--config`. Each of these has an instance in the state directory. Never writes to a
//! journal, so other processes may write it at the same time.
//!
//! Each journal numbers its own records. A record of an instance has the name `INSTANCE/ID`.

use std::{cmp::Reverse, ops::ControlFlow, path::Path};

use mainstay_api::{CallRecord, CallRecords, Raw, WholeCallRecord};
use mainstay_command_line::{CommandError, stderr::complain};
use mainstay_core::{
    failure::{Failure, FailureKind},
    record::{Cid, Payload, Record, RecordId},
};
use mainstay_doorway::json_views::history;
use mainstay_journal::{JournalError, RecordFilter};
use mainstay_platform::{environment::Process, state::StateDir, utc};
use serde_json::value::RawValue;

use super::store::{JournalReader, StoreHost};

/// The journals of a state directory.
pub struct Archive {
    journals: Vec<Journal>,
}

struct Journal {
    /// The name of the instance, or `None` for the daemon's own journal.
    instance: Option<String>,
    reader: Box<dyn JournalReader>,
}

impl Archive {
    /// Opens all journals in a state directory. Returns `None` if there is none. Skips a journal that cannot
    /// be read, with a note on stderr.
    pub fn all(host: &dyn StoreHost, state: &Path) -> Result<Option<Self>, CommandError> {
        let daemon_journal = (None, state.to_owned());
        let instances = StateDir::new(state).instances()?.into_iter();
        let instances = instances.map(|(name, path)| (Some(name), path));
        let mut journals = Vec::new();
        for (instance, path) in [daemon_journal].into_iter().chain(instances) {
            match host.journal(&path) {
                Ok(Some(reader)) => journals.push(Journal { instance, reader }),
                Ok(None) => {}
                Err(fault) => complain(&format!("{} is left out: {}", path.display(), fault.error)),
            }
        }
        Ok((!journals.is_empty()).then_some(Self { journals }))
    }

    /// Opens the journal of an instance. Fails if there is none.
    pub fn of_instance(host: &dyn StoreHost, instance: &str) -> Result<Self, CommandError> {
        let instances = StateDir::locate(&Process)?.instances()?;
        let found = instances.into_iter().find(|(name, _)| name == instance);
        let reader = found.map(|(_, path)| host.journal(&path)).transpose()?;
        let reader = reader.flatten().ok_or_else(|| CommandError::NotFound {
            subject: format!("a journal of instance {instance:?}"),
            hint: "the folders of `instances` in the state directory are their names".to_owned(),
        })?;
        Ok(Self {
            journals: vec![Journal {
                instance: Some(instance.to_owned()),
                reader,
            }],
        })
    }

    /// The newest records that match the filter. Only a single journal has a next page.
    pub fn records(
        &mut self,
        filter: &RecordFilter,
        limit: usize,
    ) -> Result<CallRecords, CommandError> {
        let (mut calls, mut next) = (Vec::new(), None);
        let (mut total_count, mut truncated) = (0, false);
        let (mut searched_back_to, mut gaps) = (None, Vec::new());
        let is_one = self.journals.len() == 1;
        for journal in &mut self.journals {
            let page = journal.reader.records(filter, limit)?;
            total_count += page.total_count;
            gaps.extend(page.gaps);
            truncated |= page.truncated;
            // Keep the latest time: every journal was searched at least back to it.
            searched_back_to = searched_back_to.max(page.searched_back_to);
            let named = page.next.map(|id| journal.name(id));
            next = named.filter(|_| is_one);
            let records = page.calls.iter();
            calls.extend(records.map(|record| (record.started_at, journal.call_record(record))));
        }
        gaps.sort_by_key(|gap| gap.since);
        calls.sort_by_key(|(started_at, _)| Reverse(*started_at));
        truncated |= calls.len() > limit;
        calls.truncate(limit);
        Ok(CallRecords {
            calls: calls.into_iter().map(|(_, call)| call).collect(),
            total_count,
            truncated,
            next,
            searched_back_to: searched_back_to.map(utc::rfc3339),
            gaps: gaps.iter().map(history::gap).collect(),
        })
    }

    /// Passes the records that match the filter to `see`, page by page and journal by journal. Stops when
    /// `see` returns `Break`.
    pub async fn pages(
        &mut self,
        filter: &RecordFilter,
        size: usize,
        mut see: impl FnMut(Vec<CallRecord>) -> Result<ControlFlow<()>, CommandError>,
    ) -> Result<(), CommandError> {
        for journal in &mut self.journals {
            let mut filter = RecordFilter {
                uncounted: true,
                ..filter.clone()
            };
            loop {
                let page = journal.reader.records(&filter, size)?;
                let records = page.calls.iter().map(|record| journal.call_record(record));
                if see(records.collect())?.is_break() {
                    return Ok(());
                }
                let Some(next) = page.next else { break };
                filter.before = Some(next);
                // Let other tasks show progress and receive signals between two pages.
                tokio::task::yield_now().await;
            }
        }
        Ok(())
    }

    /// The record with this id in the first journal: the daemon's journal, if there is one.
    pub fn record(&mut self, id: &str) -> Result<WholeCallRecord, CommandError> {
        let number: Option<RecordId> = id.parse().ok();
        let journal = self.journals.first_mut();
        let (Some(number), Some(journal)) = (number, journal) else {
            return Err(no_record(id));
        };
        let record = journal.reader.record(number)?;
        let record = record.ok_or_else(|| no_record(id))?;
        Ok(WholeCallRecord {
            call: journal.call_record(&record),
            arguments: journal.payload(record.arguments)?,
            result: journal.payload(record.result)?,
        })
    }

    /// The object with this identifier, from the first journal that has it.
    pub fn object(&mut self, cid: &str) -> Result<Vec<u8>, CommandError> {
        let cid: Cid = cid.parse().map_err(|error| no_object(cid, &error))?;
        for journal in &mut self.journals {
            match journal.reader.object(cid) {
                Err(fault) if matches!(fault.error, JournalError::NoSuchObject(_)) => {}
                found => return Ok(found?),
            }
        }
        let absent = JournalError::NoSuchObject(cid);
        Err(no_object(&cid.to_string(), &absent))
    }
}

impl Journal {
    fn name(&self, id: RecordId) -> String {
        match &self.instance {
            Some(instance) => format!("{instance}/{id}"),
            None => id.to_string(),
        }
    }

    /// Converts a record for the REST API, with its name.
    fn call_record(&self, record: &Record) -> CallRecord {
        CallRecord {
            id: self.name(record.id),
            ..CallRecord::from(record)
        }
    }

    /// The payload of a record, or `None` if it is not stored.
    fn payload(&mut self, payload: Option<Payload>) -> Result<Option<Raw>, CommandError> {
        let Some(cid) = payload.and_then(|payload| payload.cid) else {
            return Ok(None);
        };
        match self.reader.object(cid) {
            Ok(bytes) => {
                let text = String::from_utf8(bytes).ok();
                Ok(text.and_then(|text| RawValue::from_string(text).ok()))
            }
            Err(fault) => match fault.error {
                JournalError::NotKept(_) | JournalError::NoSuchObject(_) => Ok(None),
                _ => Err(fault.into()),
            },
        }
    }
}

/// Splits `INSTANCE/ID`.
pub fn split(id: &str) -> (Option<&str>, &str) {
    match id.rsplit_once('/') {
        Some((instance, id)) => (Some(instance), id),
        None => (None, id),
    }
}

fn no_record(id: &str) -> CommandError {
    Failure::new(
        FailureKind::RecordNotFound,
        format!("there is no record {id}"),
    )
    .into()
}

fn no_object(cid: &str, error: &dyn std::error::Error) -> CommandError {
    let failure = Failure::new(FailureKind::CidNotFound, error.to_string());
    failure.with("cid", cid.to_owned()).into()
}
