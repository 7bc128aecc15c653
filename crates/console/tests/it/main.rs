//! The console over a made-up host: signing in, forms, headers, refusals, and hostile text on every page.

#![recursion_limit = "512"]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on ends")]

mod acts;
mod every_act;
mod host;
mod hostile;
mod looks;
mod sign_in;
