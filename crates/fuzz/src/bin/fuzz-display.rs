//! See the library; `crates/fuzz/run display` starts it.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::display::check(data));
