//! What handlers take from a request, with problems instead of the framework's own refusals.

use axum::body::{Bytes, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use callboard_protocol::Object;
use serde::de::DeserializeOwned;

use crate::idempotency::Keyed;
use crate::keys::Caller;
use crate::problem::{Code, Problem};

/// The one id in the path.
#[derive(Debug)]
pub struct Named<T>(pub T);

impl<S: Send + Sync, T: From<String>> FromRequestParts<S> for Named<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let path = Path::<String>::from_request_parts(parts, state).await;
        let Path(id) = path.map_err(|_| Problem::invalid("the path cannot be read"))?;
        Ok(Self(id.into()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        // The gate put it there; a public operation that asks for a caller is a mistake of ours.
        let nobody = || Problem::new(Code::InternalError, "something went wrong on this side");
        parts.extensions.remove::<Self>().ok_or_else(nobody)
    }
}

/// Who asks, where the operation also answers those who show no key.
#[derive(Debug)]
pub(crate) struct MaybeCaller(pub(crate) Option<Caller>);

impl<S: Send + Sync> FromRequestParts<S> for MaybeCaller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(parts.extensions.remove::<Caller>()))
    }
}

/// The request's idempotency key, if it has one.
#[derive(Debug)]
pub(crate) struct MaybeKeyed(pub(crate) Option<Keyed>);

impl<S: Send + Sync> FromRequestParts<S> for MaybeKeyed {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        Ok(Self(parts.extensions.get::<Keyed>().cloned()))
    }
}

/// The body as it was sent.
#[derive(Debug)]
pub struct Sent(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Sent {
    type Rejection = Problem;

    async fn from_request(request: Request, _: &S) -> Result<Self, Problem> {
        // The gate has bounded it already.
        let bytes = to_bytes(request.into_body(), usize::MAX).await;
        bytes.map(Self).map_err(|_| Problem::invalid("the body cannot be read"))
    }
}

/// A closed JSON body.
#[derive(Debug)]
pub struct Shaped<T>(pub T);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Shaped<T> {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Self, Problem> {
        let Sent(bytes) = Sent::from_request(request, state).await?;
        parse(&bytes).map(Self)
    }
}

/// Reads a body whose top must be an object. A derived reader would take an array too, field by field.
pub fn parse<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, Problem> {
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(Problem::invalid("the body is empty; send a JSON object"));
    }
    let object: Object = callboard_protocol::parse(bytes)?;
    Ok(callboard_protocol::parse_value(object.into())?)
}
