//! The calls one load worker makes, and the proof that each answer is the right one.

use std::borrow::Cow;
use std::io::Write;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::Era;

/// The id of the handshake's request; calls count from 1.
const HANDSHAKE: u64 = 0;

pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// The request that opens a session.
pub fn initialize() -> String {
    let version = Era::Legacy.version();
    format!(
        r#"{{"jsonrpc":"2.0","id":{HANDSHAKE},"method":"initialize","params":{{"protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"bench-load","version":"1"}}}}}}"#
    )
}

const MODERN_META: &str = r#","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"bench-load","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}"#;

/// Why an answer is wrong.
#[derive(Debug, thiserror::Error)]
pub enum Wrong {
    #[error("the answer is no JSON-RPC response")]
    Malformed(#[from] serde_json::Error),
    #[error("the answer carries id {got}, expected {expected}")]
    Id { got: u64, expected: u64 },
    #[error("the call was refused: {0}")]
    Refused(String),
    #[error("the tool reported an error: {0}")]
    Tool(String),
    #[error("the echo differs from what was sent")]
    Text,
}

/// An answer to a call or to the handshake.
#[derive(Deserialize)]
pub struct Answer<'a> {
    pub id: u64,
    #[serde(borrow)]
    error: Option<&'a RawValue>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CallResult<'a> {
    #[serde(borrow)]
    content: Vec<Content<'a>>,
    #[serde(default)]
    is_error: bool,
}

#[derive(Deserialize)]
struct Content<'a> {
    #[serde(borrow, default)]
    text: Cow<'a, str>,
}

impl<'a> Answer<'a> {
    pub fn parse(message: &'a [u8]) -> Result<Self, Wrong> {
        Ok(serde_json::from_slice(message)?)
    }

    /// Whether this accepts the handshake.
    pub fn check_handshake(&self) -> Result<(), Wrong> {
        self.result_of(HANDSHAKE).map(drop)
    }

    /// The result, whatever the id is.
    pub fn result(&self) -> Result<&'a str, Wrong> {
        self.result_of(self.id)
    }

    fn result_of(&self, expected: u64) -> Result<&'a str, Wrong> {
        if self.id != expected {
            let got = self.id;
            return Err(Wrong::Id { got, expected });
        }
        match (self.result, self.error) {
            (Some(result), None) => Ok(result.get()),
            (_, error) => Err(Wrong::Refused(
                error.map_or("no result", RawValue::get).to_owned(),
            )),
        }
    }
}

/// One worker's endless series of calls, one in flight at a time.
///
/// Ids and texts differ between all calls of all workers, so an answer that reaches the wrong
/// call, or comes twice, is noticed; and texts between runs, so that none has been stored before.
pub struct Calls {
    tool: String,
    run: u32,
    worker: usize,
    workers: usize,
    padding: String,
    /// What each call says of its caller.
    meta: &'static str,
    id: u64,
    text: String,
}

impl Calls {
    /// Worker number `worker` of `workers`, calling `tool` with `payload` bytes of text, or the few
    /// more that make it unique.
    pub fn new(tool: &str, worker: usize, workers: usize, payload: usize) -> Self {
        Self {
            tool: tool.to_owned(),
            run: std::process::id(),
            worker,
            workers,
            padding: "x".repeat(payload),
            meta: "",
            id: worker as u64 + 1,
            text: String::new(),
        }
    }

    /// The same at another era.
    #[must_use]
    pub fn at(mut self, era: Era) -> Self {
        self.meta = match era {
            Era::Legacy => "",
            Era::Modern => MODERN_META,
        };
        self
    }

    /// The worker whose call carries `id`.
    pub fn worker_of(id: u64, workers: usize) -> usize {
        (id.wrapping_sub(1) % workers as u64) as usize
    }

    /// Appends the next call to `out`, as JSON without line breaks.
    pub fn write_next(&mut self, out: &mut Vec<u8>) {
        if !self.text.is_empty() {
            self.id += self.workers as u64;
        }
        let (run, id, worker, tool, meta) = (self.run, self.id, self.worker, &self.tool, self.meta);
        self.text = format!("{run}/{worker}/{id} ");
        self.text.extend(self.padding.get(self.text.len()..));
        let text = &self.text;
        write!(
            out,
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{{"text":"{text}"}}{meta}}}}}"#
        )
        .expect("a Vec takes every write");
    }

    /// Whether `answer` is the right one for the last call written.
    pub fn check(&self, answer: &Answer) -> Result<(), Wrong> {
        let result: CallResult = serde_json::from_str(answer.result_of(self.id)?)?;
        let text = match result.content.as_slice() {
            [content] => content.text.as_ref(),
            _ => return Err(Wrong::Text),
        };
        match result.is_error {
            true => Err(Wrong::Tool(text.to_owned())),
            false if text == self.text => Ok(()),
            false => Err(Wrong::Text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::echo;

    fn exchange(calls: &mut Calls) -> String {
        let (mut request, mut answer) = (Vec::new(), Vec::new());
        calls.write_next(&mut request);
        echo::answer(Era::Legacy, &request, &mut answer);
        String::from_utf8(answer).expect("JSON is text")
    }

    fn verdict(calls: &Calls, answer: &str) -> Result<(), Wrong> {
        calls.check(&Answer::parse(answer.as_bytes())?)
    }

    #[test]
    fn only_the_echo_of_the_last_call_is_right() {
        let mut calls = Calls::new("echo", 1, 2, 64);
        let first = exchange(&mut calls);
        assert!(first.len() > 64);
        assert!(verdict(&calls, &first).is_ok());

        let second = exchange(&mut calls);
        assert!(matches!(
            verdict(&calls, &first),
            Err(Wrong::Id {
                got: 2,
                expected: 4
            })
        ));
        assert!(verdict(&calls, &second).is_ok());
        let altered = second.replace("xx", "xy");
        assert!(matches!(verdict(&calls, &altered), Err(Wrong::Text)));
        let failed = second.replace("}]", r#"}],"isError":true"#);
        assert!(matches!(verdict(&calls, &failed), Err(Wrong::Tool(_))));
    }

    #[test]
    fn a_refused_call_is_wrong() {
        let mut calls = Calls::new("missing", 0, 1, 0);
        let answer = exchange(&mut calls);
        assert!(matches!(verdict(&calls, &answer), Err(Wrong::Refused(_))));
    }

    #[test]
    fn an_id_names_its_worker() {
        let mut calls = Calls::new("echo", 2, 3, 0);
        for _ in 0..3 {
            let answer = exchange(&mut calls);
            let answer = Answer::parse(answer.as_bytes()).expect("an answer");
            assert_eq!(Calls::worker_of(answer.id, 3), 2);
        }
    }
}
