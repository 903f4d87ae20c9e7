//! What reads bytes from outside, checked against readers that are too simple to be wrong, and what
//! shows them on a terminal, against rules that are: each `check` takes any bytes, and panics where the
//! two differ.
//!
//! `crates/fuzz/run` looks for such bytes, guided by coverage; the tests of this crate replay those
//! that were found or are typical (`corpus/`).

pub mod display;
pub mod events;
pub mod framing;
pub mod names;
pub mod references;

/// The first bytes of an input say how it is read: the limit, and in which pieces it comes.
struct Input<'a> {
    limit: usize,
    pieces: Vec<&'a [u8]>,
    bytes: &'a [u8],
}

impl<'a> Input<'a> {
    fn new(data: &'a [u8]) -> Option<Self> {
        let [limit, seed, bytes @ ..] = data else {
            return None;
        };
        let mut pieces = Vec::new();
        let (mut rest, mut state) = (bytes, u32::from(*seed));
        while !rest.is_empty() {
            // Knuth's; a seed of 0 gives everything in one piece.
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let length = if *seed == 0 {
                rest.len()
            } else {
                1 + (state >> 16) as usize % usize::from(*seed)
            };
            let (piece, after) = rest.split_at(length.min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        Some(Self {
            limit: usize::from(*limit),
            pieces,
            bytes,
        })
    }

    fn longest_piece(&self) -> usize {
        self.pieces
            .iter()
            .map(|piece| piece.len())
            .max()
            .unwrap_or_default()
    }
}
