//! Tests of the gate in front of an echo server.

use std::io::ErrorKind;
use std::time::Duration;

use fake_server::gate::{Gate, GateMode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::common::within;

/// Time after which a missing echo counts as silence.
const SILENCE: Duration = Duration::from_millis(100);

async fn open() -> Gate {
    let backend = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let address = backend.local_addr().expect("bound");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = backend.accept().await {
            tokio::spawn(async move {
                let (mut input, mut output) = stream.split();
                // The connection may end with an error.
                drop(tokio::io::copy(&mut input, &mut output).await);
            });
        }
    });
    Gate::open(address).expect("opens")
}

async fn connect(gate: &Gate) -> std::io::Result<TcpStream> {
    TcpStream::connect(gate.address()).await
}

async fn send(stream: &mut TcpStream) {
    stream.write_all(b"x").await.expect("sent");
}

async fn receive(stream: &mut TcpStream) -> std::io::Result<u8> {
    stream.read_u8().await
}

async fn echo(stream: &mut TcpStream) {
    send(stream).await;
    receive(stream).await.expect("an echo");
}

async fn is_silent(stream: &mut TcpStream) -> bool {
    timeout(SILENCE, receive(stream)).await.is_err()
}

#[tokio::test]
async fn a_closed_port_refuses_and_opens_again() {
    within(async {
        let gate = open().await;
        let mut early_stream = connect(&gate).await.expect("open");
        echo(&mut early_stream).await;
        for _ in 0..20 {
            gate.set(GateMode::Closed).await.expect("closed");
            let refusal_kind = connect(&gate).await.expect_err("closed").kind();
            assert_eq!(refusal_kind, ErrorKind::ConnectionRefused);
            gate.set(GateMode::Forward).await.expect("open again");
            echo(&mut connect(&gate).await.expect("open")).await;
        }
        echo(&mut early_stream).await;
        assert_eq!(gate.attempts().len(), 21);
        assert_eq!(gate.most_attempts_within(Duration::from_secs(60)), 21);
        assert_eq!(gate.most_attempts_within(Duration::ZERO), 0);
        gate.stop().await;
        let break_kind = receive(&mut early_stream).await.expect_err("reset").kind();
        assert_eq!(break_kind, ErrorKind::ConnectionReset);
    })
    .await;
}

#[tokio::test]
async fn silence_ends_where_it_began() {
    within(async {
        let gate = open().await;
        let mut old_stream = connect(&gate).await.expect("open");
        echo(&mut old_stream).await;
        gate.set(GateMode::Silent).await.expect("silent");
        let mut new_stream = connect(&gate).await.expect("accepted all the same");
        for stream in [&mut old_stream, &mut new_stream] {
            send(stream).await;
            assert!(is_silent(stream).await);
        }
        gate.set(GateMode::Forward).await.expect("open again");
        for stream in [&mut old_stream, &mut new_stream] {
            receive(stream).await.expect("what was held up");
        }
    })
    .await;
}

#[tokio::test]
async fn stranded_connections_stay_so_and_reset_ones_break() {
    within(async {
        let gate = open().await;
        let mut old_stream = connect(&gate).await.expect("open");
        echo(&mut old_stream).await;
        gate.strand();
        let mut new_stream = connect(&gate).await.expect("open");
        echo(&mut new_stream).await;
        send(&mut old_stream).await;
        assert!(is_silent(&mut old_stream).await);

        gate.reset();
        for stream in [&mut old_stream, &mut new_stream] {
            let break_kind = receive(stream).await.expect_err("reset").kind();
            assert_eq!(break_kind, ErrorKind::ConnectionReset);
        }
        echo(&mut connect(&gate).await.expect("open")).await;

        gate.set(GateMode::Reset).await.expect("resets");
        let mut refused_stream = connect(&gate).await.expect("accepted for a moment");
        assert!(receive(&mut refused_stream).await.is_err());
        assert_eq!(gate.attempts().len(), 4);
    })
    .await;
}
