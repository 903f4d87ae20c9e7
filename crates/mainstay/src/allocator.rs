//! mimalloc as the allocator of the whole program.
#![expect(
    unsafe_code,
    reason = "an allocator is an unsafe trait over foreign functions"
)]

use std::alloc::{GlobalAlloc, Layout};

use libmimalloc_sys as mimalloc;

/// mimalloc, called with an alignment only if the alignment is unusual. This is the difference to the
/// `mimalloc` crate's `MiMalloc`. A request with an alignment leaves mimalloc's fast path, and allocates more
/// than its size.
#[derive(Debug)]
pub struct Mimalloc;

/// The alignment of every block that is at least this large (`MI_MAX_ALIGN_SIZE`).
const USUAL_ALIGNMENT: usize = 16;

fn is_usual(layout: Layout) -> bool {
    layout.align() <= USUAL_ALIGNMENT && layout.align() <= layout.size()
}

// SAFETY: mimalloc's blocks do not overlap, and live until they are freed. A block of `mi_malloc` is aligned
// for its size up to 16 bytes. A block of an `_aligned` function is aligned as requested. `mi_free` accepts
// both kinds. None of the functions unwinds.
unsafe impl GlobalAlloc for Mimalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: every size is allowed.
        unsafe {
            if is_usual(layout) {
                mimalloc::mi_malloc(layout.size()).cast()
            } else {
                mimalloc::mi_malloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: every size is allowed.
        unsafe {
            if is_usual(layout) {
                mimalloc::mi_zalloc(layout.size()).cast()
            } else {
                mimalloc::mi_zalloc_aligned(layout.size(), layout.align()).cast()
            }
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller passes a block of this allocator.
        unsafe { mimalloc::mi_free(block.cast()) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let is_usual = is_usual(layout) && layout.align() <= size;
        // SAFETY: the caller passes a block of this allocator.
        unsafe {
            if is_usual {
                mimalloc::mi_realloc(block.cast(), size).cast()
            } else {
                mimalloc::mi_realloc_aligned(block.cast(), size, layout.align()).cast()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks are aligned and keep their bytes when they grow or shrink. Requests for zeros return zeros.
    #[test]
    fn blocks_of_every_size_and_alignment_are_aligned() {
        let byte = |at: usize| (at * 7 + 1) as u8;
        for size in [1, 3, 8, 15, 16, 24, 100, 1024, 1025, 5000, 70_000] {
            for alignment in [1, 2, 4, 8, 16, 32, 128, 4096] {
                let layout = Layout::from_size_align(size, alignment).expect("a layout");
                // SAFETY: each block is written within its size, and freed once.
                unsafe {
                    let zeroed = Mimalloc.alloc_zeroed(layout);
                    assert_eq!(zeroed.addr() % alignment, 0, "{layout:?}");
                    assert!((0..size).all(|at| *zeroed.add(at) == 0), "{layout:?}");
                    (0..size).for_each(|at| *zeroed.add(at) = byte(at));
                    Mimalloc.dealloc(zeroed, layout);
                    let mut block = Mimalloc.alloc(layout);
                    assert_eq!(block.addr() % alignment, 0, "{layout:?}");
                    (0..size).for_each(|at| *block.add(at) = byte(at));
                    let mut layout = layout;
                    for new in [size * 3, size.div_ceil(2), alignment.min(4)] {
                        block = Mimalloc.realloc(block, layout, new);
                        let retained = size.min(new).min(layout.size());
                        assert_eq!(block.addr() % alignment, 0, "{layout:?} -> {new}");
                        assert!((0..retained).all(|at| *block.add(at) == byte(at)));
                        (retained..new).for_each(|at| *block.add(at) = byte(at));
                        layout = Layout::from_size_align(new, alignment).expect("a layout");
                    }
                    Mimalloc.dealloc(block, layout);
                }
            }
        }
    }
}
