//! Carries out the actions that a message leads to: waits, asks, sends.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::action::{Action, Asked, Heard};
use crate::bend::Bend;
use crate::flood;
use crate::service::{Service, Turn};
use crate::session::{Outgoing, Outlet, Session};

/// Carries the actions out, on `outlet` or else on the session's stream. All that needs no waiting is done
/// before this returns, so that answers keep the order of their requests.
pub(crate) fn run(
    service: &Arc<Service>,
    session: &Arc<Session>,
    call: Option<&str>,
    actions: Vec<Action>,
    outlet: Option<Outlet>,
    turn: Turn,
) {
    let stream = outlet.clone().filter(|_| session.ends_with_stream);
    let one_at_a_time = call.is_some() && service.script().bends(Bend::OneAtATime);
    let work = {
        let (service, session) = (Arc::clone(service), Arc::clone(session));
        async move {
            let _turn = if one_at_a_time {
                Some(service.next_request().await)
            } else {
                None
            };
            perform(Arc::clone(&service), session, actions, outlet, turn).await;
        }
    };
    let work = unless_closed(Arc::clone(service), call.map(str::to_owned), stream, work);
    session.drive(call, work);
}

/// Gives the work up when the client closes the stream, which cancels the call.
async fn unless_closed(
    service: Arc<Service>,
    call: Option<String>,
    stream: Option<Outlet>,
    work: impl Future<Output = ()>,
) {
    let Some(stream) = stream else {
        return work.await;
    };
    let mut work = std::pin::pin!(work);
    tokio::select! {
        biased;
        () = &mut work => return,
        () = stream.closed() => service.shared().cancelled.extend(call),
    }
    if service.script().ignore_cancel {
        work.await;
    }
}

async fn perform(
    service: Arc<Service>,
    session: Arc<Session>,
    actions: Vec<Action>,
    outlet: Option<Outlet>,
    // Held until all is done, or nothing is left but to listen.
    mut turn: Turn,
) {
    let bends = service.script().bends;
    let bent = |text| bends.iter().fold(text, |text, bend| bend.message(text));
    let send = |text, last| match (bent(text), &outlet) {
        // The client may have left; its call runs on all the same.
        (text, Some(outlet)) => drop(outlet.send(Outgoing::Message { text, last })),
        (text, None) => session.publish(text),
    };
    let count = actions.len();
    for (position, action) in actions.into_iter().enumerate() {
        let last = position + 1 == count;
        service.responsive().await;
        match action {
            Action::Send(text) => send(text, last),
            Action::Publish(to, text) => to.publish(text),
            Action::Wait(time) => tokio::time::sleep(time).await,
            Action::Burn(time) => burn(time),
            Action::Flood(flood) => flood::pour(flood).await,
            Action::Ask { rounds, then } => {
                let mut answers = Vec::new();
                for round in rounds {
                    let mut receivers = Vec::new();
                    for Asked { request, answer } in round {
                        send(request, false);
                        receivers.push(answer);
                    }
                    for answer in receivers {
                        let Ok(answer) = answer.await else { return };
                        answers.push(answer);
                    }
                }
                let mut messages = then(answers).into_iter().peekable();
                while let Some(text) = messages.next() {
                    send(text, last && messages.peek().is_none());
                }
            }
            Action::Listen(mut events, end) => {
                drop(turn.take());
                while let Some(event) = events.recv().await {
                    match (event, &outlet) {
                        (Heard::Message(text), _) => send(text, false),
                        (Heard::Cut, Some(outlet)) => {
                            // Its reader is gone: cut already.
                            let _ = outlet.send(Outgoing::Cut);
                            return;
                        }
                        // A pipe has one stream for all.
                        (Heard::Cut, None) => {}
                    }
                }
                send(end, last);
            }
            Action::Finish(subject) => service.shared().finished(&subject),
            Action::Advance(task) => service.shared().advance(&task),
            // An error means that the other call is gone: nothing to wait for.
            Action::Park(other) => drop(other.await),
            Action::Release(other) => drop(other.send(())),
            Action::BreakOff(text) => {
                let half = text[..text.len() / 2].to_owned();
                match &outlet {
                    Some(outlet) => drop(outlet.send(Outgoing::Half(half))),
                    None => session.break_stream(Outgoing::Half(half)),
                }
            }
            Action::Hang => std::future::pending().await,
            Action::Exit(code) => {
                service.exit(code);
                // In a test we are still here, until the connection is cut: no
                // orderly end of the stream may come before that.
                std::future::pending::<()>().await;
            }
        }
    }
}

fn burn(time: Duration) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}
