//! A TCP gate between a gateway and a backend. It forwards a port, and can close it, reset
//! connections, or stop forwarding. It counts connection attempts.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

/// Size of the accept queue.
const BACKLOG: u32 = 4096;

/// Time limit for binding the port, which the kernel may still hold.
const BIND_LIMIT: Duration = Duration::from_secs(5);
const BIND_PAUSE: Duration = Duration::from_millis(5);

/// The treatment of new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GateMode {
    Forward,
    /// Accepts connections, but forwards no bytes until the mode changes. Also applies to open
    /// connections.
    Silent,
    /// Closes the port. Open connections continue.
    Closed,
    /// Resets new and open connections. The refusals are counted.
    Reset,
}

/// Orders for all connections, which are numbered in order of arrival.
#[derive(Debug, Clone, Copy)]
struct Orders {
    mode: GateMode,
    /// Connections below this number are reset.
    reset_below: u64,
    /// Connections below this number stay half-open.
    stranded_below: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Move,
    Rest,
    Reset,
}

impl Orders {
    fn fate(self, connection: u64) -> Fate {
        if connection < self.reset_below || self.mode == GateMode::Reset {
            Fate::Reset
        } else if connection < self.stranded_below || self.mode == GateMode::Silent {
            Fate::Rest
        } else {
            Fate::Move
        }
    }
}

/// A running gate. Dropping it closes it without waiting.
#[derive(Debug)]
pub struct Gate {
    address: SocketAddr,
    orders: watch::Sender<Orders>,
    attempts: Arc<Attempts>,
    commands: mpsc::UnboundedSender<Command>,
    keeper: Option<JoinHandle<()>>,
}

/// The lock is held only for a push or a copy.
type Attempts = Mutex<Vec<Attempt>>;

#[derive(Debug, Clone, Copy)]
struct Attempt {
    at: Instant,
    /// True if the gate has reset the connection.
    refused: bool,
}

/// Returns the largest number of these ordered times within any span of this length.
pub fn most_within(times: &[Instant], span: Duration) -> usize {
    let count = |(first, start): (usize, &Instant)| {
        times[first..].partition_point(|time| time.duration_since(*start) < span)
    };
    times
        .iter()
        .enumerate()
        .map(count)
        .max()
        .unwrap_or_default()
}

#[derive(Debug)]
enum Command {
    Mode(GateMode, oneshot::Sender<io::Result<()>>),
    Stop,
}

enum Event {
    Came(io::Result<TcpStream>),
    Commanded(Option<Command>),
    Left,
}

impl Gate {
    /// Forwards a free loopback port to `backend`, which may start later. Must be called in a
    /// runtime.
    pub fn open(backend: SocketAddr) -> io::Result<Self> {
        let listener = listen(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
        let address = listener.local_addr()?;
        let orders = watch::Sender::new(Orders {
            mode: GateMode::Forward,
            reset_below: 0,
            stranded_below: 0,
        });
        let attempts = Arc::<Attempts>::default();
        let (commands, inbox) = mpsc::unbounded_channel();
        let gate_keeper = Keeper {
            address,
            backend,
            listener: Some(listener),
            orders: orders.clone(),
            attempts: Arc::clone(&attempts),
            connections: JoinSet::new(),
        };
        Ok(Self {
            address,
            orders,
            attempts,
            commands,
            keeper: Some(tokio::spawn(gate_keeper.run(inbox))),
        })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the mode for new connections. The mode applies when this returns. After `Closed`, the
    /// same port is reopened.
    pub async fn set(&self, mode: GateMode) -> io::Result<()> {
        let (done_sender, outcome) = oneshot::channel();
        let stopped_error = || io::Error::other("the gate has stopped");
        self.commands
            .send(Command::Mode(mode, done_sender))
            .map_err(|_| stopped_error())?;
        outcome.await.map_err(|_| stopped_error())?
    }

    /// Resets (RST) every open connection.
    pub fn reset(&self) {
        let next_number = self.next();
        self.orders
            .send_modify(|orders| orders.reset_below = next_number);
    }

    /// Makes every open connection half-open permanently, as after a system sleep or a NAT timeout.
    /// New connections work.
    pub fn strand(&self) {
        let next_number = self.next();
        self.orders
            .send_modify(|orders| orders.stranded_below = next_number);
    }

    fn next(&self) -> u64 {
        self.attempts.lock().len() as u64
    }

    /// Returns the times of accepted connections.
    pub fn attempts(&self) -> Vec<Instant> {
        self.attempts
            .lock()
            .iter()
            .map(|attempt| attempt.at)
            .collect()
    }

    /// Returns the times of reset connections ([`GateMode::Reset`]).
    pub fn refusals(&self) -> Vec<Instant> {
        let attempts = self.attempts.lock();
        let refused_attempts = attempts.iter().filter(|attempt| attempt.refused);
        refused_attempts.map(|attempt| attempt.at).collect()
    }

    /// Returns the largest number of attempts within any span of this length.
    pub fn most_attempts_within(&self, span: Duration) -> usize {
        most_within(&self.attempts(), span)
    }

    /// Closes the port and resets open connections.
    pub async fn stop(mut self) {
        // If the task has ended, nobody receives the command. A panic is reported below.
        let _ = self.commands.send(Command::Stop);
        if let Some(gate_keeper) = self.keeper.take()
            && let Err(error) = gate_keeper.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
}

/// The task that owns the listener and the connections.
struct Keeper {
    address: SocketAddr,
    backend: SocketAddr,
    listener: Option<TcpListener>,
    orders: watch::Sender<Orders>,
    attempts: Arc<Attempts>,
    connections: JoinSet<()>,
}

impl Keeper {
    async fn run(mut self, mut inbox: mpsc::UnboundedReceiver<Command>) {
        loop {
            let event = tokio::select! {
                stream = accept(self.listener.as_ref()) => Event::Came(stream),
                command = inbox.recv() => Event::Commanded(command),
                Some(_) = self.connections.join_next() => Event::Left,
            };
            match event {
                Event::Came(Ok(stream)) => self.admit(stream),
                // The peer has gone. Other errors do not occur on loopback.
                Event::Came(Err(_)) | Event::Left => {}
                Event::Commanded(Some(Command::Mode(mode, done))) => {
                    // The caller may have stopped waiting.
                    let _ = done.send(self.turn(mode).await);
                }
                Event::Commanded(Some(Command::Stop) | None) => {
                    self.orders
                        .send_modify(|orders| orders.reset_below = u64::MAX);
                    drop(self.listener);
                    while self.connections.join_next().await.is_some() {}
                    return;
                }
            }
        }
    }

    fn admit(&mut self, stream: TcpStream) {
        let number = {
            let is_refused = self.orders.borrow().mode == GateMode::Reset;
            let mut attempts = self.attempts.lock();
            attempts.push(Attempt {
                at: Instant::now(),
                refused: is_refused,
            });
            attempts.len() as u64 - 1
        };
        let orders = self.orders.subscribe();
        self.connections
            .spawn(connection(number, stream, self.backend, orders));
    }

    async fn turn(&mut self, mode: GateMode) -> io::Result<()> {
        if mode == GateMode::Closed {
            self.listener = None;
        } else if self.listener.is_none() {
            self.listener = Some(listen_again(self.address).await?);
        }
        self.orders.send_modify(|orders| orders.mode = mode);
        Ok(())
    }
}

async fn accept(listener: Option<&TcpListener>) -> io::Result<TcpStream> {
    match listener {
        Some(listener) => Ok(listener.accept().await?.0),
        None => std::future::pending().await,
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = TcpSocket::new_v4()?;
    // The port may have lingering connections.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

async fn listen_again(address: SocketAddr) -> io::Result<TcpListener> {
    let start = Instant::now();
    loop {
        match listen(address) {
            Err(error)
                if error.kind() == io::ErrorKind::AddrInUse && start.elapsed() < BIND_LIMIT =>
            {
                tokio::time::sleep(BIND_PAUSE).await;
            }
            outcome => return outcome,
        }
    }
}

/// Forwards bytes both ways as the orders allow.
async fn connection(
    number: u64,
    client: TcpStream,
    backend: SocketAddr,
    mut orders: watch::Receiver<Orders>,
) {
    let connect_result = until(&mut orders, number, TcpStream::connect(backend)).await;
    let Some(Ok(mut backend)) = connect_result else {
        // Without a backend behind the gate, the connection is reset.
        return reset(&client);
    };
    let mut client = client;
    for stream in [&client, &backend] {
        // A failure only adds latency.
        let _ = stream.set_nodelay(true);
    }
    let forwarding = tokio::io::copy_bidirectional(&mut client, &mut backend);
    if until(&mut orders, number, forwarding).await.is_none() {
        reset(&client);
        reset(&backend);
    }
}

/// Polls `action` while the orders allow forwarding. `None` if the connection must be reset.
async fn until<T>(
    orders: &mut watch::Receiver<Orders>,
    number: u64,
    action: impl Future<Output = T>,
) -> Option<T> {
    let mut action = std::pin::pin!(action);
    loop {
        let fate = orders.borrow_and_update().fate(number);
        if fate == Fate::Reset {
            return None;
        }
        tokio::select! {
            // Orders take precedence, so that no byte passes after a command.
            biased;
            changed = orders.changed() => changed.ok()?,
            done = &mut action, if fate == Fate::Move => return Some(done),
        }
    }
}

/// Makes the later close of the stream a reset (RST).
fn reset(stream: &TcpStream) {
    // A failure only turns the reset into a FIN, which also ends the connection.
    let _ = stream.set_zero_linger();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_is_reset_before_it_is_anything_else() {
        let orders = Orders {
            mode: GateMode::Silent,
            reset_below: 1,
            stranded_below: 2,
        };
        let fates = |orders: Orders| [0, 1, 2].map(|number| orders.fate(number));
        assert_eq!(fates(orders), [Fate::Reset, Fate::Rest, Fate::Rest]);
        let mode = GateMode::Forward;
        let open_orders = Orders { mode, ..orders };
        assert_eq!(fates(open_orders), [Fate::Reset, Fate::Rest, Fate::Move]);
    }
}
