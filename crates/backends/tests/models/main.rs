//! Providers that are scripted to the byte, on this machine: what they say, and what becomes of it.

#![cfg(test)]

mod anthropic;
mod errors;
mod gemini;
mod given;
mod ollama;
mod openai;
mod probes;
mod responses;
mod streams;
