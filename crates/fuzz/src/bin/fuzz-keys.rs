//! See the library; `crates/fuzz/run keys` starts it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::keys::check(data));
