//! Fuzz targets. Each `check` takes any bytes. It compares a parser of external bytes with a simple reference
//! parser, or output for a terminal with the rules for such output. It panics if they differ.
//!
//! `crates/fuzz/run` searches for bytes that cause a panic, guided by coverage. The tests of this crate
//! replay typical bytes, and bytes that were found earlier (`corpus/`).

pub mod display;
pub mod events;
pub mod framing;
pub mod keys;
pub mod names;
pub mod references;
pub mod tokens;

/// An input. Its first bytes define the limit, and the pieces in which the rest is read.
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
            // Knuth's generator. A seed of 0 gives everything in one piece.
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
