//! Reads request bodies. Limits their size and time, and the memory of all bodies and of one
//! client.

use std::{collections::HashMap, future::poll_fn, pin::Pin, sync::Arc, task::Poll, time::Duration};

use bytes::{Bytes, BytesMut};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::{Instant, timeout_at};

use crate::peer::{LimitedPeer, Visitor};

/// The reason that a body could not be read.
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

/// Maximum size of a body that does not count, in bytes. A connection's buffers hold as much
/// anyway.
pub const FREE: usize = 64 * 1024;

/// Minimum average rate at which a body must arrive, once [`GRACE`] is over.
const MIN_BYTES_PER_SECOND: u64 = 8 * 1024;

/// Time before [`MIN_BYTES_PER_SECOND`] applies.
const GRACE: Duration = Duration::from_secs(10);

/// Time limits for reading the rest of a refused body. Many clients read the error only after they
/// have written the whole body.
const DISCARD_LIMIT: Duration = Duration::from_secs(5);
const DISCARD_PAUSE: Duration = Duration::from_millis(500);

/// The limits for request bodies.
#[derive(Clone, Copy, Debug)]
pub struct BodyLimits {
    /// Bytes of one body (`http.maxBodyBytes`).
    pub body_bytes: usize,
    /// Bytes of all bodies that are being read or whose requests run (`http.maxBodiesBytes`).
    pub total_bytes: usize,
    /// Time for one body (`http.bodyTimeoutMs`).
    pub time: Duration,
    /// Longest pause between two pieces of one body.
    pub pause: Duration,
}

/// Counts the bytes of request bodies that are being read or whose requests run.
#[derive(Debug)]
pub struct Bodies {
    limits: BodyLimits,
    in_use: Mutex<UsedRoom>,
}

#[derive(Debug, Default)]
struct UsedRoom {
    all: usize,
    by_peer: HashMap<LimitedPeer, usize>,
}

/// The counted bytes of one body. They are subtracted on drop.
#[derive(Debug)]
struct Share {
    bodies: Arc<Bodies>,
    peer: LimitedPeer,
    bytes: usize,
}

/// A body with its share. The body counts until it is dropped.
struct CountedBytes {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for CountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The error that the limit of all bodies, or of one peer, is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Full;

impl Bodies {
    pub fn new(limits: BodyLimits) -> Self {
        Self {
            limits,
            in_use: Mutex::default(),
        }
    }

    pub fn limits(&self) -> &BodyLimits {
        &self.limits
    }

    fn in_use(&self) -> MutexGuard<'_, UsedRoom> {
        // Locked for a few operations, never across an await.
        self.in_use.lock()
    }

    /// The limit of one peer, in bytes: half of the total, but at least one body.
    fn of_peer(&self) -> usize {
        let BodyLimits {
            body_bytes: body_limit,
            total_bytes: total_limit,
            ..
        } = self.limits;
        (total_limit / 2).max(body_limit).min(total_limit)
    }

    /// Reads a body, and counts it if it exceeds [`FREE`].
    pub async fn read(
        self: &Arc<Self>,
        body: Incoming,
        visitor: &Visitor,
    ) -> Result<Bytes, BodyError> {
        self.read_counted(body, visitor, FREE).await
    }

    /// Reads a body that is stored for longer than its request. It counts at any size.
    pub async fn read_kept(
        self: &Arc<Self>,
        body: Incoming,
        visitor: &Visitor,
    ) -> Result<Bytes, BodyError> {
        self.read_counted(body, visitor, 0).await
    }

    /// Reads a body, and counts it if it exceeds `free_bytes`.
    async fn read_counted(
        self: &Arc<Self>,
        mut body: Incoming,
        visitor: &Visitor,
        free_bytes: usize,
    ) -> Result<Bytes, BodyError> {
        let read_result = self.read_within(&mut body, visitor, free_bytes).await;
        if matches!(read_result, Err(BodyError::TooLarge(_) | BodyError::NoRoom)) {
            discard(body).await;
        }
        read_result
    }

    async fn read_within(
        self: &Arc<Self>,
        body: &mut Incoming,
        visitor: &Visitor,
        free_bytes: usize,
    ) -> Result<Bytes, BodyError> {
        let body_limit = self.limits.body_bytes;
        if body.size_hint().lower() > body_limit as u64 {
            return Err(BodyError::TooLarge(body_limit));
        }
        let mut content = BytesMut::new();
        let mut share = None;
        let mut pace = None::<Pace>;
        loop {
            let next_frame = match ready(body).await {
                Some(next_frame) => next_frame,
                None => {
                    let pace = *pace.get_or_insert_with(|| Pace::begin(&self.limits));
                    let next_frame = timeout_at(pace.until(content.len()), body.frame()).await;
                    next_frame.map_err(|_| BodyError::TooSlow)?
                }
            };
            let Some(frame) = next_frame else { break };
            let frame = frame.map_err(|_| BodyError::BrokeOff)?;
            let Ok(data) = frame.into_data() else {
                continue;
            };
            let length = content.len() + data.len();
            if length > body_limit {
                return Err(BodyError::TooLarge(body_limit));
            }
            if free_bytes > 0 && content.is_empty() && body.is_end_stream() {
                return Ok(data);
            }
            if length > free_bytes && length > share.as_ref().map_or(0, |share: &Share| share.bytes)
            {
                // Reserve room before the memory is used, in powers of two.
                let bytes = length.next_power_of_two().min(body_limit);
                let share = share.get_or_insert_with(|| Share::empty(self, visitor.peer()));
                share.grow(bytes).map_err(|Full| BodyError::NoRoom)?;
                let target = capacity(length, body.size_hint().exact()).min(body_limit);
                content.reserve(target.max(length) - content.len());
            }
            content.extend_from_slice(&data);
        }
        let bytes = content.freeze();
        Ok(match share {
            None => bytes,
            Some(share) => Bytes::from_owner(CountedBytes {
                bytes,
                _share: share,
            }),
        })
    }
}

/// The capacity of the buffer for `length` received bytes and `rest` announced ones. Large steps
/// leave less unused memory behind. A step is at most fourfold, because the announced length may be
/// false.
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

/// The next piece if it has already arrived, without waiting.
async fn ready(body: &mut Incoming) -> Option<Next> {
    poll_fn(|context| {
        Poll::Ready(match Pin::new(&mut *body).poll_frame(context) {
            Poll::Ready(next) => Some(next),
            Poll::Pending => None,
        })
    })
    .await
}

/// The time limits of one body.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    since: Instant,
    end: Instant,
    pause: Duration,
}

impl Pace {
    pub fn begin(limits: &BodyLimits) -> Self {
        let start = Instant::now();
        Self {
            since: start,
            end: start + limits.time,
            pause: limits.pause,
        }
    }

    /// The deadline for the next piece after `bytes` bytes have arrived.
    pub fn until(self, bytes: usize) -> Instant {
        let earned_time = Duration::from_millis(bytes as u64 * 1000 / MIN_BYTES_PER_SECOND);
        let average = self.since + GRACE + earned_time;
        self.end.min(average).min(Instant::now() + self.pause)
    }
}

/// Reads and drops the rest of a body, within `DISCARD_LIMIT`.
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
    fn empty(bodies: &Arc<Bodies>, peer: LimitedPeer) -> Self {
        Self {
            bodies: Arc::clone(bodies),
            peer,
            bytes: 0,
        }
    }

    /// Raises the share to `bytes` bytes, if the limits allow it.
    fn grow(&mut self, bytes: usize) -> Result<(), Full> {
        let extra_bytes = bytes.saturating_sub(self.bytes);
        let mut usage = self.bodies.in_use();
        let peer_bytes = usage.by_peer.get(&self.peer).copied().unwrap_or_default();
        if usage.all + extra_bytes > self.bodies.limits.total_bytes
            || peer_bytes + extra_bytes > self.bodies.of_peer()
        {
            return Err(Full);
        }
        usage.all += extra_bytes;
        usage
            .by_peer
            .insert(self.peer.clone(), peer_bytes + extra_bytes);
        self.bytes += extra_bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut usage = self.bodies.in_use();
        usage.all -= self.bytes;
        if let Some(peer_bytes) = usage.by_peer.get_mut(&self.peer) {
            *peer_bytes -= self.bytes;
            if *peer_bytes == 0 {
                usage.by_peer.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use mainstay_core::principal::Principal;

    use super::*;

    fn bodies(body_limit: usize, total_limit: usize) -> Arc<Bodies> {
        Arc::new(Bodies::new(BodyLimits {
            body_bytes: body_limit,
            total_bytes: total_limit,
            time: Duration::from_mins(5),
            pause: Duration::from_mins(5),
        }))
    }

    fn peer(number: u8) -> LimitedPeer {
        LimitedPeer::for_principal(&Principal::Anonymous, [192, 0, 2, number].into())
    }

    #[test]
    fn one_peer_leaves_room_for_others_and_gives_back_what_it_took() {
        let bodies = bodies(100, 400);
        let share = |number| Share::empty(&bodies, peer(number));
        let (mut first, mut second_share, mut third_share) = (share(1), share(1), share(1));
        assert_eq!(first.grow(60), Ok(()));
        assert_eq!(first.grow(100), Ok(()));
        assert_eq!(second_share.grow(100), Ok(()));
        assert_eq!(third_share.grow(1), Err(Full));
        let (mut other_share, mut another, mut last_share) = (share(2), share(3), share(4));
        assert_eq!(other_share.grow(100), Ok(()));
        assert_eq!(another.grow(100), Ok(()));
        assert_eq!(last_share.grow(1), Err(Full));
        drop(first);
        assert_eq!(third_share.grow(1), Ok(()));
        drop((second_share, third_share, other_share, another, last_share));
        let usage = bodies.in_use();
        assert_eq!((usage.all, usage.by_peer.len()), (0, 0));
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
        for (body_limit, total_limit, expected) in [(100, 400, 200), (100, 150, 100), (100, 50, 50)]
        {
            assert_eq!(bodies(body_limit, total_limit).of_peer(), expected);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_must_keep_a_pace() {
        let minute_pace = Duration::from_mins(1);
        let pace = |pause| {
            Pace::begin(&BodyLimits {
                body_bytes: 100,
                total_bytes: 100,
                time: minute_pace,
                pause,
            })
        };
        let (steady_pace, halting_pace) = (pace(minute_pace), pace(GRACE));
        let after = |pace: Pace, bytes| pace.until(bytes) - pace.since;
        assert_eq!(after(steady_pace, 0), GRACE);
        assert_eq!(after(steady_pace, 80 * 1024), GRACE * 2);
        assert_eq!(after(steady_pace, 1 << 30), minute_pace);
        // The limit of one pause does not depend on the received bytes.
        assert_eq!(after(halting_pace, 1 << 30), GRACE);
        tokio::time::advance(GRACE).await;
        assert_eq!(after(halting_pace, 1 << 30), GRACE * 2);
    }
}
