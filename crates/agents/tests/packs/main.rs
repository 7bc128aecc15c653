//! Packs from the outside: what is let in, what is refused and why, and what is found afterwards.

#![cfg(test)]

mod admission;
mod agreement;
mod archives;
mod author;
mod degradation;
mod given;
mod inventory;
mod openwop;
mod published;
mod references;
mod registry;
mod schemas;
mod scripted;
mod signatures;
mod starter;
