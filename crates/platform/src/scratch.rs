//! Reads pipes and sockets through one buffer for each thread. Idle connections need no buffer, and a copy of
//! data is only as large as the data.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, ReadBuf};

/// The maximum number of bytes of one read.
pub const SIZE: usize = 64 * 1024;

thread_local! {
    /// Borrowed only during a poll.
    static BUFFER: RefCell<Box<[MaybeUninit<u8>]>> = RefCell::new(Box::new_uninit_slice(SIZE));
}

/// Passes the next piece to `take`. An empty piece is the end of the input. Cancel-safe. `take` must not call
/// this function.
pub async fn read<T>(
    input: &mut (impl AsyncRead + Unpin),
    mut take: impl FnMut(&[u8]) -> T,
) -> io::Result<T> {
    poll_fn(|context| poll_read(input, context, &mut take)).await
}

/// Like [`read`], for futures that are implemented by hand.
pub fn poll_read<T>(
    input: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
    take: impl FnOnce(&[u8]) -> T,
) -> Poll<io::Result<T>> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut piece = ReadBuf::uninit(buffer);
        ready!(Pin::new(input).poll_read(context, &mut piece))?;
        Ok(take(piece.filled())).into()
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[tokio::test]
    async fn pieces_come_whole_and_then_the_end() {
        let (mut near, mut far) = tokio::io::duplex(1024 * 1024);
        let sent: Vec<u8> = (0..=u8::MAX).cycle().take(SIZE + 1000).collect();
        far.write_all(&sent).await.expect("room");
        drop(far);
        let mut found = Vec::new();
        loop {
            let piece = read(&mut near, <[u8]>::to_vec).await.expect("read");
            if piece.is_empty() {
                break;
            }
            found.push(piece);
        }
        assert_eq!(found.len(), 2);
        assert_eq!(found.concat(), sent);
    }
}
