//! `/mcp`: the protocol over streamable HTTP. A session belongs to the key that opened it; to any other it does not exist.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use rmcp::model::ProtocolVersion;
use rmcp::transport::streamable_http_server::session::local::{LocalSessionManager, SessionConfig};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::{Mcp, places};
use crate::api::{Api, ApiError};
use crate::caller::{Caller, bearer};

const SESSION: &str = "mcp-session-id";
/// Sessions of one process, and of one key: each is a task and some buffers.
const MOST_SESSIONS: usize = 1024;
const MOST_OF_A_KEY: usize = 128;
/// People leave their editor open over lunch.
const IDLE: Duration = Duration::from_secs(3600);
/// Inputs of a run are smaller than this, so is what a client says about itself.
const LARGEST_BODY: usize = 4 * 1024 * 1024;

pub(crate) fn router(api: Arc<dyn Api>, stop: CancellationToken) -> Router {
    let (places, own) = (places(), Arc::clone(&api));
    let mut session = SessionConfig::default();
    session.keep_alive = Some(IDLE);
    let mut manager = LocalSessionManager::default();
    manager.session_config = session;
    // The server in front of this checks the host's name, and nobody enters without a key.
    let config = StreamableHttpServerConfig::default()
        .disable_allowed_hosts()
        .with_max_request_body_bytes(LARGEST_BODY)
        .with_cancellation_token(stop);
    let service = StreamableHttpService::new(
        move || Ok(Mcp::over_http(Arc::clone(&own), Arc::clone(&places))),
        Arc::new(manager),
        config,
    );
    let guard = Arc::new(Guard { api, sessions: Mutex::default() });
    Router::new().route_service("/mcp", service).layer(from_fn_with_state(guard, admit))
}

#[derive(Debug)]
struct Guard {
    api: Arc<dyn Api>,
    sessions: Mutex<HashMap<String, Owned>>,
}

/// Whose a session is, and when it was last used.
#[derive(Debug)]
struct Owned {
    key: String,
    seen: Instant,
}

async fn admit(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let key = match guard.authenticate(request.headers()).await {
        Ok(key) => key,
        Err(error) => return refuse(&error),
    };
    let session = named(request.headers());
    let (is_end, method) = (request.method() == Method::DELETE, request.method().clone());
    match &session {
        Some(session) if !guard.is_open_to(session, &key) => {
            return (StatusCode::NOT_FOUND, "Not Found: Session not found").into_response();
        }
        None if method == Method::POST && opens(request.headers()) && guard.is_full(&key) => {
            let wait = [(header::RETRY_AFTER, "60")];
            return (StatusCode::TOO_MANY_REQUESTS, wait, "too many open sessions").into_response();
        }
        _ => {}
    }
    let response = next.run(request).await;
    match (session, named(response.headers())) {
        (Some(session), _) if is_end => guard.close(&session),
        (None, Some(opened)) => guard.open(opened, key),
        _ => {}
    }
    response
}

fn named(headers: &HeaderMap) -> Option<String> {
    headers.get(SESSION).and_then(|id| id.to_str().ok()).map(str::to_owned)
}

/// Whether a request without a session may open one: the newest versions of the protocol have none.
fn opens(headers: &HeaderMap) -> bool {
    let version = headers.get("mcp-protocol-version").and_then(|version| version.to_str().ok());
    version.is_none_or(|version| version < ProtocolVersion::V_2026_07_28.as_str())
}

fn refuse(error: &ApiError) -> Response {
    let body = json!({ "error": error.code(), "message": error.to_string() });
    let mut response = (error.status(), axum::Json(body)).into_response();
    if error.status() == StatusCode::UNAUTHORIZED {
        let bearer = axum::http::HeaderValue::from_static("Bearer");
        response.headers_mut().insert(header::WWW_AUTHENTICATE, bearer);
    }
    response
}

impl Guard {
    async fn authenticate(&self, headers: &HeaderMap) -> Result<String, ApiError> {
        let caller = Caller::new(Arc::clone(&self.api), bearer(headers)?, String::new());
        caller.key_id().await
    }

    fn is_open_to(&self, session: &str, key: &str) -> bool {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        match sessions.get_mut(session) {
            Some(owned) if owned.key == key => {
                owned.seen = Instant::now();
                true
            }
            Some(_) | None => false,
        }
    }

    fn is_full(&self, key: &str) -> bool {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|_, owned| owned.seen.elapsed() < IDLE);
        let own = sessions.values().filter(|owned| owned.key == key).count();
        sessions.len() >= MOST_SESSIONS || own >= MOST_OF_A_KEY
    }

    fn open(&self, session: String, key: String) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.insert(session, Owned { key, seen: Instant::now() });
    }

    fn close(&self, session: &str) {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(session);
    }
}
