//! What is left of a body when the answer is there: read if it is at hand, otherwise the answer says that the connection
//! ends. A client that keeps connections would send its next request into one that closes.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use futures_util::FutureExt;
use http_body_util::BodyExt;
use hyper::body::{Frame, SizeHint};

/// What is read and dropped to keep a connection. More is not worth it.
const MOST_BYTES: usize = 64 * 1024;

/// The body of a request as far as nobody has read it.
#[derive(Debug)]
pub(crate) struct Rest(Option<Arc<Mutex<Arriving>>>);

#[derive(Debug)]
struct Arriving {
    body: Body,
    /// Whether reading it would ask a client for it that waits to be asked.
    is_unasked: bool,
    is_over: bool,
}

/// The same body, for those who work with the request.
struct Shared(Arc<Mutex<Arriving>>);

impl Rest {
    /// To be taken before the body is read.
    pub(crate) fn of(request: &mut Request) -> Self {
        if request.body().is_end_stream() {
            return Self(None);
        }
        let is_unasked = request.headers().contains_key(header::EXPECT);
        let body = std::mem::take(request.body_mut());
        let arriving = Arc::new(Mutex::new(Arriving { body, is_unasked, is_over: false }));
        *request.body_mut() = Body::new(Shared(Arc::clone(&arriving)));
        Self(Some(arriving))
    }

    /// To be done once the answer is there.
    pub(crate) fn settle(self, response: &mut Response) {
        let Some(arriving) = self.0 else { return };
        // A panic of a reader leaves nothing behind that this could not drop.
        if !arriving.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
    }
}

impl Arriving {
    /// Whether nothing is left of it, now that what was at hand is dropped.
    fn drain(&mut self) -> bool {
        let mut dropped = 0;
        while !self.is_over && !self.is_unasked && dropped < MOST_BYTES {
            match self.body.frame().now_or_never() {
                Some(Some(Ok(frame))) => dropped += frame.data_ref().map_or(0, Bytes::len),
                Some(None) => self.is_over = true,
                Some(Some(Err(_))) | None => break,
            }
        }
        self.is_over
    }
}

impl HttpBody for Shared {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let mut arriving = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arriving.is_unasked = false;
        let polled = Pin::new(&mut arriving.body).poll_frame(cx);
        arriving.is_over |= matches!(polled, Poll::Ready(None));
        polled
    }

    fn is_end_stream(&self) -> bool {
        let arriving = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        arriving.is_over || arriving.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::stream;

    use super::*;

    /// Whether the answer to a request with this body, of which nobody read anything, ends the connection.
    fn closes(mut request: Request) -> bool {
        let rest = Rest::of(&mut request);
        drop(request);
        let mut response = Response::new(Body::empty());
        rest.settle(&mut response);
        response.headers().contains_key(header::CONNECTION)
    }

    fn pending() -> Body {
        Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>())
    }

    #[test]
    fn what_is_at_hand_keeps_the_connection_and_what_is_not_ends_it() {
        assert!(!closes(Request::new(Body::empty())));
        assert!(!closes(Request::new(Body::from("a few words"))));
        assert!(closes(Request::new(pending())));
        let pieces = (0..100).map(|_| Ok::<_, std::io::Error>(vec![0_u8; 4096]));
        assert!(closes(Request::new(Body::from_stream(stream::iter(pieces)))));
    }

    #[test]
    fn who_waits_to_be_asked_is_not_asked_for_nothing() {
        let request = Request::builder().header(header::EXPECT, "100-continue");
        assert!(closes(request.body(Body::from("a few words")).unwrap_or_default()));
    }

    #[tokio::test]
    async fn a_body_that_was_read_keeps_the_connection() {
        let mut request = Request::new(Body::from("a few words"));
        let rest = Rest::of(&mut request);
        let read = request.into_body().collect().await.map(|body| body.to_bytes());
        assert_eq!(read.ok().as_deref(), Some(&b"a few words"[..]));
        let mut response = Response::new(Body::empty());
        rest.settle(&mut response);
        assert!(response.headers().is_empty());
    }
}
