//! See the library; `crates/fuzz/run events` starts it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::events::check(data));
