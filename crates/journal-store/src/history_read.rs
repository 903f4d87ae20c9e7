//! Reads the history of servers.

use std::borrow::Cow;

use mainstay_journal::{JournalHistory, Mark, Period, ServerHistory, Transition};
use rusqlite::{Row, params};

use super::{
    StoreError, gaps,
    history::{DAEMON, LINE_END, last_mark},
    read::Reader,
    time::{duration, micros, time},
};

/// Maximum number of transitions in one answer, divided among its servers.
const MAX_TRANSITIONS: usize = 10_000;
impl Reader {
    /// The history of a period.
    pub fn history(&self, period: &Period) -> Result<JournalHistory, StoreError> {
        let (since, until) = (micros(period.since), micros(period.until));
        let names = match &period.server {
            Some(name) => vec![name.clone()],
            None => self.servers_with_history()?,
        };
        // A status is valid only in the run of Mainstay that wrote it.
        let run = last_mark(&self.connection, since)?;
        let is_current = |time: i64| match run {
            Some((started_at, Mark::Started)) => time >= started_at,
            Some((_, Mark::Stopped | Mark::Lost)) => false,
            None => true,
        };
        let limit = period
            .limit
            .min(MAX_TRANSITIONS / names.len().max(1))
            .max(1);
        let mut history = JournalHistory::default();
        for server in names {
            let (mut rows, truncated) = self.rows(&server, since, until, limit)?;
            rows.retain(|(time, _)| *time > since || is_current(*time));
            history.truncated |= truncated;
            if !rows.is_empty() {
                let transitions = rows.into_iter().rev().map(|(_, row)| row).collect();
                history.servers.push(ServerHistory {
                    server,
                    transitions,
                    truncated,
                });
            }
        }
        let (marks, truncated) = self.rows(DAEMON, since, until, period.limit)?;
        history.daemon = marks
            .into_iter()
            .rev()
            .map(|(_, row)| row)
            .filter_map(|row| Some((row.at, Mark::parse(&row.status)?)))
            .collect();
        history.truncated |= truncated;
        history.gaps = gaps::read(&self.connection, period.since, period.until)?;
        Ok(history)
    }

    /// The newest rows of a period and the last one before it, newest first. The flag is true if
    /// rows of the period were left out.
    fn rows(
        &self,
        server: &str,
        since: i64,
        until: i64,
        limit: usize,
    ) -> Result<(Vec<(i64, Transition)>, bool), StoreError> {
        let mut statement = self.connection.prepare_cached(
            "SELECT at, status, degraded, reason, exit_code, exit_signal, attempt, next_retry, stderr
             FROM transitions WHERE server = ? AND at <= ? ORDER BY at DESC, id DESC",
        )?;
        let mut rows = statement.query(params![server, until])?;
        let mut transitions = Vec::new();
        while let Some(row) = rows.next()? {
            let time: i64 = row.get(0)?;
            if transitions.len() == limit {
                return Ok((transitions, true));
            }
            transitions.push((time, transition(row)?));
            if time <= since {
                break;
            }
        }
        Ok((transitions, false))
    }

    /// The names of all servers with rows. Each name costs one search in the index.
    fn servers_with_history(&self) -> Result<Vec<String>, StoreError> {
        let mut names = self.connection.prepare_cached(
            "WITH RECURSIVE names(name) AS (
                SELECT min(server) FROM transitions WHERE server > ''
                UNION ALL
                SELECT (SELECT min(server) FROM transitions WHERE server > name) FROM names
                WHERE name IS NOT NULL
             ) SELECT name FROM names WHERE name IS NOT NULL",
        )?;
        let names = names.query_map([], |row| row.get(0))?;
        Ok(names.collect::<Result<_, _>>()?)
    }
}

fn transition(row: &Row<'_>) -> rusqlite::Result<Transition> {
    let stderr: Option<String> = row.get(8)?;
    Ok(Transition {
        at: time(row.get(0)?),
        status: Cow::Owned(row.get(1)?),
        degraded: row.get(2)?,
        reason: row.get(3)?,
        exit_code: row.get(4)?,
        exit_signal: row.get(5)?,
        attempt: row.get(6)?,
        next_retry: row.get::<_, Option<i64>>(7)?.map(duration),
        stderr: stderr
            .map(|lines| lines.split(LINE_END).map(str::to_owned).collect())
            .unwrap_or_default(),
    })
}
