//! Asks the client questions: by requests in the legacy era, by `input_required` in the modern era.

use std::sync::Arc;

use crate::action::{ClientRequest, ServiceAction};
use crate::bend::Bend;
use crate::message::{self, RpcError};
use crate::modern::{result, rounds};
use crate::questions::{ClientQuestion, Rounds, Subject, collect, missing, visited};
use crate::request::ReceivedRequest;

/// Asks the questions of all rounds, then answers the request. Refuses before the first round if
/// the client lacks a capability of any round, unless the script has `Bend::UndeclaredQuestions`.
pub(crate) fn interview(
    request: &ReceivedRequest,
    subject: Subject,
    rounds: Rounds,
) -> Result<Vec<ServiceAction>, RpcError> {
    let missing_capability = missing(&request.client.capabilities, &rounds)
        .filter(|_| !request.script.bends(Bend::UndeclaredQuestions));
    if request.is_modern() {
        return match missing_capability {
            None => rounds::interview(request, &subject, &rounds),
            Some(missing_capability) => Err(result::missing_capability(&missing_capability)),
        };
    }
    if let Some(missing_capability) = missing_capability {
        let text = format!("the client did not declare {missing_capability}");
        return Ok(vec![ServiceAction::Send(
            subject.failure(request.id, &text),
        )]);
    }
    Ok(vec![ask(request, subject, rounds)])
}

/// Sends requests on the stream of the call.
fn ask(request: &ReceivedRequest, subject: Subject, rounds: Rounds) -> ServiceAction {
    let keys: Vec<&str> = rounds
        .iter()
        .flatten()
        .map(|question| question.key)
        .collect();
    let page = rounds
        .iter()
        .flatten()
        .find(|question| question.is_url())
        .cloned();
    let requests = rounds.into_iter().map(|round| {
        let to_request =
            |question: ClientQuestion| client_request(request, &question.method, &question.params);
        round.into_iter().map(to_request).collect()
    });
    let (service, id) = (Arc::clone(request.service), request.id.to_owned());
    ServiceAction::Ask {
        rounds: requests.collect(),
        then: Box::new(move |answers| match collect(&keys, &answers) {
            Ok(answers) => {
                service.shared().finished(subject.name());
                let result = message::result(&id, &subject.result(&answers));
                let visit = page.and_then(|page| visited(&page, &answers));
                visit.into_iter().chain([result]).collect()
            }
            Err(refusal) => vec![subject.failure(&id, refusal)],
        }),
    }
}

/// Makes one request to the client.
pub(crate) fn client_request(
    request: &ReceivedRequest,
    method: &str,
    params: &str,
) -> ClientRequest {
    let id = format!(r#""fake-{}""#, request.service.serial());
    ClientRequest {
        request: message::request(&id, method, params),
        answer: request.session.expect_answer(&id),
    }
}
