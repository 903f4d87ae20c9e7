//! A connection that the server has switched to another protocol (RFC 9110, 7.8).

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Head, Response, connection::Connection};

/// The bytes of a connection after `101 Switching Protocols`. The connection never returns to the pool.
#[derive(Debug)]
pub struct Upgraded(Connection);

/// The answer to a request to switch protocols.
#[derive(Debug)]
pub enum Switched {
    /// The server has switched. The head names the protocol.
    Upgraded(Head, Upgraded),
    /// The server refuses to switch and answers by HTTP.
    Refused(Response),
}

impl Switched {
    /// Interprets the response to a request to switch protocols.
    pub(super) fn new(mut response: Response) -> Self {
        match response.connection.take() {
            Some(connection) if response.head.status == 101 => {
                Self::Upgraded(response.head, Upgraded(connection))
            }
            connection => {
                response.connection = connection;
                Self::Refused(response)
            }
        }
    }
}

impl AsyncRead for Upgraded {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = &mut self.get_mut().0;
        // The bytes that arrived together with the head come first, before new bytes.
        if connection.buffer.is_empty() && ready!(connection.poll_read(context))? == 0 {
            return Poll::Ready(Ok(()));
        }
        let length = connection.buffer.len().min(into.remaining());
        into.put_slice(&connection.buffer.split_to(length));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Upgraded {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().0.poll_write(context, data)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().0.poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.get_mut().0.poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpListener,
        time::timeout,
    };

    use super::{super::HttpClient, *};

    const LIMIT: Duration = Duration::from_secs(10);

    /// Sends a request to switch protocols to a server that answers with `answer`. The server then echoes all
    /// bytes.
    async fn ask(answer: &'static str) -> Switched {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut request = [0; 1024];
            let read = stream.read(&mut request).await.expect("a request");
            assert!(request[..read].ends_with(b"\r\n\r\n"));
            stream.write_all(answer.as_bytes()).await.expect("open");
            let (mut reader, mut writer) = stream.split();
            tokio::io::copy(&mut reader, &mut writer)
                .await
                .expect("open");
        });
        let uri = format!("http://{address}/").parse().expect("a URI");
        let client = HttpClient::new(&uri).expect("usable");
        let request =
            b"GET / HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\n".to_vec();
        let switched = timeout(LIMIT, client.upgrade(request)).await;
        switched.expect("in time").expect("an answer")
    }

    #[tokio::test]
    async fn a_connection_is_handed_over_with_what_came_after_the_head() {
        let answer = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: echo\r\n\r\nearly ";
        let Switched::Upgraded(head, mut upgraded) = ask(answer).await else {
            panic!("it was refused");
        };
        assert_eq!((head.status, head.get("upgrade")), (101, Some("echo")));
        upgraded.write_all(b"and late").await.expect("open");
        upgraded.shutdown().await.expect("open");
        let mut echoed = String::new();
        let reading = upgraded.read_to_string(&mut echoed);
        timeout(LIMIT, reading)
            .await
            .expect("in time")
            .expect("an end");
        assert_eq!(echoed, "early and late");
    }

    #[tokio::test]
    async fn a_refusal_is_an_ordinary_response() {
        let Switched::Refused(mut response) =
            ask("HTTP/1.1 426 Upgrade Required\r\ncontent-length: 2\r\n\r\nno").await
        else {
            panic!("it was not refused");
        };
        assert_eq!(response.head.status, 426);
        let body = response.data().await.expect("a body").expect("readable");
        assert_eq!(&body[..], b"no");
    }
}
