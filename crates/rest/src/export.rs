//! `GET /api/call-records/export`: selected records as a file. A page is read when the client has
//! read the page before, so the memory does not depend on the number of records.

use std::sync::Arc;

use axum::{
    body::{Body, Bytes},
    extract::State,
    response::{IntoResponse as _, Response},
};
use futures_util::{StreamExt as _, stream};
use http::header;
use mainstay_api::{
    CallRecord,
    export::{csv_head, csv_record, json_line},
};
use mainstay_doorway::json_views::records::journal;
use mainstay_journal::{Journal, JournalError, RecordFilter};
use mainstay_platform::blocking::off_the_runtime;

use super::{RestDoor, address::Query, filter::RecordsQuery, refusal::Refusal};

/// Number of records in one page.
const PAGE: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ExportFormat {
    Jsonl,
    Csv,
}

/// The values of the parameter `format`.
pub const FORMATS: [&str; 2] = ["jsonl", "csv"];

impl ExportFormat {
    fn read(word: Option<&str>) -> Result<Self, Refusal> {
        match word {
            Some("jsonl") => Ok(Self::Jsonl),
            Some("csv") => Ok(Self::Csv),
            Some(word) => Err(Refusal::Malformed(format!(
                "format: there is no {word:?}; there are {}",
                FORMATS.join(", ")
            ))),
            None => Err(Refusal::MissingParameter("format")),
        }
    }

    const fn media_type(self) -> &'static str {
        match self {
            Self::Jsonl => "application/x-ndjson",
            Self::Csv => "text/csv; charset=utf-8",
        }
    }

    const fn disposition(self) -> &'static str {
        match self {
            Self::Jsonl => "attachment; filename=\"mainstay-calls.jsonl\"",
            Self::Csv => "attachment; filename=\"mainstay-calls.csv\"",
        }
    }

    fn write(self, calls: &[CallRecord]) -> String {
        let line = |call| match self {
            Self::Jsonl => json_line(call),
            Self::Csv => csv_record(call),
        };
        calls.iter().map(line).collect()
    }
}

/// The part of an export that has not been sent.
struct RemainingRecords {
    journal: Arc<Journal>,
    format: ExportFormat,
    filter: RecordFilter,
    /// Number of records that may still be sent.
    limit: usize,
    /// The header line of a CSV file, until it is sent.
    head: Option<String>,
    is_over: bool,
}

/// Answers `GET /api/call-records/export`.
pub async fn export(
    State(door): State<RestDoor>,
    Query(query): Query<Vec<(String, String)>>,
) -> Result<Response, Refusal> {
    let query = RecordsQuery::read(query)?;
    let format = ExportFormat::read(query.format.as_deref())?;
    let remaining = RemainingRecords {
        journal: Arc::clone(journal(&door.gateway.calls)?),
        format,
        filter: RecordFilter {
            uncounted: true,
            ..query.filter
        },
        limit: query.limit.unwrap_or(usize::MAX),
        head: (format == ExportFormat::Csv).then(csv_head),
        is_over: false,
    };
    let pages = stream::try_unfold(remaining, |mut remaining| async move {
        let page = remaining.next().await?;
        Ok::<_, JournalError>(page.map(|page| (Bytes::from(page), remaining)))
    });
    // End the response when Mainstay stops, also if records remain.
    let pages = pages.take_until(door.stop.clone().cancelled_owned());
    let headers = [
        (header::CONTENT_TYPE, format.media_type()),
        (header::CONTENT_DISPOSITION, format.disposition()),
        (header::CACHE_CONTROL, "no-store"),
    ];
    Ok((headers, Body::from_stream(pages)).into_response())
}

impl RemainingRecords {
    /// The next page. An error aborts the response, so that the client does not take the file for
    /// complete.
    async fn next(&mut self) -> Result<Option<String>, JournalError> {
        if let Some(head) = self.head.take() {
            return Ok(Some(head));
        }
        if self.is_over {
            return Ok(None);
        }
        let size = self.limit.min(PAGE);
        let page = self.journal.records(self.filter.clone(), size).await?;
        self.limit -= page.calls.len();
        self.filter.before = page.next;
        self.is_over = page.next.is_none() || self.limit == 0;
        let format = self.format;
        let written = off_the_runtime(move || {
            let calls: Vec<_> = page.calls.iter().map(CallRecord::from).collect();
            format.write(&calls)
        });
        Ok(Some(written.await))
    }
}
