//! Sealed names: ids of servers' tasks, and states of calls that wait for answers, as clients get
//! them. The seal binds a name to a principal and a server. Servers do not see principals, so only
//! the seal prevents a client from naming another client's task. Only the key is stored, so sealed
//! names stay valid after a restart.
//!
//! Format: `SEAL-SERVER/NAME`. SEAL has 32 hexadecimal digits. NAME is the server's original name.

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

use super::request::CallAnswer;

/// Length of a seal in bytes. 128 bits cannot be guessed.
const SEAL: usize = 16;

/// Maximum number of tasks of one principal in `tasks/list`. Older tasks are not listed. Clients
/// have far fewer running tasks.
const MAX_LISTED: usize = 1000;

/// Maximum number of principals whose tasks are listed. There is one principal for each token.
const MAX_PRINCIPALS: usize = 1000;

/// The kinds of sealed names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKind {
    Task,
    /// The state of a call that waits for answers (`requestState`).
    State,
}

impl NameKind {
    /// A text in the MAC, so that a seal of one kind is invalid for the other kind.
    fn purpose(self) -> &'static str {
        match self {
            Self::Task => "task",
            Self::State => "state",
        }
    }
}

/// Seals original names, and opens sealed names.
#[derive(Debug)]
pub struct SealedNames {
    /// `None` if the system has no random numbers. Then no name can be sealed or opened.
    key: Option<Secret>,
    /// The seals of the tasks that each principal has started. They filter `tasks/list`, because a
    /// server lists the tasks of all principals. A task whose seal is dropped here can still be named.
    started_tasks: Mutex<HashMap<Principal, VecDeque<[u8; SEAL]>>>,
}

impl SealedNames {
    /// Uses the stored key. Without a stored key, makes a key for this run.
    pub fn new(key: Option<Secret>) -> Self {
        Self {
            key: key.or_else(random),
            started_tasks: Mutex::default(),
        }
    }

    /// Seals a server's original name for this principal. `None` without a key.
    pub fn seal(
        &self,
        kind: NameKind,
        principal: &Principal,
        server: &str,
        original: &str,
    ) -> Option<String> {
        let seal = self.mac(kind, principal, server, original)?;
        Some(sealed_name(seal, server, original))
    }

    /// Opens a sealed name. Returns the server and the original name. `None` if the name belongs to
    /// another principal or kind.
    pub fn open<'n>(
        &self,
        kind: NameKind,
        principal: &Principal,
        name: &'n str,
    ) -> Option<(&'n str, &'n str)> {
        let (seal, rest) = name.split_at_checked(2 * SEAL)?;
        let (server, original) = rest.strip_prefix('-')?.split_once('/')?;
        let number = u128::from_str_radix(seal, 16).ok()?;
        // Refuse other spellings of the number, so that each name has only one valid spelling.
        if format!("{number:032x}") != seal {
            return None;
        }
        let mac = mac(self.key.as_ref()?, kind, principal, server, original);
        mac.verify_truncated_left(&number.to_be_bytes()).ok()?;
        Some((server, original))
    }

    /// The sealed names of this principal and server.
    pub fn bound(self: &Arc<Self>, principal: &Principal, server: &ServerName) -> BoundNames {
        BoundNames {
            names: Arc::clone(self),
            principal: principal.clone(),
            server: server.clone(),
        }
    }

    /// The server's answer, with its task's id replaced by the sealed name.
    pub fn renamed(&self, principal: &Principal, server: &str, answer: CallAnswer) -> CallAnswer {
        let renamed = answer.frame.result().and_then(|result| {
            let id = self.seal(NameKind::Task, principal, server, &tasks::id(result)?)?;
            Some(tasks::renamed(result, &id))
        });
        match renamed {
            Some(result) => with_result(&answer, &result),
            None => answer,
        }
    }

    /// The server's answer. If the call waits for answers, its state is sealed.
    pub fn restated(
        &self,
        principal: &Principal,
        server: &str,
        request: &Frame,
        caller: &Caller,
        answer: CallAnswer,
    ) -> CallAnswer {
        if caller.era() != Era::Modern || !request.method().is_some_and(questions::may_ask) {
            return answer;
        }
        let seal = |original: &str| self.seal(NameKind::State, principal, server, original);
        let result = answer.frame.result();
        match result.and_then(|result| questions::restated(result, seal)) {
            Some(result) => with_result(&answer, &result),
            None => answer,
        }
    }

    /// The request that continues a call, with the server's original state. `None` if the state was
    /// not sealed for this principal.
    pub fn reopened(&self, principal: &Principal, frame: &Frame, state: &str) -> Option<Reopened> {
        let (server, original) = self.open(NameKind::State, principal, state)?;
        let params = questions::with_state(frame.params()?, original)?;
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
        original: &str,
    ) -> Option<[u8; SEAL]> {
        let mac = mac(self.key.as_ref()?, kind, principal, server, original);
        mac.finalize().into_bytes().first_chunk().copied()
    }

    fn add_task(&self, principal: &Principal, seal: [u8; SEAL]) {
        // Held for a map operation, never across an await.
        let mut started_tasks = self.started_tasks.lock();
        if started_tasks.len() >= MAX_PRINCIPALS && !started_tasks.contains_key(principal) {
            started_tasks.clear();
        }
        let tasks_of_principal = started_tasks.entry(principal.clone()).or_default();
        if tasks_of_principal.len() >= MAX_LISTED {
            tasks_of_principal.pop_front();
        }
        tasks_of_principal.push_back(seal);
    }

    fn has_started(&self, principal: &Principal, seal: [u8; SEAL]) -> bool {
        // Held for a lookup, never across an await.
        let started_tasks = self.started_tasks.lock();
        let tasks_of_principal = started_tasks.get(principal);
        tasks_of_principal.is_some_and(|started_tasks| started_tasks.contains(&seal))
    }
}

fn mac(
    key: &Secret,
    kind: NameKind,
    principal: &Principal,
    server: &str,
    original: &str,
) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose().as_bytes())
        .expect("a key of any length will do");
    for part in [kind.purpose(), &principal.to_string(), server, original] {
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

fn sealed_name(seal: [u8; SEAL], server: &str, original: &str) -> String {
    format!("{:032x}-{server}/{original}", u128::from_be_bytes(seal))
}

fn with_result(answer: &CallAnswer, result: &str) -> CallAnswer {
    CallAnswer {
        frame: answer.frame.with_body(result),
        streamed: answer.streamed,
    }
}

/// The sealed names of one principal and one server. Names are sealed even without client tokens,
/// when all clients are one principal: one rule for both cases is simpler.
#[derive(Clone, Debug)]
pub struct BoundNames {
    names: Arc<SealedNames>,
    principal: Principal,
    server: ServerName,
}

impl BoundNames {
    fn seal(&self, original: &str) -> Option<String> {
        let (principal, server) = (&self.principal, self.server.as_str());
        self.names.seal(NameKind::Task, principal, server, original)
    }

    /// The server's id of the task with this sealed name.
    pub fn task(&self, name: &str) -> Option<String> {
        let (server, original) = self.names.open(NameKind::Task, &self.principal, name)?;
        (server == self.server.as_str()).then(|| original.to_owned())
    }

    /// A client's request with original names, for the server. `None` if the request has no names to
    /// replace. Does not replace the task of `tasks/get` and similar methods: see
    /// [`task`](Self::task).
    pub fn request(&self, frame: &Frame) -> Result<Option<Frame>, InvalidParams> {
        let method = frame.method().unwrap_or(Method::Other);
        if method != Method::Listen && !frame.envelope().has_other_meta() {
            return Ok(None);
        }
        let params = frame.params().unwrap_or("{}");
        let renamed = tasks::in_request(method, params, &|name| self.task(name))?;
        Ok(renamed.and_then(|params| with_params(frame, &params)))
    }

    /// A client's notification, or its response to a server's question, with original names for the
    /// server. `None` if there are no names to replace. The names of the client's own tasks stay
    /// unchanged.
    pub fn client_message(&self, frame: &Frame) -> Option<Frame> {
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

    /// A server's notification or question, with sealed names for the client.
    pub fn message(&self, message: String) -> String {
        if !names_a_task(&message) {
            return message;
        }
        let Ok(frame) = Frame::read(message.clone().into()) else {
            return message;
        };
        let method = frame.method().unwrap_or(Method::Other);
        let renamed = tasks::in_message(method, &message, &|original| self.seal(original));
        renamed.unwrap_or(message)
    }

    /// The server's answer to a request, with sealed names of tasks. If the call waits for answers,
    /// its state is sealed.
    pub fn answer(&self, request: &Frame, caller: &Caller, answer: CallAnswer) -> CallAnswer {
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
            let seal = |original: &str| self.seal_task(method, original);
            tasks::in_result(method, as_task, result, &seal)
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

    /// The sealed name of a task in an answer to this method. `None` if the answer is a list and
    /// another principal has started the task.
    fn seal_task(&self, method: Method, original: &str) -> Option<String> {
        let (principal, server) = (&self.principal, self.server.as_str());
        let seal = self
            .names
            .mac(NameKind::Task, principal, server, original)?;
        if method == Method::TasksList {
            if !self.names.has_started(principal, seal) {
                return None;
            }
        } else if !is_about_tasks(method) {
            self.names.add_task(principal, seal);
        }
        Some(sealed_name(seal, server, original))
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

/// True if the text may name a task. A server that writes `taskId` with JSON escapes is not
/// supported: clients cannot name its tasks.
fn names_a_task(text: &str) -> bool {
    text.contains("\"taskId")
}

/// A request that continues a call, with the server's original state.
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
        for (server, original) in [("files", "t-1"), ("a-b", "a/b/-c"), ("x", ""), ("x", "ü")] {
            let open = |names: &SealedNames, kind, principal: &Principal, name: &str| {
                let opened = names.open(kind, principal, name);
                opened.map(|(server, original)| (server.to_owned(), original.to_owned()))
            };
            let name = names("k")
                .seal(NameKind::Task, &ME, server, original)
                .expect("a key");
            let mine = Some((server.to_owned(), original.to_owned()));
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
            names.add_task(&ME, seal(number));
        }
        assert!(!names.has_started(&ME, seal(0)) && names.has_started(&ME, seal(1)));
        assert!(!names.has_started(&Principal::Operator, seal(1)));
    }
}
