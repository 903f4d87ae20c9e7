//! Tools that depend on the revision. Their definitions are in `catalog::eras`.

use serde_json::{Value, json};

use crate::action::{ServiceAction, finishing};
use crate::bend::Bend;
use crate::interview;
use crate::message::{self, RpcError};
use crate::modern::{listen, tasks};
use crate::questions::{ClientQuestion, Rounds, Subject};
use crate::request::ReceivedRequest;
use crate::revision::RevisionEra;

/// Number of rounds that exceeds the limits of clients.
const MANY_ROUNDS: usize = 1000;

const AUDIO: &str = r#"{"content":[{"type":"text","text":"listen"},{"type":"audio","data":"UklGRg==","mimeType":"audio/wav"}]}"#;

const LINK: &str = r#"{"content":[{"type":"text","text":"look"},{"type":"resource_link","uri":"fake://text","name":"text","mimeType":"text/plain"}]}"#;

/// Returns the actions of a tool that depends on the revision. `None` for any other tool.
pub(crate) fn run(
    request: &ReceivedRequest,
    name: &str,
    arguments: &Value,
) -> Result<Option<Vec<ServiceAction>>, RpcError> {
    if let Some(rounds) = rounds(request, name) {
        let subject = Subject::Tool(name.to_owned());
        return interview::interview(request, subject, rounds).map(Some);
    }
    let structured = |content: Value| request.answer(&message::structured(&content));
    let answer = match name {
        "url_required" => {
            visit(request)?;
            request.answer(&message::text("signed in"))
        }
        "finished" => structured(json!(request.service.shared().ends)),
        "routed" => structured(arguments.clone()),
        "audio" => request.answer(AUDIO),
        "link" => request.answer(LINK),
        "object" => structured(json!({"answer": 42})),
        "list" => structured(json!([1, 2, 3])),
        "end_listens" => {
            listen::end(&mut request.service.shared().listens);
            request.answer(&message::text("subscriptions ended"))
        }
        "task" => return tasks::call(request, arguments).map(Some),
        _ => return Ok(None),
    };
    Ok(Some(finishing(name, vec![answer])))
}

/// Sends the user of a legacy session to a URL, once.
fn visit(request: &ReceivedRequest) -> Result<(), RpcError> {
    let url = ClientQuestion::url(RevisionEra::Legacy, "sign-in");
    if let Some(missing_capability) = url.lacks(&request.client.capabilities) {
        let text = format!("the client did not declare {missing_capability}");
        return Err(RpcError::new(-32603, text));
    }
    let was_sent = std::mem::replace(&mut request.session.state().sent_to_url, true);
    if was_sent {
        return Ok(());
    }
    let elicitation: Value = serde_json::from_str(&url.params).expect("ours");
    Err(RpcError {
        data: Some(json!({"elicitations": [elicitation]})),
        ..RpcError::new(-32042, "sign in first")
    })
}

/// Returns the questions of a tool.
fn rounds(request: &ReceivedRequest, name: &str) -> Option<Rounds> {
    let url = || ClientQuestion::url(request.client.era, "sign-in");
    Some(match name {
        "ask_sampling" => vec![vec![ClientQuestion::sampling()]],
        "ask_elicitation" | "ask_without_state" => vec![vec![ClientQuestion::form()]],
        "ask_roots" => vec![vec![ClientQuestion::roots()]],
        "ask_url" => vec![vec![url()]],
        "url_required" if request.client.era == RevisionEra::Modern => vec![vec![url()]],
        "ask_in_turn" => vec![
            vec![ClientQuestion::form()],
            vec![ClientQuestion::sampling()],
        ],
        "ask_together" => vec![vec![ClientQuestion::form(), ClientQuestion::sampling()]],
        "ask_nothing" if request.script.bends(Bend::EndlessInputRequired) => {
            vec![Vec::new(); MANY_ROUNDS]
        }
        "ask_nothing" => vec![Vec::new()],
        "ask_again" => vec![vec![ClientQuestion::form()]; MANY_ROUNDS],
        _ => return None,
    })
}
