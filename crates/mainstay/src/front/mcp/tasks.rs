//! Names for the tasks of servers on the aggregate (SEP-2663): whose a task is, sealed. A name passes
//! through the client, which may have changed it; nothing is kept here, and with a key that is kept a
//! restart costs nobody a task.
//!
//! `SEAL (32, hexadecimal) - SERVER / TASK`, the last as the server named it.

use std::{borrow::Cow, sync::Arc};

use hmac::{Hmac, KeyInit as _, Mac as _};
use mainstay_core::{
    catalog::Target,
    config::Secret,
    era::tasks,
    message::{Method, Text},
    principal::Principal,
};
use sha2::Sha256;

use super::{
    aggregate::{Asked, INVALID_PARAMS},
    hub::Hub,
    reply::Reply,
    view::View,
};
use crate::{calls::Answer, supervisor::Server, transport::Frame};

/// Bytes of the seal: nobody can guess them.
const SEAL: usize = 16;

/// Keeps these names apart from whatever else the key seals.
const PURPOSE: &str = "task";

/// Makes names and reads them.
#[derive(Debug)]
pub struct TaskIds {
    /// Without random numbers there is none, and no task is known by any name.
    key: Option<Secret>,
}

impl TaskIds {
    /// With the key of all runs; without one, with this run's own.
    pub fn new(key: Option<Secret>) -> Self {
        Self {
            key: key.or_else(random),
        }
    }

    /// The name of a server's task, for whoever began it.
    fn seal(&self, principal: &Principal, server: &str, task: &str) -> Option<String> {
        let seal = mac(self.key.as_ref()?, principal, server, task)
            .finalize()
            .into_bytes();
        let seal = seal[..SEAL].iter().map(|byte| format!("{byte:02x}"));
        let seal: String = seal.collect();
        Some(format!("{seal}-{server}/{task}"))
    }

    /// The server, and its own name of the task; `None` for one of somebody else.
    fn open<'i>(&self, principal: &Principal, id: &'i str) -> Option<(&'i str, &'i str)> {
        let (seal, rest) = id.split_at_checked(2 * SEAL)?;
        let (server, task) = rest.strip_prefix('-')?.split_once('/')?;
        let number = u128::from_str_radix(seal, 16).ok()?;
        // One name, one spelling.
        if format!("{number:032x}") != seal {
            return None;
        }
        mac(self.key.as_ref()?, principal, server, task)
            .verify_truncated_left(&number.to_be_bytes())
            .ok()?;
        Some((server, task))
    }

    /// A server's answer with our name for the task that it names.
    pub fn renamed(&self, principal: &Principal, server: &str, answer: Answer) -> Answer {
        let renamed = answer.frame.result().and_then(|result| {
            let id = self.seal(principal, server, &tasks::id(result)?)?;
            Some(tasks::renamed(result, &id))
        });
        match renamed {
            Some(result) => Answer {
                frame: answer.frame.with_body(&result),
                ..answer
            },
            None => answer,
        }
    }
}

fn mac(key: &Secret, principal: &Principal, server: &str, task: &str) -> Hmac<Sha256> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose().as_bytes())
        .expect("a key of any length will do");
    for part in [PURPOSE, &principal.to_string(), server, task] {
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

/// Whether a method is about a task, for clients without a session.
pub fn is_about_one(method: Method) -> bool {
    matches!(
        method,
        Method::TasksGet | Method::TasksUpdate | Method::TasksCancel
    )
}

/// Whether a call's answer is a task. Only who declares the extension is ever answered with one.
pub fn is_task(frame: &Frame) -> bool {
    frame.result().is_some_and(tasks::is_task)
}

impl Hub {
    /// The server that has the task that this principal knows by this name, and its own name for it.
    pub(super) fn task(
        &self,
        view: &View,
        principal: &Principal,
        name: &str,
    ) -> Option<(Arc<Server>, String)> {
        let (server, own) = self.tasks.open(principal, name)?;
        let server = self.registry.server(server).ok()?;
        let is_seen = view.has_server(&server.name);
        is_seen.then(|| (server, own.to_owned()))
    }
}

impl Asked<'_> {
    /// A request about a task, answered by the server that has it.
    pub(super) async fn task(self) -> Reply {
        let (id, hub, frame) = (self.id(), self.hub, self.frame);
        if !self.outlet.client.caller.capabilities.tasks {
            return Reply::tasks_undeclared(id);
        }
        let params = frame.params().unwrap_or("{}");
        let named = tasks::id(params).zip(frame.param_span(&[tasks::ID]));
        let Some((name, span)) = named.filter(|_| !tasks::is_doubled(params)) else {
            let reason = "\"taskId\" must be a string, and stand once";
            return Reply::error(id, INVALID_PARAMS, reason);
        };
        let principal = self.outlet.client.principal.clone();
        let Some((server, own)) = hub.task(&self.view, &principal, &name) else {
            return Reply::error(id, INVALID_PARAMS, "unknown task");
        };
        let owner = Target {
            server: server.name.clone(),
            original: own.into(),
        };
        let exposed = Text {
            value: Cow::Borrowed(&*name),
            span,
        };
        match self.forward(&owner, &exposed).await {
            Ok(answer) => {
                let server = owner.server.as_str();
                Reply::answer(id, &hub.tasks.renamed(&principal, server, answer))
            }
            Err(failure) => Reply::failure(id, &failure),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: Principal = Principal::Anonymous;

    fn ids(key: &str) -> TaskIds {
        TaskIds::new(Some(Secret::new(key)))
    }

    #[test]
    fn a_name_says_whose_task_it_is() {
        for (server, task) in [("files", "t-1"), ("a-b", "a/b/-c"), ("x", ""), ("x", "ü")] {
            let id = ids("k").seal(&ME, server, task).expect("a key");
            assert_eq!(ids("k").open(&ME, &id), Some((server, task)), "a later run");
            assert_eq!(ids("l").open(&ME, &id), None, "another key");
            assert_eq!(TaskIds::new(None).open(&ME, &id), None, "without a key");
            let others = ids("k").open(&Principal::Operator, &id);
            assert_eq!(others, None, "somebody else's");
        }
    }

    #[test]
    fn a_name_that_was_changed_is_nobodys() {
        let ids = ids("k");
        let id = ids.seal(&ME, "files", "task-abc").expect("a key");
        for index in 0..id.len() {
            let mut changed = id.clone().into_bytes();
            changed[index] = if changed[index] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(changed).expect("ASCII");
            assert_eq!(ids.open(&ME, &changed), None, "{changed}");
        }
        let upper = id.to_ascii_uppercase();
        for other in [
            "",
            "x",
            &id[1..],
            &id[..id.len() - 1],
            &upper,
            &"é".repeat(40),
        ] {
            assert_eq!(ids.open(&ME, other), None, "{other}");
        }
    }
}
