//! Short ids for values that many records share: callers and targets.

use std::{collections::HashMap, hash::Hash};

use mainstay_core::{
    ids::ServerName,
    record::{CallOrigin, ClientInfo, Door, Target},
};
use rusqlite::{Connection, Row, params};

use super::StoreError;

/// Maximum number of cached ids. Above this number the cache is cleared, and recurring values get
/// new ids: an extra row costs less than a search for every call.
const MAX_CACHED: usize = 16 * 1024;

/// Ids of values of one type.
#[derive(Debug)]
pub struct Interner<T> {
    ids: HashMap<T, u32, foldhash::fast::RandomState>,
    next: u32,
}

/// A value with its own table.
pub trait Interned: Clone + Eq + Hash {
    const TABLE: &str;
    fn insert(&self, connection: &Connection, id: u32) -> rusqlite::Result<()>;
}

impl<T: Interned> Interner<T> {
    /// Starts with an empty cache, so that values of earlier runs get new ids.
    pub fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let query = format!("SELECT coalesce(max(id), 0) FROM {}", T::TABLE);
        let newest_id: u32 = connection.query_row(&query, [], |row| row.get(0))?;
        Ok(Self {
            ids: HashMap::default(),
            next: newest_id + 1,
        })
    }

    pub fn id(&mut self, connection: &Connection, value: &T) -> rusqlite::Result<u32> {
        self.id_as(connection, value, |_| None)
    }

    /// The id of a value. `redact` returns the form to write instead of the value, if they differ.
    pub fn id_as(
        &mut self,
        connection: &Connection,
        value: &T,
        redact: impl FnOnce(&T) -> Option<T>,
    ) -> rusqlite::Result<u32> {
        if let Some(id) = self.ids.get(value) {
            return Ok(*id);
        }
        if self.ids.len() >= MAX_CACHED {
            self.ids.clear();
        }
        let id = self.next;
        let redacted_value = redact(value);
        redacted_value
            .as_ref()
            .unwrap_or(value)
            .insert(connection, id)?;
        self.next += 1;
        self.ids.insert(value.clone(), id);
        Ok(id)
    }

    /// Clears the cache, so that unused rows can be deleted.
    pub fn forget(&mut self) {
        self.ids.clear();
    }
}

impl Interned for CallOrigin {
    const TABLE: &str = "origins";

    fn insert(&self, connection: &Connection, id: u32) -> rusqlite::Result<()> {
        let Self {
            door,
            profile,
            client,
            principal,
            session,
        } = self;
        let (name, version) = client.as_ref().map(|c| (&c.name, &c.version)).unzip();
        connection
            .prepare_cached("INSERT INTO origins VALUES (?, ?, ?, ?, ?, ?, ?)")?
            .execute(params![
                id,
                door.code(),
                profile,
                name,
                version,
                principal,
                session
            ])?;
        Ok(())
    }
}

/// The origin with this id.
pub fn origin(connection: &Connection, id: u32) -> Result<Option<CallOrigin>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT door, profile, client, version, principal, session FROM origins WHERE id = ?",
    )?;
    let mut rows = statement.query([id])?;
    rows.next()?.map(read_origin).transpose()
}

fn read_origin(row: &Row<'_>) -> Result<CallOrigin, StoreError> {
    let name: Option<String> = row.get(2)?;
    let version: Option<String> = row.get(3)?;
    let door = Door::from_code(row.get(0)?).ok_or(StoreError::Corrupt("an unknown door"))?;
    Ok(CallOrigin {
        door,
        profile: row.get(1)?,
        client: name
            .zip(version)
            .map(|(name, version)| ClientInfo { name, version }),
        principal: row.get(4)?,
        session: row.get(5)?,
    })
}

impl Interned for Target {
    const TABLE: &str = "targets";

    fn insert(&self, connection: &Connection, id: u32) -> rusqlite::Result<()> {
        connection
            .prepare_cached("INSERT INTO targets VALUES (?, ?, ?, ?)")?
            .execute(params![
                id,
                self.server.as_ref().map_or("", ServerName::as_str),
                self.method,
                self.tool
            ])?;
        Ok(())
    }
}

/// The target with this id.
pub fn target(connection: &Connection, id: u32) -> Result<Option<Target>, StoreError> {
    let mut statement =
        connection.prepare_cached("SELECT server, method, tool FROM targets WHERE id = ?")?;
    let mut rows = statement.query([id])?;
    rows.next()?.map(read_target).transpose()
}

/// Reads a target from the first three columns.
pub fn read_target(row: &Row<'_>) -> Result<Target, StoreError> {
    let server: String = row.get(0)?;
    let method: String = row.get(1)?;
    let tool: String = row.get(2)?;
    Ok(Target {
        server: (!server.is_empty())
            .then(|| ServerName::new(&server))
            .transpose()
            .map_err(|_| StoreError::Corrupt("no server's name"))?,
        method: method.into(),
        tool: tool.into(),
    })
}
