//! See the library; `crates/fuzz/run references` starts it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::references::check(data));
