//! Performs the actions for a message.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::action::{ClientRequest, ServiceAction, SubscriptionEvent};
use crate::bend::Bend;
use crate::flood;
use crate::service::{Service, Turn};
use crate::session::{FakeSession, Outgoing, Outlet};

/// Performs the actions. Messages go to `outlet`, or else to the session's stream. Immediate
/// actions finish before this returns, so that answers keep the order of requests.
pub(crate) fn run(
    service: &Arc<Service>,
    session: &Arc<FakeSession>,
    call: Option<&str>,
    actions: Vec<ServiceAction>,
    outlet: Option<Outlet>,
    turn: Turn,
) {
    let stream = outlet.clone().filter(|_| session.ends_with_stream);
    let is_serial = call.is_some() && service.script().bends(Bend::OneAtATime);
    let tool_future = {
        let (service, session) = (Arc::clone(service), Arc::clone(session));
        async move {
            let _turn = if is_serial {
                Some(service.next_request().await)
            } else {
                None
            };
            perform(Arc::clone(&service), session, actions, outlet, turn).await;
        }
    };
    let tool_future = unless_closed(
        Arc::clone(service),
        call.map(str::to_owned),
        stream,
        tool_future,
    );
    session.drive(call, tool_future);
}

/// Cancels the work when the client closes the stream.
async fn unless_closed(
    service: Arc<Service>,
    call: Option<String>,
    stream: Option<Outlet>,
    tool_future: impl Future<Output = ()>,
) {
    let Some(stream) = stream else {
        return tool_future.await;
    };
    let mut tool_future = std::pin::pin!(tool_future);
    tokio::select! {
        biased;
        () = &mut tool_future => return,
        () = stream.closed() => service.shared().cancelled.extend(call),
    }
    if service.script().ignore_cancel {
        tool_future.await;
    }
}

async fn perform(
    service: Arc<Service>,
    session: Arc<FakeSession>,
    actions: Vec<ServiceAction>,
    outlet: Option<Outlet>,
    // Held until only subscriptions remain.
    mut turn: Turn,
) {
    let bends = service.script().bends;
    let bent_text = |text| bends.iter().fold(text, |text, bend| bend.message(text));
    let send = |text, is_last| match (bent_text(text), &outlet) {
        // The call continues even if its client has disconnected.
        (text, Some(outlet)) => drop(outlet.send(Outgoing::Message {
            text,
            last: is_last,
        })),
        (text, None) => session.publish(text),
    };
    let count = actions.len();
    for (position, action) in actions.into_iter().enumerate() {
        let is_last = position + 1 == count;
        service.responsive().await;
        match action {
            ServiceAction::Send(text) => send(text, is_last),
            ServiceAction::Publish(to, text) => to.publish(text),
            ServiceAction::Wait(time) => tokio::time::sleep(time).await,
            ServiceAction::Burn(time) => burn(time),
            ServiceAction::Flood(flood) => flood::pour(flood).await,
            ServiceAction::Ask { rounds, then } => {
                let mut answers = Vec::new();
                for round in rounds {
                    let mut receivers = Vec::new();
                    for ClientRequest { request, answer } in round {
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
                    send(text, is_last && messages.peek().is_none());
                }
            }
            ServiceAction::Listen(mut events, end) => {
                drop(turn.take());
                while let Some(event) = events.recv().await {
                    match (event, &outlet) {
                        (SubscriptionEvent::Message(text), _) => send(text, false),
                        (SubscriptionEvent::Cut, Some(outlet)) => {
                            // The reader may have gone.
                            let _ = outlet.send(Outgoing::Cut);
                            return;
                        }
                        // A pipe has only one stream, which must not break.
                        (SubscriptionEvent::Cut, None) => {}
                    }
                }
                send(end, is_last);
            }
            ServiceAction::Finish(subject) => service.shared().finished(&subject),
            ServiceAction::Advance(task) => service.shared().advance(&task),
            // An error means that the other call has ended.
            ServiceAction::Park(other) => drop(other.await),
            ServiceAction::Release(other) => drop(other.send(())),
            ServiceAction::BreakOff(text) => {
                let half_text = text[..text.len() / 2].to_owned();
                match &outlet {
                    Some(outlet) => drop(outlet.send(Outgoing::Half(half_text))),
                    None => session.break_stream(Outgoing::Half(half_text)),
                }
            }
            ServiceAction::Hang => std::future::pending().await,
            ServiceAction::Exit(code) => {
                service.exit(code);
                // Wait until the connection is cut, so that the stream does not end regularly.
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
