//! Opens a session with a server, over the transport and in the era that the server speaks.

use mainstay_core::{
    config::{HttpLaunch, HttpTransport, Launch},
    era::Era,
    lifecycle::Loss,
    message,
    proxy::{self, ChosenProxy, Place},
};
use mainstay_platform::{environment, lineage::Lineage};
use tracing::Instrument as _;

use crate::{
    Approach, Opening, RunningConnection, Unopened, UpstreamSession,
    detect::POST_LIMIT,
    http_sse::sse,
    modern::modern_http::{self, NotModern},
    process::{self, stdio},
    streamable::streamable_http,
};

/// The maximum length, in bytes, of a server's reason for refusing a session. The reason appears in the
/// server's status, in events and in its log.
const MAX_REFUSAL: usize = 1024;

/// Opens a connection and performs the handshake, in the era that the server speaks. Returns an error only
/// after everything that the attempt started has ended.
pub async fn open(opening: Opening) -> Result<(UpstreamSession, RunningConnection), Unopened> {
    let span = opening.span();
    let over = opening.stop.over.clone().drop_guard();
    let (session, running) = open_by(&opening)
        .instrument(span)
        .await
        .map_err(|unopened| match unopened.loss {
            Loss::Rejected(reason) => Unopened {
                loss: Loss::Rejected(message::shortened(reason, MAX_REFUSAL)),
                ..unopened
            },
            _ => unopened,
        })
        .map_err(|unopened| match forwarding_proxy(&opening.launch) {
            Some(proxy) => Unopened {
                loss: with_proxy(unopened.loss, &proxy),
                ..unopened
            },
            None => unopened,
        })?;
    let running = async move {
        let _over = over;
        running.await
    };
    Ok((session, Box::pin(running)))
}

/// Returns the proxy that forwards unencrypted requests to the server. Such a proxy may have answered in the
/// server's place. `None` for other servers.
fn forwarding_proxy(launch: &Launch) -> Option<ChosenProxy> {
    let launch = match launch {
        Launch::Http(launch) => launch,
        Launch::Stdio(_) | Launch::Broken(_) | Launch::Unapproved => return None,
    };
    let place = Place::from_url(&launch.url).filter(|place| !place.is_encrypted)?;
    let variables = environment::proxy_variables();
    proxy::choose(&launch.network.proxy, variables, place).ok()?
}

/// Adds the name of the proxy to the text of the loss, unless the text contains it already.
fn with_proxy(loss: Loss, proxy: &ChosenProxy) -> Loss {
    let name = proxy.to_string();
    loss.reworded(|reason| {
        if reason.contains(&name) {
            reason
        } else {
            format!("{reason} (through {name})")
        }
    })
}

async fn open_by(opening: &Opening) -> Result<(UpstreamSession, RunningConnection), Unopened> {
    match &opening.launch {
        Launch::Stdio(launch) => stdio::open(opening, launch).await,
        Launch::Http(launch) => open_http(opening, launch).await,
        Launch::Broken(broken) => Err(Loss::Misconfigured(broken.problem.to_string()).into()),
        // An unapproved server is always disabled, and a supervisor does not open disabled servers.
        Launch::Unapproved => {
            Err(Loss::Misconfigured("nobody has approved it yet".to_owned()).into())
        }
    }
}

async fn open_http(
    opening: &Opening,
    launch: &HttpLaunch,
) -> Result<(UpstreamSession, RunningConnection), Unopened> {
    // HTTP+SSE is legacy only.
    if launch.transport == HttpTransport::Sse {
        return open_legacy(opening, launch).await;
    }
    match opening.approach {
        Approach::Legacy => open_legacy(opening, launch).await,
        Approach::Modern => Ok(modern_http::open(opening, launch, None).await?),
        Approach::Detect(Some(Era::Legacy)) => match open_legacy(opening, launch).await {
            // The server may have changed its era, so try the other one.
            Err(
                refused @ Unopened {
                    loss: Loss::Rejected(_),
                    ..
                },
            ) => modern_http::open(opening, launch, Some(POST_LIMIT))
                .await
                .map_err(|_| refused),
            other => other,
        },
        Approach::Detect(era) => {
            let limit = era.is_none().then_some(POST_LIMIT);
            match modern_http::open(opening, launch, limit).await {
                Ok(opened) => Ok(opened),
                Err(NotModern::Refused(unopened)) => Err(unopened),
                Err(NotModern::Legacy(eras)) => {
                    let (mut session, running) = open_legacy(opening, launch).await?;
                    session.eras = session.eras.or(eras);
                    session.is_probed = true;
                    Ok((session, running))
                }
                // The reply to `server/discover` does not tell the era: `initialize` may succeed.
                Err(NotModern::Unclear(loss)) => {
                    let opened = open_legacy(opening, launch).await;
                    opened.map_err(|unopened| match unopened.loss {
                        Loss::Rejected(_) => loss.into(),
                        _ => unopened,
                    })
                }
            }
        }
    }
}

/// Opens a session with `initialize`.
async fn open_legacy(
    opening: &Opening,
    launch: &HttpLaunch,
) -> Result<(UpstreamSession, RunningConnection), Unopened> {
    match launch.transport {
        HttpTransport::StreamableHttp => Ok(streamable_http::open(opening, launch).await?),
        HttpTransport::Sse => Ok(sse::open(opening, launch).await?),
        // Streamable HTTP first. A server that refuses its first request may speak the older transport.
        HttpTransport::Detect => match streamable_http::open(opening, launch).await {
            Err(streamable_http::NotOpened::NotSpoken(refusal)) => {
                let opened = sse::open(opening, launch).await;
                opened.map_err(|loss| match loss {
                    // The server gave a reason, so it understood the request: the URL is right. Report this
                    // refusal, not the failure of HTTP+SSE.
                    Loss::ConnectFailed(_) if refusal.has_reason && refusal.is_about_request() => {
                        streamable_http::NotOpened::NotSpoken(refusal).into()
                    }
                    Loss::ConnectFailed(sse) => Unopened {
                        loss: Loss::ConnectFailed(refusal.with_older_transport(&sse)),
                        ..streamable_http::NotOpened::NotSpoken(refusal).into()
                    },
                    other => other.into(),
                })
            }
            other => Ok(other?),
        },
    }
}

/// Kills all processes of all servers at once. Used when there is no time for an orderly stop.
pub async fn kill_all(lineage: &Lineage) {
    process::end_marked(&lineage.marks_of_all()).await;
}

#[cfg(test)]
mod tests {
    use mainstay_core::config::{NetworkSettings, ProxyChoice, Secret};

    use super::*;

    #[test]
    fn a_loss_names_the_proxy_that_may_have_answered() {
        let launch = |url: &str| {
            Launch::Http(HttpLaunch {
                url: url.to_owned(),
                network: NetworkSettings {
                    proxy: ProxyChoice::Through(Secret::new("http://me:hunter2@proxy:3128")),
                    ..NetworkSettings::default()
                },
                ..HttpLaunch::default()
            })
        };
        // A tunnel carries only the server's answers, so the proxy is not named.
        assert_eq!(forwarding_proxy(&launch("https://server.test/mcp")), None);
        let proxy = forwarding_proxy(&launch("http://server.test/mcp")).expect("a proxy");
        let loss = with_proxy(Loss::ConnectFailed("HTTP 502".to_owned()), &proxy);
        let expected = "HTTP 502 (through the proxy http://proxy:3128)".to_owned();
        assert_eq!(loss, Loss::ConnectFailed(expected));
        assert_eq!(with_proxy(loss.clone(), &proxy), loss);
    }
}
