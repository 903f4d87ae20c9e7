//! A call of a server that asks once, and what becomes of it and its attempts.

use std::time::Duration;

use futures_util::FutureExt as _;
use mainstay_core::{ids::ServerName, message, principal::Principal};
use mainstay_gateway::calls::Client;
use mainstay_transport::Question;

use super::*;

const ANSWER: &str = r#"{"action":"accept"}"#;

fn frame(text: &str) -> Frame {
    Frame::read(text.to_owned().into()).expect("a message")
}

fn request(id: u32) -> Frame {
    frame(&format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t"}}}}"#
    ))
}

/// A daemon's suspended calls, and the far end of the one call that it knows.
struct Lot {
    suspended: Arc<SuspendedCalls>,
    calls: Calls,
    /// What the client answered reaches the server.
    answered: oneshot::Receiver<Frame>,
    /// Ends the call.
    finish: oneshot::Sender<()>,
    /// Why the call was cancelled.
    cancelled: oneshot::Receiver<String>,
    /// The result of the first attempt.
    required: String,
}

impl Lot {
    async fn new() -> Self {
        let (asks, questions) = questions();
        let (cancel, ended) = oneshot::channel::<String>();
        let (tell, cancelled) = oneshot::channel();
        let (finish, finished) = oneshot::channel();
        let (said, messages) = CallSink::new(Client::nobody(), None);
        let asked =
            r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"?"}}"#;
        let server = ServerName::new("s").expect("a legal name");
        let (question, answered) = Question::of_round(server, frame(asked));
        let call = async move {
            asks.try_send(question).expect("room");
            let reply = tokio::select! {
                Ok(()) = finished => Reply::result("1", r#"{"done":true}"#),
                Ok(reason) = ended => {
                    let reply = Reply::cancelled("1", &reason);
                    tell.send(reason).ok();
                    reply
                }
            };
            said.put(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#.to_owned());
            Closed::of_the_same_call(reply)
        };
        let parts = Parts {
            messages,
            questions,
            cancel,
            scope: Scope::Profile(Arc::default()),
            principal: Principal::Anonymous,
            frame: request(1),
            seat: Arc::default(),
        };
        let (suspended, calls) = (Arc::<SuspendedCalls>::default(), Calls::default());
        let (sink, _messages) = CallSink::new(Client::nobody(), None);
        let (_keep, never) = oneshot::channel();
        let rounds = InputRounds::new(call, parts);
        let required = suspended.begin(calls.clone(), rounds, sink, never);
        Self {
            required: required.await.into_text(),
            suspended,
            calls,
            answered,
            finish,
            cancelled,
        }
    }

    /// The next attempt with this id; it hears progress under a token of its own.
    fn attempt(
        &self,
        id: u32,
        answer: Option<&str>,
    ) -> (
        impl Future<Output = Closed<Reply>> + Send + use<>,
        mainstay_gateway::calls::CallStream,
    ) {
        let result = message::member(&self.required, "result").expect("a result");
        let state = message::text_member(result, "requestState").expect("a state");
        let answer = answer.map(|answer| ("question-1".to_owned(), answer.into()));
        let answers = Answers {
            responses: answer.into_iter().collect(),
            state: Some(state.into_owned()),
        };
        let attempt = frame(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","_meta":{{"progressToken":"of-{id}"}}}}}}"#
        ));
        let (sink, messages) = CallSink::new(Client::nobody(), None);
        let reply = self
            .suspended
            .resume(Scope::Profile(Arc::default()), attempt, answers, sink);
        let reply = reply.map(|reply| reply.unwrap_or_else(Closed::of_the_same_call));
        (reply, messages)
    }
}

fn is_unknown(reply: &Closed<Reply>) -> bool {
    reply.error == Some(code::INVALID_PARAMS)
}

#[tokio::test(start_paused = true)]
async fn an_attempt_answers_joins_and_hears() {
    let lot = Lot::new().await;
    assert!(lot.required.contains("input_required"), "{}", lot.required);
    let (reply, mut messages) = lot.attempt(2, Some(ANSWER));
    let reply = tokio::spawn(reply);
    let answered = lot.answered.await.expect("an answer");
    assert_eq!(answered.result(), Some(ANSWER));
    lot.finish.send(()).expect("it runs");
    let reply = reply.await.expect("no panic");
    assert_eq!(
        reply.text(),
        r#"{"jsonrpc":"2.0","id":2,"result":{"done":true}}"#
    );
    let said = messages.next().await.expect("progress");
    assert!(said.contains(r#""of-2""#), "{said}");
}

/// A replay while it runs gets what the first gets; one after its end gets nothing.
#[tokio::test(start_paused = true)]
async fn a_replay_joins_a_call_that_runs() {
    let mut lot = Lot::new().await;
    let (one, _one) = lot.attempt(2, Some(ANSWER));
    let one = tokio::spawn(one);
    (&mut lot.answered).await.expect("an answer");
    let (two, _two) = lot.attempt(3, Some(ANSWER));
    let two = tokio::spawn(two);
    tokio::task::yield_now().await;
    let (late, _late) = lot.attempt(4, Some(ANSWER));
    lot.finish.send(()).expect("it runs");
    for (reply, id) in [(one, 2), (two, 3)] {
        let reply = reply.await.expect("no panic");
        assert_eq!(message::member(reply.text(), "id"), Some(&*id.to_string()));
        assert!(reply.text().contains("done"), "{}", reply.text());
    }
    assert!(is_unknown(&late.await));
}

/// Its client closes the stream of the attempt: that cancels the call. One of two that leaves does not.
#[tokio::test(start_paused = true)]
async fn the_last_to_leave_cancels() {
    let mut lot = Lot::new().await;
    let (one, _one) = lot.attempt(2, Some(ANSWER));
    let one = tokio::spawn(one);
    (&mut lot.answered).await.expect("an answer");
    let (two, _two) = lot.attempt(3, None);
    let two = tokio::spawn(two);
    tokio::time::sleep(Duration::from_secs(1)).await;
    one.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(lot.cancelled.try_recv().is_err());
    two.abort();
    // Before it would have expired.
    let reason = tokio::time::timeout(PATIENCE / 2, lot.cancelled).await;
    let reason = reason.expect("the call is cancelled");
    assert_eq!(reason.as_deref(), Ok("the client has gone"));
}

#[tokio::test(start_paused = true)]
async fn what_became_of_it_meanwhile_waits_for_the_client() {
    let lot = Lot::new().await;
    let (reply, _messages) = lot.attempt(2, None);
    // The server goes on without an answer.
    lot.finish.send(()).expect("it runs");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(reply.await.text().contains("done"));
}

/// No attempt comes: the server is told, has its question back, and the state is worth nothing.
#[tokio::test(start_paused = true)]
async fn patience_ends() {
    let mut lot = Lot::new().await;
    tokio::time::sleep(PATIENCE.mul_f32(0.99)).await;
    assert!(lot.cancelled.try_recv().is_err());
    tokio::time::sleep(PATIENCE.mul_f32(0.02)).await;
    let (late, _messages) = lot.attempt(2, Some(ANSWER));
    assert_eq!(
        lot.cancelled.await.as_deref(),
        Ok("the client did not answer in time")
    );
    let refused = lot.answered.await.expect("a refusal");
    assert!(refused.error().is_some(), "{}", refused.text());
    assert!(is_unknown(&late.await));
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_it() {
    let lot = Lot::new().await;
    lot.suspended.close();
    assert_eq!(
        lot.cancelled.await.as_deref(),
        Ok("Mainstay is shutting down")
    );
    lot.calls.drain(Duration::from_secs(1)).await;
    assert!(lot.suspended.parked().is_empty());
}
