//! The journal's store, as the commands see it.

use std::{path::Path, sync::Arc};

use mainstay_api::{
    CallRecord,
    export::{COLUMNS, Form, Value},
};
use mainstay_commands::store::{CallTable, JournalReader, StoreFault};
use mainstay_core::{
    config,
    record::{Cid, Record, RecordId},
};
use mainstay_journal::{Journal, JournalHistory, Period, RecordFilter, RecordPage};
use mainstay_journal_store::{
    Reader, StoreError,
    table_file::{self, ColumnType, TableFile},
};

/// The name of the table in a SQLite file.
const TABLE: &str = "calls";

/// Opens the journal if the settings enable it.
pub fn open_if_enabled(
    state: &Path,
    settings: &config::Journal,
) -> Result<Option<Arc<Journal>>, StoreFault> {
    mainstay_journal_store::open_if_enabled(state, settings).map_err(fault)
}

/// Opens the journal of a state directory for reading. `None` if there is none.
pub fn reader(state: &Path) -> Result<Option<Box<dyn JournalReader>>, StoreFault> {
    let reader = Reader::open(state).map_err(fault)?;
    Ok(reader.map(|reader| Box::new(StoreReader(reader)) as Box<dyn JournalReader>))
}

/// Creates a SQLite file with one table of calls.
pub fn call_table(path: &Path) -> Result<Box<dyn CallTable>, StoreFault> {
    let columns = COLUMNS.iter().map(|column| {
        let kind = match column.form {
            Form::Text | Form::Json => ColumnType::Text,
            Form::Integer => ColumnType::Integer,
            Form::Real => ColumnType::Real,
        };
        (column.name, kind)
    });
    let table = TableFile::create(path, TABLE, &columns.collect::<Vec<_>>()).map_err(fault)?;
    Ok(Box::new(CallTableFile(table)))
}

fn fault(error: StoreError) -> StoreFault {
    StoreFault {
        hint: error.hint(),
        error: error.into(),
    }
}

struct StoreReader(Reader);

impl JournalReader for StoreReader {
    fn records(&mut self, filter: &RecordFilter, limit: usize) -> Result<RecordPage, StoreFault> {
        self.0.records(filter, limit, &|| true).map_err(fault)
    }

    fn record(&mut self, id: RecordId) -> Result<Option<Record>, StoreFault> {
        self.0.record(id).map_err(fault)
    }

    fn object(&mut self, cid: Cid) -> Result<Vec<u8>, StoreFault> {
        self.0.object(cid).map_err(fault)
    }

    fn history(&mut self, period: &Period) -> Result<JournalHistory, StoreFault> {
        self.0.history(period).map_err(fault)
    }
}

struct CallTableFile(TableFile);

impl CallTable for CallTableFile {
    fn insert(&mut self, calls: &[CallRecord]) -> Result<(), StoreFault> {
        let values = |call: &CallRecord| {
            let values = COLUMNS.iter().map(|column| (column.of)(call));
            values.map(cell_value).collect()
        };
        self.0.insert(calls.iter().map(values)).map_err(fault)
    }

    fn finish(self: Box<Self>) -> Result<(), StoreFault> {
        self.0.finish().map_err(fault)
    }
}

fn cell_value(value: Value) -> table_file::CellValue {
    match value {
        Value::Null => table_file::CellValue::Null,
        Value::Text(text) => table_file::CellValue::Text(text),
        Value::Integer(number) => table_file::CellValue::Integer(number),
        Value::Real(number) => table_file::CellValue::Real(number),
    }
}
