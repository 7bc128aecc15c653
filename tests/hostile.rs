//! What a stranger, a tenant or a forged archive tries against the real binary.

#[path = "support/api.rs"]
mod api;
mod support;

#[path = "hostile/expressions.rs"]
mod expressions;
#[path = "hostile/packs.rs"]
mod packs;
#[path = "hostile/schemas.rs"]
mod schemas;
