//! The run protocol against programs that misbehave in every way we know.
#![cfg(test)]

mod acp;
mod cancel;
mod capability;
mod completion;
mod events;
mod gateway;
mod leftovers;
mod lines;
mod management;
mod sessions;
mod stage;
mod timeout;
mod transcripts;
mod validation;
