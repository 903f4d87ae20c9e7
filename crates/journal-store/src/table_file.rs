//! A SQLite file with one plain table, for other programs: `sqlite3`, DuckDB, notebooks.

use std::path::Path;

use rusqlite::{Connection, params_from_iter, types::ToSqlOutput};

use super::StoreError;

/// The type of a column, in SQLite's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnType {
    Text,
    Integer,
    Real,
}

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum CellValue {
    Null,
    Text(String),
    Integer(i64),
    Real(f64),
}

impl ColumnType {
    fn word(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
        }
    }
}

impl rusqlite::ToSql for CellValue {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match self {
            Self::Null => Ok(rusqlite::types::Null.to_sql()?),
            Self::Text(text) => text.to_sql(),
            Self::Integer(number) => number.to_sql(),
            Self::Real(number) => number.to_sql(),
        }
    }
}

/// An open file. Each [`Self::insert`] is one transaction, so memory stays bounded.
#[derive(Debug)]
pub struct TableFile {
    connection: Connection,
    insert: String,
}

impl TableFile {
    /// Creates a table in an empty file. The first column is its key. The names are not escaped, so
    /// they must be constants of the program.
    pub fn create(
        path: &Path,
        table: &str,
        columns: &[(&str, ColumnType)],
    ) -> Result<Self, StoreError> {
        let connection = Connection::open(path)?;
        // An unfinished file is deleted, so it needs no journal.
        connection.pragma_update(None, "journal_mode", "OFF")?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        let definitions = columns.iter().enumerate().map(|(index, (name, kind))| {
            let key = if index == 0 { " PRIMARY KEY" } else { "" };
            format!("\"{name}\" {}{key}", kind.word())
        });
        let definitions: Vec<String> = definitions.collect();
        let create = format!("CREATE TABLE \"{table}\" ({})", definitions.join(", "));
        connection.execute(&create, [])?;
        let places = vec!["?"; columns.len()].join(", ");
        Ok(Self {
            connection,
            insert: format!("INSERT INTO \"{table}\" VALUES ({places})"),
        })
    }

    /// Adds rows, each with a value for every column.
    pub fn insert(
        &mut self,
        rows: impl IntoIterator<Item = Vec<CellValue>>,
    ) -> Result<(), StoreError> {
        let transaction = self.connection.transaction()?;
        {
            let mut insert = transaction.prepare_cached(&self.insert)?;
            for row in rows {
                insert.execute(params_from_iter(row))?;
            }
        }
        transaction.commit()?;
        Ok(())
    }

    /// Closes the file.
    pub fn finish(self) -> Result<(), StoreError> {
        self.connection.close().map_err(|(_, error)| error.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_names_types_and_values() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("calls.sqlite");
        let columns = [
            ("id", ColumnType::Text),
            ("bytes", ColumnType::Integer),
            ("ms", ColumnType::Real),
        ];
        let mut file = TableFile::create(&path, "calls", &columns).expect("made");
        let row = |id: &str, bytes, ms| vec![CellValue::Text(id.to_owned()), bytes, ms];
        file.insert([
            row(
                "a'; DROP TABLE calls",
                CellValue::Integer(7),
                CellValue::Real(0.5),
            ),
            row("b", CellValue::Null, CellValue::Null),
        ])
        .expect("written");
        file.insert([row("c", CellValue::Null, CellValue::Null)])
            .expect("written");
        file.insert([row("c", CellValue::Null, CellValue::Null)])
            .expect_err("twice");
        file.finish().expect("closed");
        let connection = Connection::open(&path).expect("opened");
        let types =
            "SELECT group_concat(name || ' ' || type, ', ') FROM pragma_table_info('calls')";
        let types: String = connection
            .query_row(types, [], |row| row.get(0))
            .expect("types");
        assert_eq!(types, "id TEXT, bytes INTEGER, ms REAL");
        let query = "SELECT count(*), sum(bytes), sum(ms), min(id) FROM calls";
        let totals: (i64, i64, f64, String) = connection
            .query_row(query, [], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
            })
            .expect("sums");
        assert_eq!(totals, (3, 7, 0.5, "a'; DROP TABLE calls".to_owned()));
    }
}
