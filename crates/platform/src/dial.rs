//! Connects to one of a name's addresses, several at a time (happy eyeballs, RFC 8305): an address that does
//! not answer does not delay the others.

use std::{future::Future, io, net::SocketAddr, time::Duration};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep_until},
};

use crate::descriptors;

/// The time after which the next address is tried, too (RFC 8305, section 5).
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The maximum number of addresses of a name that are tried. A name may have hundreds of addresses, and each
/// attempt costs a packet and a descriptor.
const MAX_ADDRESSES: usize = 8;

/// Connects to one of the addresses of a name. Returns the connection and its address. `worked` is the
/// address of the last connection. The caller must already hold a descriptor for the connection.
///
/// # Errors
///
/// See [`race`].
pub async fn connect(
    resolved: &[SocketAddr],
    worked: Option<SocketAddr>,
) -> io::Result<(TcpStream, SocketAddr)> {
    let ordered = order(resolved, worked);
    let first = ordered.first().copied();
    race(&ordered, |address| async move {
        // Each additional attempt needs a descriptor of its own until it ends.
        let extra = (Some(address) != first).then(|| descriptors::take(1));
        let _extra = extra.transpose()?;
        TcpStream::connect(address).await
    })
    .await
}

/// The order in which addresses are tried. The families alternate, starting with the family of the first
/// address (RFC 8305, section 4). The address that worked before is first.
fn order(resolved: &[SocketAddr], worked: Option<SocketAddr>) -> Vec<SocketAddr> {
    let is_first_v6 = resolved.first().is_some_and(SocketAddr::is_ipv6);
    let of_family = |v6: bool| {
        resolved
            .iter()
            .filter(move |address| address.is_ipv6() == v6)
    };
    let (mut one, mut other) = (of_family(is_first_v6), of_family(!is_first_v6));
    let mut ordered: Vec<SocketAddr> = Vec::new();
    let mut add = |address: SocketAddr| {
        if ordered.len() < MAX_ADDRESSES && !ordered.contains(&address) {
            ordered.push(address);
        }
    };
    worked
        .into_iter()
        .filter(|worked| resolved.contains(worked))
        .for_each(&mut add);
    loop {
        match (one.next(), other.next()) {
            (None, None) => break,
            (first, second) => first.into_iter().chain(second).copied().for_each(&mut add),
        }
    }
    ordered
}

/// Calls `connect` for these addresses until one answers. Tries the next address when the last attempt has
/// failed, or has not ended within [`ATTEMPT_DELAY`]. A success drops all other attempts.
///
/// # Errors
///
/// The first error of a peer, or else the first error.
async fn race<T, F: Future<Output = io::Result<T>>>(
    addresses: &[SocketAddr],
    connect: impl Fn(SocketAddr) -> F,
) -> io::Result<(T, SocketAddr)> {
    let mut waiting = addresses.iter().copied();
    let mut attempts = FuturesUnordered::new();
    let mut next_at = Instant::now();
    let mut failed: Option<io::Error> = None;
    loop {
        if attempts.is_empty() || Instant::now() >= next_at {
            match waiting.next() {
                Some(address) => {
                    let attempt = connect(address);
                    attempts.push(async move { (attempt.await, address) });
                    next_at = Instant::now() + ATTEMPT_DELAY;
                }
                None if attempts.is_empty() => {
                    let none = || io::Error::new(io::ErrorKind::NotFound, "it has no address");
                    return Err(failed.unwrap_or_else(none));
                }
                None => {}
            }
        }
        let (outcome, address) = tokio::select! {
            Some(ended) = attempts.next() => ended,
            () = sleep_until(next_at), if waiting.len() > 0 => continue,
        };
        match outcome {
            Ok(connected) => return Ok((connected, address)),
            Err(error) => {
                // The attempt has failed, so try the next address now.
                next_at = Instant::now();
                let is_better = failed
                    .as_ref()
                    .is_none_or(|failed| !is_of_the_peer(failed) && is_of_the_peer(&error));
                if is_better {
                    failed = Some(error);
                }
            }
        }
    }
}

/// True for an error of the peer. False if this machine has no route to the address, for example because it
/// has no IPv6.
fn is_of_the_peer(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::TimedOut
    )
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, future::pending};

    use super::*;

    fn address(text: &str) -> SocketAddr {
        text.parse().expect(text)
    }

    fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
        texts.iter().copied().map(address).collect()
    }

    #[test]
    fn the_families_take_turns() {
        let resolved = addresses(&["[2001:db8::1]:1", "[2001:db8::2]:1", "192.0.2.1:1"]);
        let expected = addresses(&["[2001:db8::1]:1", "192.0.2.1:1", "[2001:db8::2]:1"]);
        assert_eq!(order(&resolved, None), expected);
        let resolved = addresses(&["192.0.2.1:1", "192.0.2.2:1", "[2001:db8::1]:1"]);
        let expected = addresses(&["192.0.2.1:1", "[2001:db8::1]:1", "192.0.2.2:1"]);
        assert_eq!(order(&resolved, None), expected);
    }

    #[test]
    fn an_address_that_has_worked_is_the_first_as_long_as_the_name_stands_for_it() {
        let resolved = addresses(&["[2001:db8::1]:1", "192.0.2.1:1"]);
        let expected = addresses(&["192.0.2.1:1", "[2001:db8::1]:1"]);
        assert_eq!(order(&resolved, Some(resolved[1])), expected);
        assert_eq!(order(&resolved, Some(address("192.0.2.9:1"))), resolved);
    }

    #[test]
    fn many_addresses_are_not_all_tried_and_both_families_are() {
        let many = (0..200).map(|host| SocketAddr::from(([192, 0, 2, host], 1)));
        let resolved: Vec<_> = many.chain(addresses(&["[::1]:1"])).collect();
        let ordered = order(&resolved, None);
        assert_eq!(ordered.len(), MAX_ADDRESSES);
        assert_eq!(ordered[1], address("[::1]:1"));
    }

    /// The behaviour of an address.
    #[derive(Clone, Copy)]
    enum Does {
        Nothing,
        Fails(io::ErrorKind),
        Connects(Duration),
    }

    /// Races addresses with these behaviours. Returns the result, and the times of the attempts.
    async fn raced(does: &[Does]) -> (io::Result<usize>, Vec<Duration>) {
        let started_at = Instant::now();
        let tried = RefCell::new(Vec::new());
        let all: Vec<_> = (0..does.len())
            .map(|port| SocketAddr::from(([192, 0, 2, 1], u16::try_from(port).expect("few"))))
            .collect();
        let raced = race(&all, |address| {
            tried.borrow_mut().push(started_at.elapsed());
            let does = does[usize::from(address.port())];
            async move {
                match does {
                    Does::Nothing => pending().await,
                    Does::Fails(kind) => Err(kind.into()),
                    Does::Connects(after) => {
                        tokio::time::sleep(after).await;
                        Ok(())
                    }
                }
            }
        })
        .await;
        let winner = raced.map(|((), address)| usize::from(address.port()));
        (winner, tried.into_inner())
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_address_holds_up_the_next_for_a_moment_only() {
        let (winner, tried) =
            raced(&[Does::Nothing, Does::Connects(Duration::from_millis(5))]).await;
        assert_eq!(winner.expect("connected"), 1);
        assert_eq!(tried, [Duration::ZERO, ATTEMPT_DELAY]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_address_still_may_win() {
        let slow = Does::Connects(ATTEMPT_DELAY + Duration::from_millis(10));
        let (winner, tried) = raced(&[slow, Does::Nothing, Does::Nothing]).await;
        assert_eq!(winner.expect("connected"), 0);
        assert_eq!(tried.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_fails_is_followed_at_once() {
        let refused = Does::Fails(io::ErrorKind::ConnectionRefused);
        let (winner, tried) = raced(&[refused, Does::Connects(Duration::ZERO)]).await;
        assert_eq!(winner.expect("connected"), 1);
        assert_eq!(tried, [Duration::ZERO; 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn where_all_fail_a_reason_that_says_more_is_told() {
        use io::ErrorKind::{ConnectionRefused, NetworkUnreachable, TimedOut};
        for (kinds, expected) in [
            (
                &[NetworkUnreachable, ConnectionRefused][..],
                ConnectionRefused,
            ),
            (&[ConnectionRefused, NetworkUnreachable], ConnectionRefused),
            (&[ConnectionRefused, TimedOut], ConnectionRefused),
            (&[NetworkUnreachable], NetworkUnreachable),
            (&[], io::ErrorKind::NotFound),
        ] {
            let does: Vec<_> = kinds.iter().map(|kind| Does::Fails(*kind)).collect();
            let (outcome, _) = raced(&does).await;
            assert_eq!(outcome.expect_err("none connects").kind(), expected);
        }
    }

    /// 192.0.2.0/24 has no hosts (RFC 5737), so most machines get no answer. `connect` uses the second
    /// address, and tries it first the next time.
    #[tokio::test]
    async fn a_name_whose_first_address_leads_nowhere_is_reached_by_the_next() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await;
        let listener = listener.expect("a port");
        let good = listener.local_addr().expect("an address");
        let nowhere = SocketAddr::from(([192, 0, 2, 1], good.port()));
        let resolved = [nowhere, good];
        let connecting = connect(&resolved, None);
        let (_connected, worked) = connecting.await.expect("connected");
        assert_eq!(worked, good);
        assert_eq!(order(&resolved, Some(worked)), [good, nowhere]);
    }
}
