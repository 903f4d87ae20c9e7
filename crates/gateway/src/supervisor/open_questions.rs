//! The list of all servers' open questions, which `mainstay requests` shows.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::SystemTime,
};

use mainstay_core::{ids::ServerName, principal::Principal};
use mainstay_transport::{QuestionNote, ServerQuestion};
use parking_lot::{Mutex, MutexGuard};

/// Maximum number of listed questions. Further questions are asked, but not listed.
const MAX_LISTED: usize = 4096;

/// The client or the person that a question is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// A client, with the name that it declared and its principal.
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

/// The open questions of each server, in the order in which they were asked.
#[derive(Debug, Default)]
pub struct OpenQuestions(Mutex<QuestionList>);

#[derive(Debug, Default)]
struct QuestionList {
    last: u64,
    count: usize,
    by_server: HashMap<ServerName, BTreeMap<u64, OpenQuestion>>,
}

impl OpenQuestions {
    fn list(&self) -> MutexGuard<'_, QuestionList> {
        // Held for a map operation, never across an await.
        self.0.lock()
    }

    /// Adds a question until it is answered or dropped, or added again with another answerer.
    pub fn show(
        self: &Arc<Self>,
        server: &ServerName,
        answerer: Answerer,
        question: &mut ServerQuestion,
    ) {
        // Remove the question's earlier place before the list is locked, because its drop locks the
        // list, too.
        question.set_note(None);
        let mut list = self.list();
        if list.count >= MAX_LISTED {
            tracing::debug!(%server, "an open question is not shown: too many are");
            return;
        }
        list.count += 1;
        list.last += 1;
        let id = list.last;
        let open = OpenQuestion {
            server: server.clone(),
            method: question.frame().method_name(),
            answerer,
            asked_at: SystemTime::now(),
        };
        let server_questions = list.by_server.entry(server.clone()).or_default();
        server_questions.insert(id, open);
        drop(list);
        question.set_note(Some(Box::new(ListedQuestion {
            questions: Arc::clone(self),
            server: server.clone(),
            id,
        })));
    }

    /// The oldest open question of one server, and the number of its open questions.
    pub fn oldest_of(&self, server: &ServerName) -> Option<(OpenQuestion, usize)> {
        let list = self.list();
        let server_questions = list.by_server.get(server)?;
        let (_, oldest) = server_questions.first_key_value()?;
        Some((oldest.clone(), server_questions.len()))
    }

    /// The questions that wait for clients, oldest first.
    pub fn of_clients(&self) -> Vec<OpenQuestion> {
        let list = self.list();
        let all = list.by_server.values().flatten();
        let mut all: Vec<_> = all
            .filter(|(_, open)| open.answerer != Answerer::Operator)
            .map(|(id, open)| (*id, open.clone()))
            .collect();
        drop(list);
        all.sort_unstable_by_key(|(id, _)| *id);
        all.into_iter().map(|(_, open)| open).collect()
    }
}

/// A question's place in the list. Dropping it removes the question.
#[derive(Debug)]
struct ListedQuestion {
    questions: Arc<OpenQuestions>,
    server: ServerName,
    id: u64,
}

impl QuestionNote for ListedQuestion {}

impl Drop for ListedQuestion {
    fn drop(&mut self) {
        let mut list = self.questions.list();
        list.count -= 1;
        if let Some(server_questions) = list.by_server.get_mut(&self.server) {
            server_questions.remove(&self.id);
            if server_questions.is_empty() {
                list.by_server.remove(&self.server);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstay_transport::Frame;

    use super::*;

    fn question(server: &ServerName) -> ServerQuestion {
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{}}"#;
        let request = Frame::read(request.into()).expect("a request");
        ServerQuestion::of_round(server.clone(), request).0
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
        assert_eq!(questions.list().count, 0);
    }

    #[test]
    fn what_is_shown_is_bounded() {
        let questions = Arc::<OpenQuestions>::default();
        let server = ServerName::new("x").expect("a name");
        let mut all: Vec<_> = (0..MAX_LISTED + 2).map(|_| question(&server)).collect();
        for question in &mut all {
            questions.show(&server, Answerer::Operator, question);
        }
        assert_eq!(questions.oldest_of(&server).expect("many").1, MAX_LISTED);
        drop(all);
        assert_eq!(questions.list().count, 0);
    }
}
