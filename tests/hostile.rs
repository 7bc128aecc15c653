//! What a stranger, a tenant or a forged archive tries against the real binary.

mod support;

#[path = "hostile/packs.rs"]
mod packs;
