//! Reads request bodies whole, within time limits and within bounds that one client cannot use up for
//! all.

use std::{collections::HashMap, future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use crate::peer::{Peer, Visitor};

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// Holds the limit in bytes.
    #[error("a message may have {0} bytes (http.maxBodyBytes)")]
    TooLarge(usize),
    #[error(
        "the body came too slowly: at least {MIN_BYTES_PER_SECOND} bytes a second are expected, \
         without long pauses, and its end within http.bodyTimeoutMs"
    )]
    TooSlow,
    #[error("too many large messages at once (http.maxBodiesBytes): send it again in a moment")]
    NoRoom,
    #[error("the body broke off")]
    BrokeOff,
}

/// A body up to this size counts nothing: a connection may hold as much in its own buffers, and the number
/// of connections is bounded.
pub const FREE: usize = 64 * 1024;

/// The slowest that a body may come, on the average, once [`GRACE`] is over: slower than any network that
/// is of use, and a bound on how long a client can hold what it has sent.
const MIN_BYTES_PER_SECOND: u64 = 8 * 1024;

/// When the average begins to count.
const GRACE: Duration = Duration::from_secs(10);

/// What is still read of a body that was refused, so that its client reads why: a client that finds the
/// connection closed while it writes may not.
const DISCARD_LIMIT: Duration = Duration::from_secs(5);
const DISCARD_PAUSE: Duration = Duration::from_millis(500);

/// What bodies may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of one (`http.maxBodyBytes`).
    pub of_body: usize,
    /// Bytes of all that are being read or answered (`http.maxBodiesBytes`).
    pub of_all: usize,
    /// Time of one (`http.bodyTimeoutMs`).
    pub time: Duration,
    /// How long one may stand still.
    pub pause: Duration,
}

/// The bodies that are being read or answered.
#[derive(Debug)]
pub struct Bodies {
    limits: Limits,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    by_peer: HashMap<Peer, usize>,
}

/// What one body takes, until its bytes are dropped.
#[derive(Debug)]
struct Share {
    bodies: Arc<Bodies>,
    peer: Peer,
    bytes: usize,
}

/// Bytes, and the room that they take.
struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Why there is no room for a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Full;

impl Bodies {
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            taken: Mutex::default(),
        }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        // Held for a few operations, never across an await.
        self.taken.lock()
    }

    /// What one peer may take of all: half of it, so that one peer leaves room for others, but no less than
    /// one body.
    fn of_peer(&self) -> usize {
        let Limits {
            of_body, of_all, ..
        } = self.limits;
        (of_all / 2).max(of_body).min(of_all)
    }

    /// Reads a body, which mostly comes in one piece and with its head.
    pub async fn read(
        self: &Arc<Self>,
        body: Incoming,
        visitor: &Visitor,
    ) -> Result<Bytes, BodyError> {
        self.read_counted(body, visitor, FREE).await
    }

    /// The same for a body that outlives its request, and with it its connection: it counts, however small it is.
    pub async fn read_kept(
        self: &Arc<Self>,
        body: Incoming,
        visitor: &Visitor,
    ) -> Result<Bytes, BodyError> {
        self.read_counted(body, visitor, 0).await
    }

    /// Bodies up to `free` bytes count nothing.
    async fn read_counted(
        self: &Arc<Self>,
        mut body: Incoming,
        visitor: &Visitor,
        free: usize,
    ) -> Result<Bytes, BodyError> {
        let read = self.read_within(&mut body, visitor, free).await;
        if matches!(read, Err(BodyError::TooLarge(_) | BodyError::NoRoom)) {
            discard(body).await;
        }
        read
    }

    async fn read_within(
        self: &Arc<Self>,
        body: &mut Incoming,
        visitor: &Visitor,
        free: usize,
    ) -> Result<Bytes, BodyError> {
        let of_body = self.limits.of_body;
        if body.size_hint().lower() > of_body as u64 {
            return Err(BodyError::TooLarge(of_body));
        }
        let mut read = BytesMut::new();
        let mut share = None;
        let mut pace = None::<Pace>;
        loop {
            let next = match ready(body).await {
                Some(next) => next,
                None => {
                    let pace = *pace.get_or_insert_with(|| Pace::begin(&self.limits));
                    let next = timeout_at(pace.until(read.len()), body.frame()).await;
                    next.map_err(|_| BodyError::TooSlow)?
                }
            };
            let Some(frame) = next else { break };
            let frame = frame.map_err(|_| BodyError::BrokeOff)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let length = read.len() + data.len();
            if length > of_body {
                return Err(BodyError::TooLarge(of_body));
            }
            if free > 0 && read.is_empty() && body.is_end_stream() {
                return Ok(data);
            }
            if length > free && length > share.as_ref().map_or(0, |share: &Share| share.bytes) {
                // Room is taken as the body comes, twofold each time.
                let bytes = length.next_power_of_two().min(of_body);
                let share = share.get_or_insert_with(|| Share::none(self, visitor.peer()));
                share.grow(bytes).map_err(|Full| BodyError::NoRoom)?;
                let wanted = capacity(length, body.size_hint().exact()).min(of_body);
                read.reserve(wanted.max(length) - read.len());
            }
            read.extend_from_slice(&data);
        }
        let bytes = read.freeze();
        Ok(match share {
            None => bytes,
            Some(share) => Bytes::from_owner(Held {
                bytes,
                _share: share,
            }),
        })
    }
}

/// How large a buffer is asked for when `length` bytes have come, and `rest` more are announced. What a
/// growing buffer leaves behind costs, so it grows in few steps where the length is known. But no step is
/// more than fourfold: a length is only announced, and address space can be short (`ulimit -v`).
fn capacity(length: usize, rest: Option<u64>) -> usize {
    match rest {
        None | Some(0) => length.next_power_of_two(),
        Some(rest) => {
            let rest = usize::try_from(rest).unwrap_or(usize::MAX);
            length.saturating_add(rest).min(length.saturating_mul(4))
        }
    }
}

type Next = Option<Result<http_body::Frame<Bytes>, hyper::Error>>;

/// The next piece, if it is there.
async fn ready(body: &mut Incoming) -> Option<Next> {
    poll_fn(|context| {
        Poll::Ready(match Pin::new(&mut *body).poll_frame(context) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        })
    })
    .await
}

/// How long a body may take.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    since: Instant,
    end: Instant,
    pause: Duration,
}

impl Pace {
    pub fn begin(limits: &Limits) -> Self {
        let since = Instant::now();
        Self {
            since,
            end: since + limits.time,
            pause: limits.pause,
        }
    }

    /// When the next piece must have come, if so many bytes have come by now.
    pub fn until(self, bytes: usize) -> Instant {
        let earned = Duration::from_millis(bytes as u64 * 1000 / MIN_BYTES_PER_SECOND);
        let average = self.since + GRACE + earned;
        self.end.min(average).min(Instant::now() + self.pause)
    }
}

/// Reads what comes of a body within a short time, and keeps none of it.
pub async fn discard(mut body: Incoming) {
    let end = Instant::now() + DISCARD_LIMIT;
    loop {
        let pause = Instant::now() + DISCARD_PAUSE;
        match timeout_at(end.min(pause), body.frame()).await {
            Ok(Some(Ok(_))) => {}
            Ok(Some(Err(_)) | None) | Err(_) => return,
        }
    }
}

impl Share {
    fn none(bodies: &Arc<Bodies>, peer: Peer) -> Self {
        Self {
            bodies: Arc::clone(bodies),
            peer,
            bytes: 0,
        }
    }

    /// Takes so many bytes in all.
    fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let more = bytes.saturating_sub(self.bytes);
        let mut taken = self.bodies.taken();
        let of_peer = taken.by_peer.get(&self.peer).copied().unwrap_or_default();
        if taken.all + more > self.bodies.limits.of_all || of_peer + more > self.bodies.of_peer() {
            return Err(Full);
        }
        taken.all += more;
        taken.by_peer.insert(self.peer.clone(), of_peer + more);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.bodies.taken();
        taken.all -= self.bytes;
        if let Some(of_peer) = taken.by_peer.get_mut(&self.peer) {
            *of_peer -= self.bytes;
            if *of_peer == 0 {
                taken.by_peer.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::principal::Principal;

    use super::*;

    fn bodies(of_body: usize, of_all: usize) -> Arc<Bodies> {
        Arc::new(Bodies::new(Limits {
            of_body,
            of_all,
            time: Duration::from_mins(5),
            pause: Duration::from_mins(5),
        }))
    }

    fn peer(number: u8) -> Peer {
        Peer::of(&Principal::Anonymous, [192, 0, 2, number].into())
    }

    #[test]
    fn one_peer_leaves_room_for_others_and_gives_back_what_it_took() {
        let bodies = bodies(100, 400);
        let share = |number| Share::none(&bodies, peer(number));
        let (mut first, mut second, mut third) = (share(1), share(1), share(1));
        assert_eq!(first.grow(60), Ok(()));
        assert_eq!(first.grow(100), Ok(()));
        assert_eq!(second.grow(100), Ok(()));
        assert_eq!(third.grow(1), Err(Full));
        let (mut other, mut another, mut last) = (share(2), share(3), share(4));
        assert_eq!(other.grow(100), Ok(()));
        assert_eq!(another.grow(100), Ok(()));
        assert_eq!(last.grow(1), Err(Full));
        drop(first);
        assert_eq!(third.grow(1), Ok(()));
        drop((second, third, other, another, last));
        let taken = bodies.taken();
        assert_eq!((taken.all, taken.by_peer.len()), (0, 0));
    }

    #[test]
    fn a_buffer_grows_with_what_has_come_whatever_is_announced() {
        const KIB: usize = 1024;
        for (length, rest, expected) in [
            (64 * KIB, None, 64 * KIB),
            (65 * KIB, None, 128 * KIB),
            (65 * KIB, Some(0), 128 * KIB),
            (64 * KIB, Some(100), 64 * KIB + 100),
            (64 * KIB, Some(u64::MAX), 256 * KIB),
        ] {
            assert_eq!(capacity(length, rest), expected, "{length} {rest:?}");
        }
    }

    #[test]
    fn one_body_fits_whatever_the_limits() {
        for (of_body, of_all, expected) in [(100, 400, 200), (100, 150, 100), (100, 50, 50)] {
            assert_eq!(bodies(of_body, of_all).of_peer(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_must_keep_a_pace() {
        let minute = Duration::from_mins(1);
        let pace = |pause| {
            Pace::begin(&Limits {
                of_body: 100,
                of_all: 100,
                time: minute,
                pause,
            })
        };
        let (steady, halting) = (pace(minute), pace(GRACE));
        let after = |pace: Pace, bytes| pace.until(bytes) - pace.since;
        assert_eq!(after(steady, 0), GRACE);
        assert_eq!(after(steady, 80 * 1024), GRACE * 2);
        assert_eq!(after(steady, 1 << 30), minute);
        // However much has come, it may not stand still for long.
        assert_eq!(after(halting, 1 << 30), GRACE);
        tokio::time::advance(GRACE).await;
        assert_eq!(after(halting, 1 << 30), GRACE * 2);
    }
}
