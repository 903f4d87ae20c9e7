//! Operations about entries before they are saved, the files of other clients, the configuration as text,
//! and profiles.

use mainstay_api as api;
use serde_json::json;

use super::{
    super::{
        code::{Code, INVALID_CONFIG},
        operation::Operation,
        schema::entry,
    },
};

pub fn operations() -> Vec<Operation> {
    let post = |path, what| Operation::new("post", path, what);
    vec![
        post(
            api::TRY,
            "Start the server of an entry once, list its tools, and keep nothing",
        )
        .takes_with(&entry(&[]))
        .answers::<api::TrialRun>()
        .fails(&[INVALID_CONFIG, Code::TooManyTrials]),
    ]
}
