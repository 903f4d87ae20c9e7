use super::*;
use crate::exchanges::{
    question::AskedQuestions,
    reply_sink::{ReplyQueue, ReplySink},
};

fn pending() -> Arc<PendingRequests> {
    Arc::new(PendingRequests::new(
        ServerName::new("s").expect("a legal name"),
    ))
}

#[test]
fn an_oversized_answer_is_attributed_only_where_its_id_stands_first() {
    assert_eq!(
        id_in_head(br#"{"jsonrpc":"2.0","id": 17,"result":{"content"#),
        Some(17)
    );
    assert_eq!(id_in_head(br#"{"jsonrpc":"2.0","result":{"id":17,"#), None);
    assert_eq!(id_in_head(br#"{"jsonrpc":"2.0","id":"x","res"#), None);
}

fn error_without_id() -> Frame {
    let text = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":""}}"#;
    Frame::read(text.into()).expect("a response")
}

fn has_come(ticket: &mut Ticket) -> Option<Result<(), Broken>> {
    let received = futures_util::FutureExt::now_or_never(ticket.next());
    received.map(|message| message.map(|_| ()))
}

#[test]
fn an_id_counts_in_every_spelling() {
    let pending = pending();
    for spelling in ["\"N\"", "N.0", "Ne0"] {
        let mut call = pending.register(None, None).expect("open");
        let id = spelling.replace('N', &call.id.to_string());
        assert_eq!(pending.answer(&id, error_without_id()), Addressee::Call);
        assert_eq!(has_come(&mut call), Some(Ok(())), "{id}");
    }
    let abandoned_id = pending.register(None, None).expect("open").id;
    let id = format!("\"{abandoned_id}\"");
    assert_eq!(
        pending.answer(&id, error_without_id()),
        Addressee::AbandonedCall
    );
}

#[test]
fn an_answer_without_an_id_goes_to_the_only_call() {
    let pending = pending();
    let null = || pending.answer("null", error_without_id());
    assert_eq!(null(), Addressee::Nobody);
    let mut call = pending.register(None, None).expect("open");
    assert_eq!(null(), Addressee::Call);
    assert_eq!(has_come(&mut call), Some(Ok(())));
}

/// Some servers answer notifications.
#[test]
fn an_answer_without_an_id_may_answer_a_notification() {
    let pending = pending();
    let null = || pending.answer("null", error_without_id());
    pending.note_answerless();
    let mut first = pending.register(None, None).expect("open");
    assert_eq!(null(), Addressee::Nobody);
    assert_eq!(has_come(&mut first), None);
    // A notification gets at most one answer.
    assert_eq!(null(), Addressee::Call);
    // A server that has answered a later request will not answer the notification.
    pending.note_answerless();
    let [second, mut third] = [(); 2].map(|()| pending.register(None, None).expect("open"));
    pending.answer(&second.id.to_string(), error_without_id());
    assert_eq!(null(), Addressee::Call);
    assert_eq!(has_come(&mut third), Some(Ok(())));
}

/// While several calls wait, an answer without an id cannot be assigned to one of them. Once there are as
/// many such answers as calls, all these calls end.
#[test]
fn as_many_answers_without_an_id_as_calls_end_all_of_them() {
    let pending = pending();
    let null = || pending.answer("null", error_without_id());
    let mut calls = [(); 3].map(|()| pending.register(None, None).expect("open"));
    assert_eq!(null(), Addressee::Nobody);
    let mut later = pending.register(None, None).expect("open");
    assert!(calls.iter_mut().all(|call| has_come(call).is_none()));
    // The answer came before `later` was sent, so it does not belong to `later`.
    pending.answer(&calls[0].id.to_string(), error_without_id());
    assert_eq!(has_come(&mut calls[0]), Some(Ok(())));
    assert_eq!(has_come(&mut calls[1]), None);
    pending.answer(&calls[1].id.to_string(), error_without_id());
    let misaddressed = Some(Err(Broken::Misaddressed("null".into())));
    assert_eq!(has_come(&mut calls[2]), misaddressed);
    assert_eq!(has_come(&mut later), None);
    let mut latest = pending.register(None, None).expect("open");
    assert_eq!(null(), Addressee::Nobody);
    assert_eq!(null(), Addressee::Nobody);
    assert_eq!(has_come(&mut later), misaddressed);
    assert_eq!(has_come(&mut latest), misaddressed);
}

#[test]
fn an_answer_that_cannot_be_read_ends_its_call() {
    let pending = pending();
    for text in [
        r#"{"jsonrpc":"2.0","id":ID,"result":{"x":NaN}}"#,
        r#"{"result":{"x":NaN},"jsonrpc":"2.0","id": ID }"#,
        r#"{"jsonrpc":"2.0","id":"ID","result":{"x":NaN}}"#,
        r#"{"jsonrpc":"2.0","id":ID.0,"result":{"x":NaN}}"#,
        r#"{"result":{"x":NaN},"jsonrpc":"2.0","id":"ID"}"#,
        r#"{"jsonrpc":"2.0","id":"of-the-server","result":{"x":NaN}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{"x":NaN}}"#,
    ] {
        let mut call = pending.register(None, None).expect("open");
        let text = text.replace("ID", &call.id.to_string());
        assert_eq!(
            pending.break_off_unreadable(text.as_bytes(), "why"),
            Some(call.id)
        );
        let unreadable = Some(Err(Broken::Unreadable("why".into())));
        assert_eq!(has_come(&mut call), unreadable, "{text}");
    }
    let mut call = pending.register(None, None).expect("open");
    for text in [
        r#"{"id":ID,"x":NaN}"#,
        r#"{"jsonrpc":"2.0","id":ID,"method":"x","params":NaN}"#,
        r#"{"jsonrpc":"2.0","id":"#,
        r#"{"jsonrpc":"2.0","result":{"id":ID"#,
        r#"{"jsonrpc":"2.0","result":{"x":NaN,"id":"ID"}}"#,
    ] {
        let text = text.replace("ID", &call.id.to_string());
        assert_eq!(
            pending.break_off_unreadable(text.as_bytes(), "why"),
            None,
            "{text}"
        );
    }
    assert_eq!(has_come(&mut call), None);
    let mut other = pending.register(None, None).expect("open");
    let foreign = r#"{"jsonrpc":"2.0","id":"of-the-server","result":{"x":NaN}}"#;
    assert_eq!(
        pending.break_off_unreadable(foreign.as_bytes(), "why"),
        None
    );
    assert_eq!((has_come(&mut call), has_come(&mut other)), (None, None));
}

/// A late answer to an abandoned request is expected, even to Mainstay's own requests. A duplicate answer or
/// an unknown id is not.
#[test]
fn a_late_answer_is_told_apart_from_an_invented_one() {
    let pending = pending();
    let answered = |id: u64| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
        let frame = Frame::read(text.into()).expect("a response");
        pending.answer(&id.to_string(), frame)
    };
    let give_up = |asker| pending.register(asker, None).expect("open").id;
    let list = give_up(None);
    assert_eq!(answered(list), Addressee::AbandonedCall);
    assert_eq!(answered(list), Addressee::Nobody);
    assert_eq!(answered(4711), Addressee::Nobody);
    let many: Vec<u64> = (0..=MAX_ABANDONED)
        .map(|_| give_up(Some(Asker::new())))
        .collect();
    for id in many {
        assert_eq!(answered(id), Addressee::AbandonedCall, "{id}");
    }
}

/// A server may answer open requests, such as `subscriptions/listen`, when its session ends.
#[test]
fn an_answer_after_the_end_is_late() {
    let pending = pending();
    let open = pending.register(None, None).expect("open");
    let id = open.id.to_string();
    pending.end();
    let late = |id: &str| {
        let text =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32000,"message":""}}}}"#);
        pending.answer(id, Frame::read(text.into()).expect("a response"))
    };
    assert_eq!(late(&id), Addressee::AbandonedCall);
    assert_eq!(late("4711"), Addressee::Nobody);
}

#[test]
fn a_large_message_is_awaited_where_it_may_be_about_a_call() {
    let pending = pending();
    let (unnamed, question) = (
        &br#"{"jsonrpc":"2.0","result":{"#[..],
        &br#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","#[..],
    );
    assert!(!pending.may_await(unnamed) && !pending.may_await(question));
    let call = pending.register(Some(Asker::new()), None).expect("open");
    assert!(pending.may_await(unnamed) && pending.may_await(question));
    let answer = |id: u64| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
    assert!(pending.may_await(answer(call.id).as_bytes()));
    assert!(!pending.may_await(answer(call.id + 1).as_bytes()));
    // With two calls, the message could belong to either.
    let other = pending.register(Some(Asker::new()), None).expect("open");
    assert_eq!(pending.break_off_too_large(unnamed, 10), None);
    drop(other);
    assert_eq!(pending.break_off_too_large(question, 10), None);
    assert_eq!(pending.break_off_too_large(unnamed, 10), Some(call.id));
}

fn question(over: &tokio_util::sync::CancellationToken) -> ServerQuestion {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#;
    let frame = Frame::read(text.into()).expect("a request");
    let server = ServerName::new("s").expect("a legal name");
    let replies = ReplySink::new(server, ReplyQueue::None, over.clone());
    ServerQuestion::read(frame, &replies, &AskedQuestions::default()).expect("no ping")
}

/// An abandoned call may still cause questions. Until it is answered or its time is over, questions do not
/// reach other clients, and the refusal names the abandoned call.
#[tokio::test(start_paused = true)]
async fn a_call_that_was_given_up_keeps_others_from_being_asked() {
    let pending = pending();
    let [one, other] = [(); 2].map(|()| Some(Asker::new()));
    let mut live = pending.register(other, None).expect("open");
    let over = tokio_util::sync::CancellationToken::new();
    let mut ask = || match pending.ask(question(&over)) {
        Ok(()) => {
            assert_eq!(has_come(&mut live), Some(Ok(())));
            None
        }
        Err(refused) => refused.obstacle().map(str::to_owned),
    };
    let give_up = |asker| pending.register(asker, None).expect("open").id;
    give_up(other);
    give_up(None);
    assert_eq!(ask(), None);
    let answers: [&dyn Fn(u64); 4] = [
        &|id| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{}}}}"#);
            pending.answer(
                &id.to_string(),
                Frame::read(text.into()).expect("a response"),
            );
        },
        &|id| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":NaN}}"#);
            assert_eq!(pending.break_off_unreadable(text.as_bytes(), "why"), None);
        },
        &|id| {
            let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#);
            assert_eq!(pending.break_off_too_large(text.as_bytes(), 10), None);
        },
        &|_| {},
    ];
    for (number, answer) in answers.iter().enumerate() {
        let id = give_up(one);
        tokio::time::advance(Duration::from_secs(3)).await;
        let obstacle = ask().expect("another client's call may have caused it");
        assert!(obstacle.contains("given up 3 s ago"), "{obstacle}");
        assert!(!obstacle.contains("in flight"), "{obstacle}");
        answer(id);
        if number == 3 {
            tokio::time::advance(ABANDONED_FOR).await;
        }
        assert_eq!(ask(), None, "{number}");
    }
}

/// A server's request may have the id of a call, but not a method that only clients use.
#[test]
fn a_call_that_comes_back_is_no_question() {
    let pending = pending();
    let mut call = pending.register(None, None).expect("open");
    let request = |id: u64, method: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}"}}"#);
        Frame::read(text.into()).expect("a request")
    };
    for (id, method) in [
        (call.id + 1, "tools/list"),
        (call.id, "ping"),
        (call.id, "x"),
    ] {
        assert!(!pending.break_off_echo(&request(id, method)), "{method}");
    }
    assert_eq!(has_come(&mut call), None);
    assert!(pending.break_off_echo(&request(call.id, "initialize")));
    assert_eq!(has_come(&mut call), Some(Err(Broken::Echoed)));
}
