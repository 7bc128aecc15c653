//! How much the host does at once: requests and open streams take a place for their whole life, and what they bring or
//! take away counts while it is in memory.
//!
//! Who shows a key and who shows none have places of their own, so that strangers cannot use up those of key holders.

use std::sync::Arc;

use axum::body::{Body, HttpBody as _};
use axum::response::Response;
use callboard_protocol::Tenant;
use http_body_util::BodyExt;

use crate::app::ServerConfig;
use crate::connections::Busy;
use crate::keys::Caller;
use crate::metrics;
use crate::problem::{Code, Problem};
use crate::share::{Full, Holder, Part, Pool};

/// As many requests as any caller may have under way, however many others there are.
const LEAST_PLACES: u64 = 16;
/// A post of a few pages gets through beside others that take what they can.
const LEAST_UNKEYED_BYTES: u64 = 64 * 1024;
/// Answers below it are not counted: they are bounded by the places.
const SMALL_ANSWER: u64 = 64 * 1024;
/// Two answers of the size that a run may have.
const LEAST_ANSWER_BYTES: u64 = 16 * 1024 * 1024;

#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) keyed: Side,
    pub(crate) unkeyed: Side,
    answers: Arc<Pool>,
    retry_after: u64,
}

/// The places and bodies of callers of one kind.
#[derive(Debug)]
pub(crate) struct Side {
    places: Arc<Pool>,
    bodies: Arc<Pool>,
    /// What those are called who share them.
    whose: &'static str,
    retry_after: u64,
}

impl Load {
    pub(crate) fn new(config: &ServerConfig) -> Self {
        let retry_after = config.retry_after_seconds;
        let places = |most: usize| Pool::new(most as u64, LEAST_PLACES, metrics::inflight());
        let bodies = |most: u64, least: u64| Pool::new(most, least, metrics::body_bytes());
        // Who has a key can always bring one whole body, if there is room for it at all.
        let one_body = config.max_body_bytes as u64;
        let answers = config.answer_bytes_inflight;
        Self {
            keyed: Side {
                places: places(config.inflight),
                bodies: bodies(config.body_bytes_inflight, one_body),
                whose: "key",
                retry_after,
            },
            unkeyed: Side {
                places: places(config.unkeyed_inflight),
                bodies: bodies(config.unkeyed_body_bytes_inflight, LEAST_UNKEYED_BYTES),
                whose: "address",
                retry_after,
            },
            answers: Pool::new(answers, LEAST_ANSWER_BYTES, metrics::answer_bytes()),
            retry_after,
        }
    }

    /// Room for a text that waits for its reader.
    pub(crate) fn answer(&self, holder: Holder, bytes: u64) -> Result<Part, Problem> {
        let mut part = self.answers.part(holder);
        part.grow(bytes.min(self.answers.most_at_once())).map_err(|full| {
            let why = "too many bytes of answers wait to be read";
            refusal(full, "key", why, self.retry_after)
        })?;
        Ok(part)
    }
}

impl Side {
    /// Takes a place or refuses; nobody waits here, because waiting is what a full host must not offer.
    pub(crate) fn enter(&self, holder: Holder) -> Result<Place, Problem> {
        let mut part = self.places.part(holder.clone());
        part.grow(1).map_err(|full| {
            let why = "too many requests and streams are open";
            refusal(full, self.whose, why, self.retry_after)
        })?;
        Ok(Place { holder, _part: part })
    }

    /// Room for a body that is still to arrive.
    pub(crate) fn body(&self, holder: Holder) -> BodyRoom {
        let part = self.bodies.part(holder);
        BodyRoom { part, whose: self.whose, retry_after: self.retry_after }
    }
}

/// What a body takes of the memory, for as long as somebody works with it.
#[derive(Debug)]
pub(crate) struct BodyRoom {
    part: Part,
    whose: &'static str,
    retry_after: u64,
}

impl BodyRoom {
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<(), Problem> {
        self.part.grow(bytes as u64).map_err(|full| {
            let why = "too many bytes of bodies are on their way";
            refusal(full, self.whose, why, self.retry_after)
        })
    }
}

/// A full host is 503. A caller that has used up only its own part gets 429.
fn refusal(full: Full, whose: &'static str, why: &str, retry_after: u64) -> Problem {
    let scope = match full {
        Full::Host => {
            return Problem::unavailable(&format!("this host is busy: {why}"), retry_after);
        }
        Full::Tenant => "tenant",
        Full::Holder => whose,
    };
    Problem::new(Code::RateLimited, format!("the share of this {scope} is used up: {why}"))
        .with("scope", scope)
        .with("retryAfterMs", retry_after.saturating_mul(1000))
        .retry_after(retry_after)
}

impl Holder {
    pub(crate) fn key(caller: &Caller) -> Self {
        Self { tenant: caller.scope.tenant.clone(), name: caller.key_id.as_str().to_owned() }
    }

    /// A door of a tenant: a subscription, or a run that asked.
    pub(crate) fn door(tenant: &Tenant, name: &str) -> Self {
        Self { tenant: tenant.clone(), name: name.to_owned() }
    }

    /// Those of whom nothing is known. No tenant has an empty name.
    pub(crate) fn stranger(at: &str) -> Self {
        Self { tenant: "".into(), name: at.to_owned() }
    }
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct Place {
    holder: Holder,
    _part: Part,
}

impl Place {
    /// Keeps the place until the last byte of the body has gone out or nobody wants it any more.
    pub(crate) fn hold(
        self,
        load: &Load,
        busy: Option<Busy>,
        response: Response,
    ) -> Result<Response, Problem> {
        let bytes = response.body().size_hint().exact().filter(|bytes| *bytes > SMALL_ANSWER);
        let room = bytes.map(|bytes| load.answer(self.holder.clone(), bytes)).transpose()?;
        let held = (self, room, busy);
        // `map_err` is the combinator that keeps the length of the body; the errors stay as they are.
        Ok(response.map(|body| {
            Body::new(body.map_err(move |error| {
                let _held = &held;
                error
            }))
        }))
    }
}
