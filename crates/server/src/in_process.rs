//! Calls of the API from within the process, by a program that knows who asks: the same router, gate, scopes and refusals as
//! over a socket, with the key named by its id instead of shown.

use axum::body::{Body, BodyDataStream, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, Method, StatusCode, header};
use callboard_protocol::KeyId;
use futures_util::StreamExt as _;
use futures_util::stream::BoxStream;
use tower::ServiceExt as _;

use crate::routes::Surface;

/// Whose key a request is made with, put there by the program itself. No request from a socket can have it.
#[derive(Debug, Clone)]
pub(crate) struct ActingKey(pub(crate) KeyId);

/// Marks a request of a program in this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InHouse;

/// The API without a socket. Cheap to clone.
#[derive(Clone)]
pub struct InProcess {
    surface: Surface,
}

/// One request.
#[derive(Debug, Clone)]
pub struct InProcessCall<'a> {
    pub caller: Caller<'a>,
    pub method: Method,
    /// With its query.
    pub path: &'a str,
    /// The media type, and what is sent.
    pub body: Option<(&'static str, String)>,
    pub if_match: Option<&'a str>,
    pub last_event_id: Option<u64>,
    pub idempotency_key: Option<&'a str>,
}

/// Who asks.
#[derive(Debug, Clone, Copy)]
pub enum Caller<'a> {
    /// A caller with a key.
    Shows(&'a str),
    /// The holder of a key who has shown it before.
    Acts(&'a KeyId),
}

/// What came back. Its body is read as it comes.
pub struct InProcessAnswer {
    pub status: StatusCode,
    body: Body,
}

impl std::fmt::Debug for InProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcess").finish_non_exhaustive()
    }
}

impl std::fmt::Debug for InProcessAnswer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("InProcessAnswer").field("status", &self.status).finish_non_exhaustive()
    }
}

impl InProcess {
    pub fn new(surface: Surface) -> Self {
        Self { surface }
    }

    /// Err: the path or the key cannot be sent.
    pub async fn call(
        &self,
        call: InProcessCall<'_>,
    ) -> Result<InProcessAnswer, axum::http::Error> {
        let mut request = Request::builder().method(call.method).uri(call.path);
        if let Caller::Shows(key) = call.caller {
            let mut value = HeaderValue::from_str(&format!("Bearer {key}"))?;
            value.set_sensitive(true);
            request = request.header(header::AUTHORIZATION, value);
        }
        if let Some(tag) = call.if_match {
            request = request.header(header::IF_MATCH, tag);
        }
        if let Some(id) = call.last_event_id {
            request = request.header("last-event-id", id);
        }
        if let Some(key) = call.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        let body = match call.body {
            Some((media_type, text)) => {
                request = request.header(header::CONTENT_TYPE, media_type);
                Body::from(text)
            }
            None => Body::empty(),
        };
        let mut request = request.body(body)?;
        request.extensions_mut().insert(InHouse);
        if let Caller::Acts(key) = call.caller {
            request.extensions_mut().insert(ActingKey(key.clone()));
        }
        let response = match self.surface.clone().oneshot(request).await {
            Ok(response) => response,
            Err(never) => match never {},
        };
        let status = response.status();
        Ok(InProcessAnswer { status, body: Body::new(response.into_body()) })
    }
}

impl InProcessAnswer {
    /// The whole body, up to so many bytes. None: there is more, or it broke off.
    pub async fn bytes(self, most: usize) -> Option<Bytes> {
        axum::body::to_bytes(self.body, most).await.ok()
    }

    /// The body as it comes; it ends where it breaks off.
    pub fn stream(self) -> BoxStream<'static, Bytes> {
        let stream: BodyDataStream = self.body.into_data_stream();
        stream
            .take_while(|piece| std::future::ready(piece.is_ok()))
            .filter_map(|piece| std::future::ready(piece.ok()))
            .boxed()
    }
}
