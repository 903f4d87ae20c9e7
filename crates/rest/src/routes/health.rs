//! Routes for the state of servers: logs, figures, health.

use mainstay_api as api;
use serde_json::json;

use super::SERVER;
use crate::{
    code::{Code::LogUnreadable, SERVER_NOT_FOUND},
    figures, health, logs,
    operation::{Operation, get},
    schema::{boolean, text},
};

pub fn operations() -> Vec<Operation> {
    vec![
        get(api::LOGS, logs::logs)
            .summary("The end of a server's log; with follow, what comes")
            .query(
                "tail",
                "How many lines",
                &json!({"type": "integer", "minimum": 0, "maximum": u32::MAX}),
            )
            .query(
                "follow",
                "As server-sent events, without an end",
                &boolean(),
            )
            .answers::<api::Logs>()
            .streams()
            .fails(&[SERVER_NOT_FOUND, LogUnreadable]),
        get(api::FIGURES, figures::figures)
            .summary("Calls of each server in the last minute, and what its processes hold")
            .answers::<api::Figures>()
            .shares(figures::SharedProcesses::default()),
        get(api::HEALTH, health::report)
            .summary("Every server asked just now, or one")
            .query("server", SERVER, &text())
            .answers::<api::HealthReport>()
            .fails(&[SERVER_NOT_FOUND]),
    ]
}
