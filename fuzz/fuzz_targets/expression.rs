//! Expressions over whatever inputs, in ports and conditions.

#![no_main]

#[path = "../../tests/fuzz/targets.rs"]
#[expect(dead_code, reason = "each program runs one of the targets")]
mod targets;

libfuzzer_sys::fuzz_target!(|input: &[u8]| targets::expression(input));
