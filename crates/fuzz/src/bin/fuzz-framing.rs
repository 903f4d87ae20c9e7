//! See the library; `crates/fuzz/run framing` starts it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::framing::check(data));
