//! The console in Debian's Chromium, against the real binary. Skipped with a line where the browser is not installed.
//!
//! The browser is driven over WebDriver, which is a few JSON requests: the HTTP client that the program has anyway sends
//! them. The ready-made clients would bring a licence that we do not take, or all of DevTools as generated code.

#![cfg(test)]

#[path = "support/api.rs"]
mod api;
mod support;

#[path = "browser/access.rs"]
mod access;
#[path = "browser/another.rs"]
mod another;
#[path = "browser/driver.rs"]
mod driver;
#[path = "browser/forks.rs"]
mod forks;
#[path = "browser/inbox.rs"]
mod inbox;
#[path = "browser/live.rs"]
mod live;
#[path = "browser/people.rs"]
mod people;
#[path = "browser/pictures.rs"]
mod pictures;
#[path = "browser/plain.rs"]
mod plain;
#[path = "browser/safety.rs"]
mod safety;
#[path = "browser/sign_in.rs"]
mod sign_in;
#[path = "browser/stage.rs"]
mod stage;
