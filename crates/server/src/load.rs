//! How much the host does at once: requests and open streams take a place for their whole life.

use std::sync::Arc;

use ::metrics::Gauge;
use axum::body::Body;
use axum::response::Response;
use http_body_util::BodyExt;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::metrics;
use crate::problem::Problem;

#[derive(Debug)]
pub(crate) struct Load {
    places: Arc<Semaphore>,
    taken: Gauge,
    retry_after: u64,
}

impl Load {
    pub(crate) fn new(inflight: usize, retry_after: u64) -> Self {
        Self {
            places: Arc::new(Semaphore::new(inflight.clamp(1, Semaphore::MAX_PERMITS))),
            taken: metrics::inflight(),
            retry_after,
        }
    }

    /// Takes a place or refuses; nobody waits here, because waiting is what a full host must not offer.
    pub(crate) fn enter(&self) -> Result<Place, Problem> {
        match Arc::clone(&self.places).try_acquire_owned() {
            Ok(permit) => {
                self.taken.increment(1.0);
                Ok(Place { taken: self.taken.clone(), _permit: permit })
            }
            Err(_) => Err(Problem::unavailable("this host is busy", self.retry_after)),
        }
    }
}

/// One request in flight.
#[derive(Debug)]
pub(crate) struct Place {
    taken: Gauge,
    _permit: OwnedSemaphorePermit,
}

impl Place {
    /// Keeps the place until the last byte of the body has gone out or nobody wants it any more.
    pub(crate) fn hold(self, response: Response) -> Response {
        // `map_err` is the combinator that keeps the length of the body; the errors stay as they are.
        response.map(|body| {
            Body::new(body.map_err(move |error| {
                let _held = &self;
                error
            }))
        })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.taken.decrement(1.0);
    }
}
