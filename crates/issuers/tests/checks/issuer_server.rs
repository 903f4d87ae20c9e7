//! An authorization server at a real socket. A test says what each path answers, and reads what was asked.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    task::JoinSet,
};

/// The answer of a path.
#[derive(Clone, Debug)]
pub enum Reply {
    Answer {
        status: u16,
        /// Header lines.
        headers: String,
        body: String,
    },
    /// No answer, and an open connection.
    Silence,
    /// The connection is closed.
    Close,
}

impl Reply {
    pub fn json(body: impl ToString) -> Self {
        Self::answer(200, "content-type: application/json\r\n", body)
    }

    #[expect(
        clippy::needless_pass_by_value,
        reason = "tests give texts and values alike"
    )]
    pub fn answer(status: u16, headers: &str, body: impl ToString) -> Self {
        Self::Answer {
            status,
            headers: headers.to_owned(),
            body: body.to_string(),
        }
    }
}

/// A request that the server has read.
#[derive(Clone, Debug)]
pub struct ReceivedRequest {
    pub path: String,
    pub head: String,
    pub body: String,
}

type Handler = Arc<dyn Fn(&ReceivedRequest) -> Reply + Send + Sync>;

#[derive(Clone)]
pub struct IssuerServer {
    pub url: String,
    shared: Arc<Served>,
    /// Aborted with the last clone.
    _tasks: Arc<JoinSet<()>>,
}

#[derive(Default)]
struct Served {
    handlers: Mutex<HashMap<String, Handler>>,
    requests: Mutex<Vec<ReceivedRequest>>,
}

impl IssuerServer {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::new(Served::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Self {
            url: format!("http://{address}"),
            shared,
            _tasks: Arc::new(tasks),
        }
    }

    /// Sets the answer of a path. Other paths answer 404.
    pub fn set(&self, path: &str, reply: Reply) {
        self.handle(path, move |_| reply.clone());
    }

    pub fn handle(
        &self,
        path: &str,
        handler: impl Fn(&ReceivedRequest) -> Reply + Send + Sync + 'static,
    ) {
        let mut handlers = self.shared.handlers.lock().expect("not poisoned");
        handlers.insert(path.to_owned(), Arc::new(handler));
    }

    pub fn requests(&self) -> Vec<ReceivedRequest> {
        self.shared.requests.lock().expect("not poisoned").clone()
    }

    /// Requests to one path.
    pub fn count(&self, path: &str) -> usize {
        self.requests()
            .iter()
            .filter(|request| request.path == path)
            .count()
    }
}

async fn accept(listener: TcpListener, shared: Arc<Served>) {
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one request.
async fn serve(mut stream: TcpStream, shared: Arc<Served>) {
    let Some(request) = read_request(&mut stream).await else {
        return;
    };
    let handler = {
        let handlers = shared.handlers.lock().expect("not poisoned");
        handlers.get(&request.path).cloned()
    };
    shared
        .requests
        .lock()
        .expect("not poisoned")
        .push(request.clone());
    let reply = handler.map_or_else(|| Reply::answer(404, "", ""), |handler| handler(&request));
    match reply {
        Reply::Answer {
            status,
            headers,
            body,
        } => {
            let length = body.len();
            let head = format!(
                "HTTP/1.1 {status} x\r\n{headers}content-length: {length}\r\nconnection: close\r\n\r\n"
            );
            // The client may have enough of a large answer.
            let _ = stream.write_all(head.as_bytes()).await;
            let _ = stream.write_all(body.as_bytes()).await;
        }
        Reply::Silence => {
            // Until the client closes.
            let _ = stream.read(&mut [0]).await;
        }
        Reply::Close => {}
    }
}

async fn read_request(stream: &mut TcpStream) -> Option<ReceivedRequest> {
    let mut bytes = Vec::new();
    loop {
        let mut chunk = [0; 4096];
        let count = stream.read(&mut chunk).await.ok()?;
        bytes.extend_from_slice(&chunk[..count]);
        let text = String::from_utf8_lossy(&bytes);
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                let is_length = name.eq_ignore_ascii_case("content-length");
                is_length.then(|| value.trim().parse::<usize>().ok())?
            });
            if body.len() >= length.unwrap_or_default() {
                let path = head.split(' ').nth(1)?.to_owned();
                return Some(ReceivedRequest {
                    path,
                    head: head.to_owned(),
                    body: body.to_owned(),
                });
            }
        }
        if count == 0 {
            return None;
        }
    }
}
