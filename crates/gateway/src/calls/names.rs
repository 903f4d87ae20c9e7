//! Sealed names that pass through clients: ids of servers' tasks, and states of calls that wait for
//! answers. The seal says which principal and which server a name belongs to. Servers do not see
//! principals, so nothing else keeps one client from naming another's task. Nothing is kept for a
//! sealed name. The key is kept, so a restart costs no client a task.
//!
//! `SEAL (32, hexadecimal) - SERVER / NAME`, the last as the server spelled it.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use mainstay_core::{
    config::Secret,
    era::{Caller, Era, questions, tasks},
    ids::ServerName,
    message::{InvalidParams, Method},
    principal::Principal,
};
use mainstay_transport::Frame;
use parking_lot::Mutex;
use sha2::Sha256;

use super::request::Answer;

/// Bytes of the seal: too many to guess.
const SEAL: usize = 16;

/// Tasks of one principal that `tasks/list` shows, the latest: far more than a client has at work.
const MAX_LISTED: usize = 1000;

/// Principals whose tasks are listed. There is one for each token.
const MAX_PRINCIPALS: usize = 1000;

/// The kinds of things that have sealed names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    Task,
    /// `requestState`
    State,
}

impl NameKind {
    /// Keeps these names apart from each other, and from whatever else the key seals.
    fn purpose(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::State => "state",
        }
    }
}

/// Makes names and reads them.
#[derive(Debug)]
pub struct SealedNames {
    /// Without random numbers there is none, and nothing is known by any name.
    key: Option<Secret>,
    /// The seals of the tasks that each principal has begun. A server's list of tasks has those of all
    /// principals and does not tell them apart. A task that is forgotten here can still be named.
    begun: Mutex<HashMap<Principal, VecDeque<[u8; SEAL]>>>,
}

impl SealedNames {
    /// Seals with the key of all runs; without one, with this run's own.
    pub fn new(key: Option<Secret>) -> Self {
        Self {
            key: key.or_else(random),
            begun: Mutex::default(),
        }
    }

    /// The principal's name for what the server calls `own`.
    pub fn seal(
        &self,
        kind: NameKind,
        principal: &Principal,
        server: &str,
        own: &str,
    ) -> Option<String> {
        let seal = self.mac(kind, principal, server, own)?;
        Some(spelled(seal, server, own))
    }

    /// The server, and the server's own name; `None` for a name of another principal.
    pub fn open<'n>(
        &self,
        kind: NameKind,
        principal: &Principal,
        name: &'n str,
    ) -> Option<(&'n str, &'n str)> {
        let (seal, rest) = name.split_at_checked(2 * SEAL)?;
        let (server, own) = rest.strip_prefix('-')?.split_once('/')?;
        let number = u128::from_str_radix(seal, 16).ok()?;
        // One name, one spelling.
        if format!("{number:032x}") != seal {
            return None;
        }
        let mac = mac(self.key.as_ref()?, kind, principal, server, own);
        mac.verify_truncated_left(&number.to_be_bytes()).ok()?;
        Some((server, own))
    }

    /// The names of this principal and this server.
    pub fn bound(self: &Arc<Self>, principal: &Principal, server: &ServerName) -> BoundNames {
        BoundNames {
            names: Arc::clone(self),
            principal: principal.clone(),
            server: server.clone(),
        }
    }

    /// A server's answer with the principal's name for the task that it names.
    pub fn renamed(&self, principal: &Principal, server: &str, answer: Answer) -> Answer {
        let renamed = answer.frame.result().and_then(|result| {
            let id = self.seal(NameKind::Task, principal, server, &tasks::id(result)?)?;
            Some(tasks::renamed(result, &id))
        });
        match renamed {
            Some(result) => with_result(&answer, &result),
            None => answer,
        }
    }

    /// A server's answer with the principal's name for the state of a call that waits for answers.
    pub fn restated(
        &self,
        principal: &Principal,
        server: &str,
        request: &Frame,
        caller: &Caller,
        answer: Answer,
    ) -> Answer {
        if caller.era() != Era::Modern || !request.method().is_some_and(questions::may_ask) {
            return answer;
        }
        let seal = |own: &str| self.seal(NameKind::State, principal, server, own);
        let result = answer.frame.result();
        match result.and_then(|result| questions::restated(result, seal)) {
            Some(result) => with_result(&answer, &result),
            None => answer,
        }
    }

    /// A next attempt at a call with the state that its server gave, if it gave it to this principal.
    pub fn reopened(&self, principal: &Principal, frame: &Frame, state: &str) -> Option<Reopened> {
        let (server, own) = self.open(NameKind::State, principal, state)?;
        let params = questions::with_state(frame.params()?, own)?;
        Some(Reopened {
            server: server.into(),
            frame: with_params(frame, &params)?,
        })
    }

    fn mac(
        &self,
        kind: NameKind,
        principal: &Principal,
        server: &str,
        own: &str,
    ) -> Option<[u8; SEAL]> {
        let mac = mac(self.key.as_ref()?, kind, principal, server, own);
        mac.finalize().into_bytes().first_chunk().copied()
    }

    fn note(&self, principal: &Principal, seal: [u8; SEAL]) {
        // Held for a map operation, never across an await.
        let mut begun = self.begun.lock();
        if begun.len() >= MAX_PRINCIPALS && !begun.contains_key(principal) {
            begun.clear();
        }
        let of_principal = begun.entry(principal.clone()).or_default();
        if of_principal.len() >= MAX_LISTED {
            of_principal.pop_front();
        }
        of_principal.push_back(seal);
    }

    fn has_begun(&self, principal: &Principal, seal: [u8; SEAL]) -> bool {
        // Held for a look, never across an await.
        let begun = self.begun.lock();
        let of_principal = begun.get(principal);
        of_principal.is_some_and(|begun| begun.contains(&seal))
    }
}

fn mac(
    key: &Secret,
    kind: NameKind,
    principal: &Principal,
    server: &str,
    own: &str,
) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose().as_bytes())
        .expect("a key of any length will do");
    for part in [kind.purpose(), &principal.to_string(), server, own] {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part.as_bytes());
    }
    mac
}

fn random() -> Option<Secret> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).ok()?;
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    Some(Secret::new(digits.collect::<String>()))
}

fn spelled(seal: [u8; SEAL], server: &str, own: &str) -> String {
    format!("{:032x}-{server}/{own}", u128::from_be_bytes(seal))
}

fn with_result(answer: &Answer, result: &str) -> Answer {
    Answer {
        frame: answer.frame.with_body(result),
        streamed: answer.streamed,
    }
}

/// The sealed names of one principal and one server. Principals are told apart even where no tokens are
/// in use: there the sealed names mean the same, and one rule is easier to trust than two.
#[derive(Clone, Debug)]
pub struct BoundNames {
    names: Arc<SealedNames>,
    principal: Principal,
    server: ServerName,
}

impl BoundNames {
    fn seal(&self, own: &str) -> Option<String> {
        let (principal, server) = (&self.principal, self.server.as_str());
        self.names.seal(NameKind::Task, principal, server, own)
    }

    /// The server's id of the task that the client calls by this name.
    pub fn task(&self, name: &str) -> Option<String> {
        let (server, own) = self.names.open(NameKind::Task, &self.principal, name)?;
        (server == self.server.as_str()).then(|| own.to_owned())
    }

    /// A client's request as its server may see it; `None` where that is the request as it is. The task of
    /// `tasks/get` and the like is not replaced: see [`task`](Self::task).
    pub fn request(&self, frame: &Frame) -> Result<Option<Frame>, InvalidParams> {
        let method = frame.method().unwrap_or(Method::Other);
        if method != Method::Listen && !frame.envelope().has_other_meta() {
            return Ok(None);
        }
        let params = frame.params().unwrap_or("{}");
        let renamed = tasks::in_request(method, params, &|name| self.task(name))?;
        Ok(renamed.and_then(|params| with_params(frame, &params)))
    }

    /// A client's notification, or its response to the server's question, as the server may see it; `None`
    /// where that is the message as it is. Both may name tasks of the client's own, which stay.
    pub fn said(&self, frame: &Frame) -> Option<Frame> {
        let (text, open) = (frame.text(), |name: &str| self.task(name));
        if !names_a_task(text) {
            return None;
        }
        let renamed = match frame.method() {
            Some(method) => tasks::in_message(method, text, &open),
            None => tasks::in_response(text, &open),
        };
        Frame::read(renamed?.into()).ok()
    }

    /// A message of the server outside of answers, as the client is to see it.
    pub fn message(&self, message: String) -> String {
        if !names_a_task(&message) {
            return message;
        }
        let Ok(frame) = Frame::read(message.clone().into()) else {
            return message;
        };
        let method = frame.method().unwrap_or(Method::Other);
        let renamed = tasks::in_message(method, &message, &|own| self.seal(own));
        renamed.unwrap_or(message)
    }

    /// The server's answer to a request as the client is to see it: tasks under its names, and the state of
    /// a call that waits for answers.
    pub fn answer(&self, request: &Frame, caller: &Caller, answer: Answer) -> Answer {
        let method = request.method().unwrap_or(Method::Other);
        let as_task = request.envelope().asks_for_task();
        let may_be_task = method == Method::ToolsCall && caller.capabilities.tasks;
        if !as_task && !may_be_task && !is_about_tasks(method) {
            let (principal, server) = (&self.principal, self.server.as_str());
            return self
                .names
                .restated(principal, server, request, caller, answer);
        }
        let renamed = answer.frame.result().and_then(|result| {
            let shown = |own: &str| self.shown(method, own);
            tasks::in_result(method, as_task, result, &shown)
        });
        match renamed {
            Some(result) => with_result(&answer, &result),
            None => {
                let (principal, server) = (&self.principal, self.server.as_str());
                self.names
                    .restated(principal, server, request, caller, answer)
            }
        }
    }

    /// The client's name for a task that an answer to this method names.
    fn shown(&self, method: Method, own: &str) -> Option<String> {
        let (principal, server) = (&self.principal, self.server.as_str());
        let seal = self.names.mac(NameKind::Task, principal, server, own)?;
        if method == Method::TasksList {
            if !self.names.has_begun(principal, seal) {
                return None;
            }
        } else if !is_about_tasks(method) {
            self.names.note(principal, seal);
        }
        Some(spelled(seal, server, own))
    }
}

fn is_about_tasks(method: Method) -> bool {
    matches!(
        method,
        Method::TasksGet
            | Method::TasksResult
            | Method::TasksUpdate
            | Method::TasksCancel
            | Method::TasksList
    )
}

/// Whether a text can name a task. A server that escapes the word has its tasks under no name.
fn names_a_task(text: &str) -> bool {
    text.contains("\"taskId")
}

/// A client's next attempt at a call, as the server knows it.
#[derive(Clone, Debug)]
pub struct Reopened {
    /// The server that gave the state.
    pub server: Box<str>,
    pub frame: Frame,
}

fn with_params(frame: &Frame, params: &str) -> Option<Frame> {
    Frame::read(frame.with_params(params).into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Principal = Principal::Anonymous;

    fn names(key: &str) -> SealedNames {
        SealedNames::new(Some(Secret::new(key)))
    }

    #[test]
    fn a_name_says_whose_it_is() {
        for (server, own) in [("files", "t-1"), ("a-b", "a/b/-c"), ("x", ""), ("x", "ü")] {
            let open = |names: &SealedNames, kind, principal: &Principal, name: &str| {
                let opened = names.open(kind, principal, name);
                opened.map(|(server, own)| (server.to_owned(), own.to_owned()))
            };
            let name = names("k")
                .seal(NameKind::Task, &ME, server, own)
                .expect("a key");
            let mine = Some((server.to_owned(), own.to_owned()));
            assert_eq!(
                open(&names("k"), NameKind::Task, &ME, &name),
                mine,
                "a later run"
            );
            assert_eq!(
                open(&names("l"), NameKind::Task, &ME, &name),
                None,
                "another key"
            );
            assert_eq!(
                open(&names("k"), NameKind::State, &ME, &name),
                None,
                "a state"
            );
            let keyless = SealedNames::new(None);
            assert_eq!(
                open(&keyless, NameKind::Task, &ME, &name),
                None,
                "without a key"
            );
            let others = open(&names("k"), NameKind::Task, &Principal::Operator, &name);
            assert_eq!(others, None, "somebody else's");
        }
    }

    #[test]
    fn a_name_that_was_changed_is_nobodys() {
        let names = names("k");
        let name = names
            .seal(NameKind::Task, &ME, "files", "task-abc")
            .expect("a key");
        let open = |name: &str| names.open(NameKind::Task, &ME, name).is_some();
        for index in 0..name.len() {
            let mut changed = name.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert!(!open(&changed), "{changed}");
        }
        let upper = name.to_ascii_uppercase();
        for other in [
            "",
            "x",
            &name[1..],
            &name[..name.len() - 1],
            &upper,
            &"é".repeat(40),
        ] {
            assert!(!open(other), "{other}");
        }
    }

    #[test]
    fn what_is_listed_is_bounded() {
        let names = names("k");
        let seal = |number: usize| {
            let mut seal = [0; SEAL];
            seal[..8].copy_from_slice(&number.to_be_bytes());
            seal
        };
        for number in 0..=MAX_LISTED {
            names.note(&ME, seal(number));
        }
        assert!(!names.has_begun(&ME, seal(0)) && names.has_begun(&ME, seal(1)));
        assert!(!names.has_begun(&Principal::Operator, seal(1)));
    }
}
