//! Providers that are scripted to the byte, on this machine: what they say, and what becomes of it.

#![cfg(test)]

mod anthropic;
mod errors;
mod gemini;
#[expect(dead_code, reason = "the tests of live agents use all of it")]
mod given;
mod ollama;
mod openai;
mod probes;
mod responses;
mod streams;
