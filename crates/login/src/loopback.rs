//! Receives the browser of a login at a separate port, if the client's registration names one.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    sync::Arc,
    time::Duration,
};

pub use oauth2::url::Url;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    task::JoinSet,
    time::timeout,
};

use crate::{
    flow::{Arrival, LOGIN_LIMIT},
    landing::{PAGE_HEADERS, landing_page},
    logins::Logins,
};

/// The path of the redirect URL. Claude Code uses the same path.
const PATH: &str = "/callback";

/// Maximum length of a request's head, in bytes.
const MAX_HEAD: usize = 16 * 1024;

/// Maximum number of connections at the same time. Further connections are closed.
const MAX_REQUESTS: usize = 32;

/// Time limit for a request of the browser. It includes the request for the tokens.
const REQUEST_LIMIT: Duration = Duration::from_secs(35);

/// A port at which Mainstay cannot listen.
#[derive(Debug, thiserror::Error)]
#[error(
    "port {port} (`oauth.callbackPort`), to which the browser comes back, cannot be used: {source}"
)]
pub struct PortTaken {
    port: u16,
    source: io::Error,
}

/// Listens at a port of the loopback addresses until the browser has arrived, for ten minutes at most. Returns
/// the redirect URL.
pub fn listen(logins: &Arc<Logins>, port: u16) -> Result<Url, PortTaken> {
    let url = Url::parse(&format!("http://localhost:{port}{PATH}")).expect("a valid URL");
    if logins.is_listening(port) {
        return Ok(url);
    }
    let port_taken = |source| PortTaken { port, source };
    let listener = bind((Ipv4Addr::LOCALHOST, port).into()).map_err(port_taken)?;
    // `localhost` may be either address. A machine without IPv6 has only the first one.
    let other_listener = bind((Ipv6Addr::LOCALHOST, port).into()).ok();
    logins.listen(port, async move |logins: Arc<Logins>| {
        let serving = serve(&logins, port, listener, other_listener);
        // A timeout needs no handling, because the login ends at the same time.
        let _ = timeout(LOGIN_LIMIT, serving).await;
    });
    Ok(url)
}

fn bind(address: SocketAddr) -> io::Result<tokio::net::TcpListener> {
    let listener = TcpListener::bind(address)?;
    listener.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(listener)
}

/// Answers requests until one of them completes a login.
async fn serve(
    logins: &Arc<Logins>,
    port: u16,
    listener: tokio::net::TcpListener,
    other_listener: Option<tokio::net::TcpListener>,
) {
    // Serve connections concurrently, because browsers open connections in advance.
    let mut requests = JoinSet::new();
    loop {
        let accept_other = async {
            match &other_listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        let stream = tokio::select! {
            accepted = listener.accept() => accepted,
            accepted = accept_other => accepted,
            Some(answered) = requests.join_next() => {
                if matches!(answered, Ok(Ok(true))) {
                    return;
                }
                continue;
            }
        };
        let Ok((mut stream, _)) = stream else {
            // Accepting fails if too many files are open, for example. Try again later.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        if requests.len() < MAX_REQUESTS {
            let logins = Arc::clone(logins);
            let answer = async move { respond(&logins, port, &mut stream).await };
            requests.spawn(timeout(REQUEST_LIMIT, answer));
        }
    }
}

/// Answers one request. Returns `true` if the request has completed a login.
async fn respond(logins: &Logins, port: u16, stream: &mut TcpStream) -> bool {
    let Some(target) = request_target(stream).await else {
        return false;
    };
    let (path, query) = target.split_once('?').unwrap_or((&target, ""));
    let (status, body) = if path == PATH {
        let arrival = Arrival::Browser {
            path,
            port: Some(port),
        };
        let outcome = logins.complete_query(query, arrival).await;
        let status = match &outcome {
            Ok(_) => "200 OK",
            Err(_) => "400 Bad Request",
        };
        (status, landing_page(&outcome))
    } else {
        ("404 Not Found", String::new())
    };
    let mut response = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    );
    for (name, value) in PAGE_HEADERS {
        response.extend([name, ": ", value, "\r\n"]);
    }
    response.push_str("\r\n");
    response.push_str(&body);
    // The browser may have closed the connection.
    let _ = stream.write_all(response.as_bytes()).await;
    let _ = stream.shutdown().await;
    status.starts_with("200")
}

/// Reads the target of a GET request. `None` for any other request.
async fn request_target(stream: &mut TcpStream) -> Option<String> {
    let mut head = Vec::new();
    let mut piece = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        let length = stream.read(&mut piece).await.ok()?;
        head.extend_from_slice(&piece[..length]);
        if length == 0 || head.len() > MAX_HEAD {
            return None;
        }
    }
    let line = String::from_utf8(head).ok()?;
    let mut words = line.lines().next()?.split(' ');
    (words.next() == Some("GET")).then_some(())?;
    words.next().map(str::to_owned)
}
