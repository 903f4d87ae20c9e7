//! Tests of a suspended call whose server asks once.

use std::time::Duration;

use futures_util::FutureExt as _;
use mainstay_core::{ids::ServerName, message, principal::Principal};
use mainstay_gateway::calls::CallClient;
use mainstay_transport::ServerQuestion;

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

/// A parked call, and its server's side.
struct ParkedCall {
    suspended: Arc<SuspendedCalls>,
    calls: Calls,
    /// Resolves with the answer that the server gets.
    answered: oneshot::Receiver<Frame>,
    /// Lets the server answer the call.
    finish: oneshot::Sender<()>,
    /// Resolves with the reason when the server's call is cancelled.
    cancelled: oneshot::Receiver<String>,
    /// The reply to the first attempt.
    required: String,
}

impl ParkedCall {
    async fn new() -> Self {
        let (question_sender, questions) = questions();
        let (cancel, cancel_reason) = oneshot::channel::<String>();
        let (report_cancel, cancel_signal) = oneshot::channel();
        let (finish, finish_signal) = oneshot::channel();
        let (server_messages, messages) = CallSink::new(CallClient::nobody(), None);
        let elicitation =
            r#"{"jsonrpc":"2.0","id":7,"method":"elicitation/create","params":{"message":"?"}}"#;
        let server = ServerName::new("s").expect("a legal name");
        let (question, answer_receiver) = ServerQuestion::of_round(server, frame(elicitation));
        let call = async move {
            question_sender.try_send(question).expect("room");
            let reply = tokio::select! {
                Ok(()) = finish_signal => RpcReply::result("1", r#"{"done":true}"#),
                Ok(reason) = cancel_reason => {
                    let reply = RpcReply::cancelled("1", &reason);
                    report_cancel.send(reason).ok();
                    reply
                }
            };
            server_messages.put(r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}"#.to_owned());
            Closed::of_the_same_call(reply)
        };
        let parts = Parts {
            messages,
            questions,
            cancel,
            scope: EndpointScope::Profile(Arc::default()),
            principal: Principal::Anonymous,
            frame: request(1),
            seat: Arc::default(),
        };
        let (suspended_calls, calls) = (Arc::<SuspendedCalls>::default(), Calls::default());
        let (sink, _messages) = CallSink::new(CallClient::nobody(), None);
        let (_keep, never) = oneshot::channel();
        let rounds = InputRounds::new(call, parts);
        let required_json = suspended_calls.begin(calls.clone(), rounds, sink, never);
        Self {
            required: required_json.await.into_text(),
            suspended: suspended_calls,
            calls,
            answered: answer_receiver,
            finish,
            cancelled: cancel_signal,
        }
    }

    /// Retries the call with this id, and with a progress token of its own.
    fn attempt(
        &self,
        id: u32,
        answer: Option<&str>,
    ) -> (
        impl Future<Output = Closed<RpcReply>> + Send + use<>,
        mainstay_gateway::calls::CallStream,
    ) {
        let result = message::member(&self.required, "result").expect("a result");
        let state = message::text_member(result, "requestState").expect("a state");
        let answer = answer.map(|answer| ("question-1".to_owned(), answer.into()));
        let answers = QuestionAnswers {
            responses: answer.into_iter().collect(),
            state: Some(state.into_owned()),
        };
        let attempt = frame(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t","_meta":{{"progressToken":"of-{id}"}}}}}}"#
        ));
        let (sink, messages) = CallSink::new(CallClient::nobody(), None);
        let reply = self.suspended.resume(
            EndpointScope::Profile(Arc::default()),
            attempt,
            answers,
            sink,
        );
        let reply = reply.map(|reply| reply.unwrap_or_else(Closed::of_the_same_call));
        (reply, messages)
    }
}

fn is_unknown(reply: &Closed<RpcReply>) -> bool {
    reply.error == Some(code::INVALID_PARAMS)
}

#[tokio::test(start_paused = true)]
async fn an_attempt_answers_joins_and_hears() {
    let parked_call = ParkedCall::new().await;
    assert!(
        parked_call.required.contains("input_required"),
        "{}",
        parked_call.required
    );
    let (reply, mut messages) = parked_call.attempt(2, Some(ANSWER));
    let reply = tokio::spawn(reply);
    let answer = parked_call.answered.await.expect("an answer");
    assert_eq!(answer.result(), Some(ANSWER));
    parked_call.finish.send(()).expect("it runs");
    let reply = reply.await.expect("no panic");
    assert_eq!(
        reply.text(),
        r#"{"jsonrpc":"2.0","id":2,"result":{"done":true}}"#
    );
    let progress = messages.next().await.expect("progress");
    assert!(progress.contains(r#""of-2""#), "{progress}");
}

/// An attempt during the call gets the same reply. An attempt after its end gets an error.
#[tokio::test(start_paused = true)]
async fn a_replay_joins_a_call_that_runs() {
    let mut parked_call = ParkedCall::new().await;
    let (first_attempt, _one) = parked_call.attempt(2, Some(ANSWER));
    let first_attempt = tokio::spawn(first_attempt);
    (&mut parked_call.answered).await.expect("an answer");
    let (second_attempt, _two) = parked_call.attempt(3, Some(ANSWER));
    let second_attempt = tokio::spawn(second_attempt);
    tokio::task::yield_now().await;
    let (late_attempt, _late) = parked_call.attempt(4, Some(ANSWER));
    parked_call.finish.send(()).expect("it runs");
    for (reply, id) in [(first_attempt, 2), (second_attempt, 3)] {
        let reply = reply.await.expect("no panic");
        assert_eq!(message::member(reply.text(), "id"), Some(&*id.to_string()));
        assert!(reply.text().contains("done"), "{}", reply.text());
    }
    assert!(is_unknown(&late_attempt.await));
}

/// The call is cancelled when its last attempt is dropped, and not before.
#[tokio::test(start_paused = true)]
async fn the_last_to_leave_cancels() {
    let mut parked_call = ParkedCall::new().await;
    let (first_attempt, _one) = parked_call.attempt(2, Some(ANSWER));
    let first_attempt = tokio::spawn(first_attempt);
    (&mut parked_call.answered).await.expect("an answer");
    let (second_attempt, _two) = parked_call.attempt(3, None);
    let second_attempt = tokio::spawn(second_attempt);
    tokio::time::sleep(Duration::from_secs(1)).await;
    first_attempt.abort();
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(parked_call.cancelled.try_recv().is_err());
    second_attempt.abort();
    // The cancellation comes before the time limit.
    let reason = tokio::time::timeout(PATIENCE / 2, parked_call.cancelled).await;
    let reason = reason.expect("the call is cancelled");
    assert_eq!(reason.as_deref(), Ok("the client has gone"));
}

#[tokio::test(start_paused = true)]
async fn an_outcome_waits_for_the_client() {
    let parked_call = ParkedCall::new().await;
    let (reply, _messages) = parked_call.attempt(2, None);
    // The server answers the call without waiting for the client.
    parked_call.finish.send(()).expect("it runs");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(reply.await.text().contains("done"));
}

/// After the time limit, the call is cancelled, its question is refused, and its state is invalid.
#[tokio::test(start_paused = true)]
async fn patience_ends() {
    let mut parked_call = ParkedCall::new().await;
    tokio::time::sleep(PATIENCE.mul_f32(0.99)).await;
    assert!(parked_call.cancelled.try_recv().is_err());
    tokio::time::sleep(PATIENCE.mul_f32(0.02)).await;
    let (late_attempt, _messages) = parked_call.attempt(2, Some(ANSWER));
    assert_eq!(
        parked_call.cancelled.await.as_deref(),
        Ok("the client did not answer in time")
    );
    let refusal = parked_call.answered.await.expect("a refusal");
    assert!(refusal.error().is_some(), "{}", refusal.text());
    assert!(is_unknown(&late_attempt.await));
}

#[tokio::test(start_paused = true)]
async fn stopping_ends_it() {
    let parked_call = ParkedCall::new().await;
    parked_call.suspended.close();
    assert_eq!(
        parked_call.cancelled.await.as_deref(),
        Ok("Mainstay is shutting down")
    );
    parked_call.calls.drain(Duration::from_secs(1)).await;
    assert!(parked_call.suspended.parked().is_empty());
}
