//! What a stranger, a tenant, a child process or a forged archive tries against the real binary.

#[path = "support/api.rs"]
mod api;
mod support;

#[path = "hostile/agent_calls.rs"]
mod agent_calls;
#[path = "hostile/children.rs"]
mod children;
#[path = "hostile/doors.rs"]
mod doors;
#[path = "hostile/echo.rs"]
mod echo;
#[path = "hostile/expressions.rs"]
mod expressions;
#[path = "hostile/outside.rs"]
mod outside;
#[path = "hostile/packs.rs"]
mod packs;
#[path = "hostile/schemas.rs"]
mod schemas;
#[path = "hostile/streams.rs"]
mod streams;
#[path = "hostile/stuck.rs"]
mod stuck;
