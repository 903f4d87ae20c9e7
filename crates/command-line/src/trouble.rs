//! Describes a server's status, in the same words for every command.

use std::time::Duration;

use mainstay_api::{OpenQuestion, Server};
use mainstay_core::trouble as words;

use super::{output, time};

/// The status word of the server, or `disabled`.
pub fn word(server: &Server) -> &str {
    if server.enabled || server.pending.is_some() {
        &server.status
    } else {
        "disabled"
    }
}

/// The reason that a server is not connected or not healthy, and the next step. `None` if it is healthy, or
/// if its operator has stopped it.
pub fn trouble(server: &Server) -> Option<String> {
    let attempt = server.reconnect_attempt.unwrap_or_default();
    let next_retry = server.next_retry_ms.map(Duration::from_millis);
    if let Some(words) = &server.starting {
        let text = format!("starting: {}", output::one_line(words));
        return Some(match &server.last_error {
            Some(reason) => {
                let reason = words::explained(reason, &server.stderr, None);
                let reason = output::one_line(&reason);
                format!("{text} (attempt {attempt}, after: {reason})")
            }
            None => text,
        });
    }
    let reason = server.last_error.as_ref().map(|reason| {
        if server.connected {
            reason.clone()
        } else {
            words::explained(reason, &server.stderr, server.stdout.as_deref())
        }
    });
    let text = match &reason {
        Some(reason) if is_under_way(server) && attempt > 0 => {
            format!(
                "{}; attempt {attempt} is under way",
                output::one_line(reason)
            )
        }
        Some(reason) => output::trouble(reason, attempt, next_retry),
        None => match &*server.status {
            "connecting" => "the first attempt is under way".to_owned(),
            "reconnecting" => "its operator wants a new session".to_owned(),
            "stopping" => "its operator stops it".to_owned(),
            _ if server.health_status.as_deref() == Some("degraded") => "it is degraded".to_owned(),
            _ => return None,
        },
    };
    Some(
        match server.next_step.as_ref().filter(|_| reason.is_some()) {
            Some(step) => format!("{text}; {step}"),
            None => text,
        },
    )
}

/// The reason that a server is down, or its status if nothing is wrong.
pub fn detail(server: &Server) -> String {
    let name = &server.name;
    if !server.enabled {
        return format!("enable it by \"mainstay enable {name}\"");
    }
    trouble(server)
        .or_else(|| server.open_question.as_ref().map(open_question))
        .or_else(|| {
            let uptime = Duration::from_millis(server.uptime_ms?);
            let mut up = format!("up {}", output::span(uptime));
            if let Some(advice) = &server.advice {
                up = format!("{up}; {}", output::one_line(advice));
            }
            Some(match &server.unmatched_tools[..] {
                [] => up,
                [line] => format!("{up}; {}", output::one_line(line)),
                [line, more @ ..] => {
                    format!("{up}; {} and {} more", output::one_line(line), more.len())
                }
            })
        })
        .unwrap_or_else(|| match (server.wanted, server.auto_start) {
            (true, _) => server.status.clone(),
            (false, true) => format!("stopped; start it by \"mainstay start {name}\""),
            (false, false) => {
                format!("not started by itself; start it by \"mainstay start {name}\"")
            }
        })
}

/// A server's question, the client that is asked, and the time.
fn open_question(question: &OpenQuestion) -> String {
    let OpenQuestion {
        method, asked_at, ..
    } = question;
    let asked_at = time::local(asked_at);
    let client = if question.by_hand {
        "you; see \"mainstay requests\"".to_owned()
    } else {
        waiting_client(question)
    };
    let more = match question.count.unwrap_or(1).saturating_sub(1) {
        0 => String::new(),
        more => format!(" ({more} more)"),
    };
    format!(
        "waits since {asked_at} for an answer to {}{more} by {client}",
        output::one_line(method)
    )
}

/// The client that is asked.
pub fn waiting_client(question: &OpenQuestion) -> String {
    let name = question.client.as_deref().unwrap_or("a client");
    let name = output::one_line(name);
    match &question.principal {
        Some(principal) => format!("{name} ({principal})"),
        None => name.into_owned(),
    }
}

/// True if the server is being connected, and does not wait for that.
fn is_under_way(server: &Server) -> bool {
    server.status == "reconnecting" && server.next_retry_ms.is_none()
}

#[cfg(test)]
mod tests {
    use mainstay_core::lifecycle::SessionState;
    use serde_json::json;

    use super::*;

    fn server(status: &str) -> Server {
        let view = json!({
            "name": "fs", "transport": "stdio", "enabled": true, "autoStart": true, "wanted": true,
            "status": status, "connected": status == "connected", "crashCount": 0, "callsInFlight": 0,
            "toolsReady": true, "listsStale": false, "toolCount": 0, "resourceCount": 0, "promptCount": 0,
        });
        serde_json::from_value(view).expect("a server")
    }

    fn lost(status: &str, next_retry_ms: Option<u64>) -> Server {
        Server {
            last_error: Some("the server ended the session".to_owned()),
            reconnect_attempt: Some(1),
            next_retry_ms,
            ..server(status)
        }
    }

    #[test]
    fn a_server_that_is_not_connected_says_why() {
        for (server, expected) in [
            (
                lost("reconnecting", Some(1000)),
                "the server ended the session; attempt 1 in 1.0 s",
            ),
            (
                lost("reconnecting", None),
                "the server ended the session; attempt 1 is under way",
            ),
            (
                Server {
                    next_step: Some("try again by \"mainstay start fs\"".to_owned()),
                    ..lost("failed", None)
                },
                "the server ended the session; try again by \"mainstay start fs\"",
            ),
            (
                Server {
                    stderr: vec!["no licence".to_owned(), "Node.js v22".to_owned()],
                    next_step: Some("see \"mainstay logs fs\"".to_owned()),
                    ..lost("reconnecting", Some(1000))
                },
                "the server ended the session: no licence; attempt 1 in 1.0 s; see \"mainstay logs fs\"",
            ),
            (server("connecting"), "the first attempt is under way"),
            (server("reconnecting"), "its operator wants a new session"),
            (server("stopping"), "its operator stops it"),
        ] {
            assert_eq!(
                trouble(&server).as_deref(),
                Some(expected),
                "{}",
                server.status
            );
        }
        let starting = |server| Server {
            starting: Some("at work for 40 s, given up after 600 s: Downloading".to_owned()),
            ..server
        };
        for (server, expected) in [
            (
                server("connecting"),
                "starting: at work for 40 s, given up after 600 s: Downloading",
            ),
            (
                lost("reconnecting", None),
                "starting: at work for 40 s, given up after 600 s: Downloading (attempt 1, after: the server ended the session)",
            ),
            (
                Server {
                    stderr: vec!["no licence".to_owned()],
                    ..lost("reconnecting", None)
                },
                "starting: at work for 40 s, given up after 600 s: Downloading (attempt 1, after: the server ended the session: no licence)",
            ),
        ] {
            assert_eq!(trouble(&starting(server)).as_deref(), Some(expected));
        }
        let degraded = Server {
            health_status: Some("degraded".to_owned()),
            ..server("connected")
        };
        assert_eq!(trouble(&degraded).as_deref(), Some("it is degraded"));
        let spared = Server {
            connected: true,
            uptime_ms: Some(4000),
            advice: Some("set this".to_owned()),
            ..server("connected")
        };
        assert_eq!(detail(&spared), "up 4.0 s; set this");
        let disabled = Server {
            enabled: false,
            ..server("disconnected")
        };
        assert_eq!(word(&disabled), "disabled");
        assert_eq!(detail(&disabled), "enable it by \"mainstay enable fs\"");
        for server in [server("connected"), server("disconnected"), disabled] {
            assert_eq!(trouble(&server), None, "{}", server.status);
        }
    }

    #[test]
    fn a_server_that_waits_for_an_answer_says_whose() {
        let question = OpenQuestion {
            server: "fs".to_owned(),
            method: "elicitation/create".to_owned(),
            asked_at: "then".to_owned(),
            by_hand: false,
            client: Some("inspector".to_owned()),
            principal: Some("client:ada".to_owned()),
            count: Some(3),
        };
        let waiting = |open_question| Server {
            open_question: Some(open_question),
            ..server("connected")
        };
        let by_hand = OpenQuestion {
            by_hand: true,
            count: Some(1),
            ..question.clone()
        };
        assert_eq!(
            detail(&waiting(question)),
            "waits since then for an answer to elicitation/create (2 more) by inspector (client:ada)"
        );
        assert_eq!(
            detail(&waiting(by_hand)),
            "waits since then for an answer to elicitation/create by you; see \"mainstay requests\""
        );
    }

    #[test]
    fn a_detail_is_never_empty() {
        for state in SessionState::ALL {
            let server = server(state.as_str());
            assert!(!detail(&server).is_empty(), "{state}");
            let stopped = Server {
                wanted: false,
                ..server
            };
            assert!(!detail(&stopped).is_empty(), "{state}");
        }
        let up = Server {
            uptime_ms: Some(1000),
            ..server("connected")
        };
        assert_eq!(detail(&up), "up 1.0 s");
        let unmatched = Server {
            unmatched_tools: ["a", "b", "c"].map(str::to_owned).to_vec(),
            ..up
        };
        assert_eq!(detail(&unmatched), "up 1.0 s; a and 2 more");
        let stopped = Server {
            wanted: false,
            ..server("disconnected")
        };
        assert_eq!(
            detail(&stopped),
            "stopped; start it by \"mainstay start fs\""
        );
    }
}
