//! The console: pages for people, made in Rust, over the public API and nothing else.
//!
//! It knows no database and no engine. What a page shows can be had by curl with the same key, and what the API refuses to
//! that key the page does not offer.

mod api;
mod assets;
mod draw;
mod form;
mod layout;
mod live;
mod pages;
mod report;
mod routes;
mod session;
mod sign_in;
mod sign_on;
mod trouble;
mod value;
mod visit;
mod wait;
mod words;

use std::fmt;
use std::sync::Arc;

use axum::Router;
use callboard_protocol::{KeyId, Timestamp};

pub use api::{
    Answer, Api, ApiError, Call, CallBody, EXTENSION, Frames, Identity, Refused, segment,
};
pub use report::{ReportSource, report};
pub use session::{CODE_LASTS, Hash, InMemory, Lifetime, Secret, Session, Sessions, SessionsError};
pub use sign_on::{Answers, Asks, Offer, SignOn, SignOnError};

use session::Codes;

/// The pages of one host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Console {
    inner: Arc<Inner>,
}

struct Inner {
    api: Arc<dyn Api>,
    sessions: Arc<dyn Sessions>,
    lifetime: Lifetime,
    codes: Codes,
    sign_on: Arc<dyn SignOn>,
    now: fn() -> Timestamp,
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inner").field("api", &self.api).finish_non_exhaustive()
    }
}

impl Console {
    pub fn new(
        api: Arc<dyn Api>,
        sessions: Arc<dyn Sessions>,
        lifetime: Lifetime,
        now: fn() -> Timestamp,
    ) -> Self {
        let (codes, sign_on) = (Codes::default(), Arc::new(sign_on::Nowhere));
        Self { inner: Arc::new(Inner { api, sessions, lifetime, codes, sign_on, now }) }
    }

    /// The same, where people can also sign in elsewhere.
    #[must_use]
    pub fn with_sign_on(self, sign_on: Arc<dyn SignOn>) -> Self {
        let Inner { api, sessions, lifetime, now, .. } = &*self.inner;
        let (api, sessions) = (Arc::clone(api), Arc::clone(sessions));
        let (codes, lifetime, now) = (Codes::default(), *lifetime, *now);
        Self { inner: Arc::new(Inner { api, sessions, lifetime, codes, sign_on, now }) }
    }

    /// Everything at `/` and below `/console`.
    pub fn router(&self) -> Router {
        routes::router(self.clone())
    }

    /// The path that signs the holder of a key in, once and soon. None: the system gives no random numbers.
    pub fn link(&self, key: KeyId) -> Option<String> {
        let code = Secret::generate()?;
        self.inner.codes.put(&code, key, self.now());
        Some(format!("/console/enter?code={}", code.reveal()))
    }

    fn api(&self) -> &dyn Api {
        self.inner.api.as_ref()
    }

    fn sessions(&self) -> &dyn Sessions {
        self.inner.sessions.as_ref()
    }

    fn sign_on(&self) -> &dyn SignOn {
        self.inner.sign_on.as_ref()
    }

    fn lifetime(&self) -> Lifetime {
        self.inner.lifetime
    }

    fn now(&self) -> Timestamp {
        (self.inner.now)()
    }
}
