//! Short numbers for what records have in common: callers and targets.

use std::{collections::HashMap, hash::Hash};

use mainstay_core::{
    ids::ServerName,
    record::{ClientInfo, Door, Origin, Target},
};
use rusqlite::{Connection, Row, params};

use super::StoreError;

/// Values whose numbers are held. Beyond that all are forgotten, and get new numbers when they come
/// again: an extra row costs less than a lookup for every call.
const MAX_KNOWN: usize = 16 * 1024;

/// The numbers of values of one kind.
#[derive(Debug)]
pub struct Interner<T> {
    known: HashMap<T, u32, foldhash::fast::RandomState>,
    next: u32,
}

/// What has a table of its own.
pub trait Interned: Clone + Eq + Hash {
    const TABLE: &str;
    fn insert(&self, connection: &Connection, id: u32) -> rusqlite::Result<()>;
}

impl<T: Interned> Interner<T> {
    /// Values of earlier runs get new numbers when they come again.
    pub fn load(connection: &Connection) -> rusqlite::Result<Self> {
        let newest = format!("SELECT coalesce(max(id), 0) FROM {}", T::TABLE);
        let newest: u32 = connection.query_row(&newest, [], |row| row.get(0))?;
        Ok(Self {
            known: HashMap::default(),
            next: newest + 1,
        })
    }

    pub fn id(&mut self, connection: &Connection, value: &T) -> rusqlite::Result<u32> {
        self.id_as(connection, value, |_| None)
    }

    /// The number of a value that is written in another form, if `shown` gives one.
    pub fn id_as(
        &mut self,
        connection: &Connection,
        value: &T,
        shown: impl FnOnce(&T) -> Option<T>,
    ) -> rusqlite::Result<u32> {
        if let Some(id) = self.known.get(value) {
            return Ok(*id);
        }
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        let id = self.next;
        let shown = shown(value);
        shown.as_ref().unwrap_or(value).insert(connection, id)?;
        self.next += 1;
        self.known.insert(value.clone(), id);
        Ok(id)
    }

    /// Forgets the numbers, so that rows can be removed which nothing names.
    pub fn forget(&mut self) {
        self.known.clear();
    }
}

impl Interned for Origin {
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

/// The origin with this number.
pub fn origin(connection: &Connection, id: u32) -> Result<Option<Origin>, StoreError> {
    let mut origins = connection.prepare_cached(
        "SELECT door, profile, client, version, principal, session FROM origins WHERE id = ?",
    )?;
    let mut origins = origins.query([id])?;
    origins.next()?.map(read_origin).transpose()
}

fn read_origin(row: &Row<'_>) -> Result<Origin, StoreError> {
    let name: Option<String> = row.get(2)?;
    let version: Option<String> = row.get(3)?;
    let door = Door::from_code(row.get(0)?).ok_or(StoreError::Corrupt("an unknown door"))?;
    Ok(Origin {
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

/// The target with this number.
pub fn target(connection: &Connection, id: u32) -> Result<Option<Target>, StoreError> {
    let mut targets =
        connection.prepare_cached("SELECT server, method, tool FROM targets WHERE id = ?")?;
    let mut targets = targets.query([id])?;
    targets.next()?.map(read_target).transpose()
}

/// A target in the first three columns.
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
