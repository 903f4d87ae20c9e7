//! The open questions of all servers, for people to see: who is asked what, and since when.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::SystemTime,
};

use mainstay_core::{ids::ServerName, principal::Principal};
use mainstay_transport::{Note, Question};
use parking_lot::{Mutex, MutexGuard};

/// Questions that are shown at once. More are asked all the same, and are not shown.
const MAX_SHOWN: usize = 4096;

/// Who answers a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// A client, by the name that it declared and its principal.
    Client {
        name: Option<String>,
        principal: Principal,
    },
    /// A person, by `mainstay requests`.
    Operator,
}

/// A question that waits for its answer.
#[derive(Clone, Debug)]
pub struct OpenQuestion {
    pub server: ServerName,
    pub method: String,
    pub answerer: Answerer,
    pub asked_at: SystemTime,
}

/// The open questions, by their servers and in their order.
#[derive(Debug, Default)]
pub struct OpenQuestions(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    last: u64,
    shown: usize,
    by_server: HashMap<ServerName, BTreeMap<u64, OpenQuestion>>,
}

impl OpenQuestions {
    fn state(&self) -> MutexGuard<'_, State> {
        // Held for a map operation, never across an await.
        self.0.lock()
    }

    /// Shows a question until it is answered, dropped, or shown as another's.
    pub fn show(
        self: &Arc<Self>,
        server: &ServerName,
        answerer: Answerer,
        question: &mut Question,
    ) {
        // It may be shown as another's, and would find the list locked.
        question.noted(None);
        let mut state = self.state();
        if state.shown >= MAX_SHOWN {
            tracing::debug!(%server, "an open question is not shown: too many are");
            return;
        }
        state.shown += 1;
        state.last += 1;
        let id = state.last;
        let open = OpenQuestion {
            server: server.clone(),
            method: question.frame().method_name(),
            answerer,
            asked_at: SystemTime::now(),
        };
        let of_server = state.by_server.entry(server.clone()).or_default();
        of_server.insert(id, open);
        drop(state);
        question.noted(Some(Box::new(Shown {
            questions: Arc::clone(self),
            server: server.clone(),
            id,
        })));
    }

    /// The open questions of one server: the oldest, and how many there are.
    pub fn oldest_of(&self, server: &ServerName) -> Option<(OpenQuestion, usize)> {
        let state = self.state();
        let of_server = state.by_server.get(server)?;
        let (_, oldest) = of_server.first_key_value()?;
        Some((oldest.clone(), of_server.len()))
    }

    /// Those that clients are to answer, oldest first.
    pub fn of_clients(&self) -> Vec<OpenQuestion> {
        let state = self.state();
        let all = state.by_server.values().flatten();
        let mut all: Vec<_> = all
            .filter(|(_, open)| open.answerer != Answerer::Operator)
            .map(|(id, open)| (*id, open.clone()))
            .collect();
        drop(state);
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, open)| open).collect()
    }
}

/// Takes a question out of the list when it is dropped.
#[derive(Debug)]
struct Shown {
    questions: Arc<OpenQuestions>,
    server: ServerName,
    id: u64,
}

impl Note for Shown {}

impl Drop for Shown {
    fn drop(&mut self) {
        let mut state = self.questions.state();
        state.shown -= 1;
        if let Some(of_server) = state.by_server.get_mut(&self.server) {
            of_server.remove(&self.id);
            if of_server.is_empty() {
                state.by_server.remove(&self.server);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstay_transport::Frame;

    use super::*;

    fn question(server: &ServerName) -> Question {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#;
        let request = Frame::read(request.into()).expect("a request");
        Question::of_round(server.clone(), request).0
    }

    #[test]
    fn a_question_is_shown_until_it_is_answered() {
        let questions = Arc::<OpenQuestions>::default();
        let server = ServerName::new("x").expect("a name");
        let client = |name: &str| Answerer::Client {
            name: Some(name.to_owned()),
            principal: Principal::Anonymous,
        };
        let mut first = question(&server);
        questions.show(&server, client("one"), &mut first);
        let mut second = question(&server);
        questions.show(&server, client("two"), &mut second);
        let names = || {
            let all = questions.of_clients().into_iter();
            all.map(|open| open.answerer).collect::<Vec<_>>()
        };
        assert_eq!(names(), [client("one"), client("two")]);
        questions.show(&server, Answerer::Operator, &mut first);
        assert_eq!(names(), [client("two")]);
        let (oldest, count) = questions.oldest_of(&server).expect("two");
        assert_eq!((oldest.answerer, count), (client("two"), 2));
        first.result("{}");
        drop(second);
        assert!(questions.oldest_of(&server).is_none());
        assert_eq!(questions.state().shown, 0);
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let questions = Arc::<OpenQuestions>::default();
        let server = ServerName::new("x").expect("a name");
        let mut all: Vec<_> = (0..MAX_SHOWN + 2).map(|_| question(&server)).collect();
        for question in &mut all {
            questions.show(&server, Answerer::Operator, question);
        }
        assert_eq!(questions.oldest_of(&server).expect("many").1, MAX_SHOWN);
        drop(all);
        assert_eq!(questions.state().shown, 0);
    }
}
