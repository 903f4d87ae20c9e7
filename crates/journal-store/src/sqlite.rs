//! The store behind a journal: its readers, and its writing thread.

use mainstay_core::record::{Cid, Record, RecordId};
use mainstay_journal::{
    Holder, JournalError, JournalHistory, Period, Range, RecordFilter, RecordPage, RecordsSpan,
    Series, store::Store,
};

use super::{
    StoreError,
    opening::Opening,
    read::{Reader, Readers},
    writer::Writer,
};

#[derive(Debug)]
pub struct Sqlite {
    readers: Readers,
    writer: Writer,
}

impl Sqlite {
    pub fn start(opening: Opening) -> Result<Self, StoreError> {
        Ok(Self {
            readers: Readers::new(&opening.folder, opening.published.clone()),
            writer: Writer::start(opening)?,
        })
    }
}

impl Store for Sqlite {
    fn records(
        &self,
        filter: &RecordFilter,
        limit: usize,
        is_awaited: &dyn Fn() -> bool,
    ) -> Result<RecordPage, JournalError> {
        let query = |reader: &mut Reader| reader.records(filter, limit, is_awaited);
        Ok(self.readers.with(query)?)
    }

    fn record(&self, id: RecordId) -> Result<Option<Record>, JournalError> {
        Ok(self.readers.with(|reader| reader.record(id))?)
    }

    fn span(&self) -> Result<RecordsSpan, JournalError> {
        Ok(self.readers.with(|reader| reader.span())?)
    }

    fn history(&self, period: &Period) -> Result<JournalHistory, JournalError> {
        Ok(self.readers.with(|reader| reader.history(period))?)
    }

    fn statistics(&self, range: &Range) -> Result<Vec<Series>, JournalError> {
        Ok(self.readers.with(|reader| reader.statistics(range))?)
    }

    fn is_held(
        &self,
        cid: Cid,
        is_allowed: &dyn Fn(&Holder) -> bool,
    ) -> Result<bool, JournalError> {
        Ok(self
            .readers
            .with(|reader| reader.is_held(cid, is_allowed))?)
    }

    fn object_slice(
        &self,
        cid: Cid,
        offset: u64,
        length: usize,
    ) -> Result<(Vec<u8>, u64), JournalError> {
        let query = |reader: &mut Reader| reader.object_slice(cid, offset, length);
        Ok(self.readers.with(query)?)
    }

    fn end(&self) {
        self.writer.join();
    }
}
