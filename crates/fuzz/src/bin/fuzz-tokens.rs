//! See the library; `crates/fuzz/run tokens` starts it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::tokens::check(data));
