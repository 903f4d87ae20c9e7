//! Holders of objects. Content that two callers share is stored as one object for each of them.
//! Otherwise a client could guess content, compute its identifier, and find out that another client
//! sent or received it.
//!
//! A holder has only the fields that determine who may see a call: the principal, the server and
//! the tool. So there are few holders, and an object refers to its holder by four bytes.

use std::{collections::HashMap, sync::Arc};

use mainstay_core::{
    ids::ServerName,
    record::{CallOrigin, Target},
};
use mainstay_journal::Holder;
use rusqlite::{Connection, OptionalExtension as _, params};

use super::StoreError;

/// Maximum number of cached pairs of a target and an origin. Above this number the cache is
/// cleared, and each pair costs another search of an index.
const MAX_CACHED: usize = 16 * 1024;

/// The id for objects of versions without holders. Only the operator may read such objects.
pub const NOBODY: u32 = 0;

/// The holder with this id.
pub fn read(connection: &Connection, id: u32) -> Result<Option<Holder>, StoreError> {
    let row = connection
        .prepare_cached("SELECT principal, server, tool FROM holders WHERE id = ?")?
        .query_row([id], |row| {
            Ok([row.get(0)?, row.get(1)?, row.get::<_, String>(2)?])
        })
        .optional()?;
    let Some(row) = row else { return Ok(None) };
    let [principal, server, tool] = row.map(|text| (!text.is_empty()).then_some(text));
    let server = server.map(|server| ServerName::new(&server)).transpose();
    Ok(Some(Holder {
        principal,
        server: server.map_err(|_| StoreError::Corrupt("no server's name"))?,
        tool: tool.map(Arc::from),
    }))
}

/// The id of a holder. A new holder gets a row.
fn number(connection: &Connection, holder: &Holder) -> rusqlite::Result<u32> {
    let Holder {
        principal,
        server,
        tool,
    } = holder;
    let row = params![
        principal.as_deref().unwrap_or_default(),
        server.as_ref().map_or("", ServerName::as_str),
        tool.as_deref().unwrap_or_default(),
    ];
    let existing_id = connection
        .prepare_cached("SELECT id FROM holders WHERE (principal, server, tool) = (?, ?, ?)")?
        .query_row(row, |row| row.get(0))
        .optional()?;
    if let Some(id) = existing_id {
        return Ok(id);
    }
    connection
        .prepare_cached(
            "INSERT INTO holders (principal, server, tool) VALUES (?, ?, ?) RETURNING id",
        )?
        .query_row(row, |row| row.get(0))
}

/// Ids of holders, by the ids of a call's target and origin.
#[derive(Debug, Default)]
pub struct Holders(HashMap<(u32, u32), u32, foldhash::fast::RandomState>);

impl Holders {
    pub fn id(
        &mut self,
        connection: &Connection,
        (target_id, target): (u32, &Target),
        (origin_id, origin): (u32, &CallOrigin),
    ) -> rusqlite::Result<u32> {
        if let Some(id) = self.0.get(&(target_id, origin_id)) {
            return Ok(*id);
        }
        if self.0.len() >= MAX_CACHED {
            self.0.clear();
        }
        let id = number(connection, &Holder::from_call(origin, target))?;
        self.0.insert((target_id, origin_id), id);
        Ok(id)
    }

    /// Clears the cache, so that unused rows can be deleted.
    pub fn forget(&mut self) {
        self.0.clear();
    }
}

/// Encodes the holders of objects for their column.
pub fn encode(holders: impl Iterator<Item = u32>) -> Vec<u8> {
    holders.flat_map(u32::to_le_bytes).collect()
}

/// Decodes the holders of `count` objects. Without a column, each holder is [`NOBODY`].
pub fn decode(column: Option<&[u8]>, count: usize) -> impl Iterator<Item = u32> {
    let (holders, _) = column.unwrap_or_default().as_chunks();
    holders
        .iter()
        .map(|holder| u32::from_le_bytes(*holder))
        .chain(std::iter::repeat(NOBODY))
        .take(count)
}
