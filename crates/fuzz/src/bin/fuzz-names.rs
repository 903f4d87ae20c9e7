//! See the library; `crates/fuzz/run names` starts it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::names::check(data));
