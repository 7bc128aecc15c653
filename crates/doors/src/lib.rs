//! Doors: ways into a host that others have defined. Each is a client of the public API with the caller's own key, so that
//! keys, scopes, tenants, limits and idempotency hold here because they hold there.

mod api;
mod caller;
mod chat;
mod mcp;
mod offer;
mod question;
mod run;

use std::sync::Arc;

use axum::Router;
use axum::http::{HeaderMap, header};
use rmcp::ServiceExt as _;
use secrecy::SecretString;
use tokio_util::sync::CancellationToken;

pub use api::{Answer, Api, ApiError, Call, Refused};

use caller::Caller;
use mcp::Mcp;

/// The doors of one host.
#[derive(Debug)]
pub struct Doors {
    api: Arc<dyn Api>,
    stop: CancellationToken,
}

impl Doors {
    /// The token ends what is open at them.
    pub fn new(api: Arc<dyn Api>, stop: CancellationToken) -> Self {
        Self { api, stop }
    }

    /// Everything at `/mcp` and below `/openai/v1`.
    pub fn router(&self) -> Router {
        let chat = chat::router(Arc::clone(&self.api), self.stop.clone());
        mcp::http::router(Arc::clone(&self.api), self.stop.clone()).merge(chat)
    }
}

/// Serves one client on standard input and output until it goes. Err: the client and this server do not understand each other.
pub async fn serve_stdio(api: Arc<dyn Api>, key: SecretString, base: String) -> Result<(), String> {
    let server = Mcp::of(Caller::new(api, key, base));
    let running =
        server.serve(rmcp::transport::stdio()).await.map_err(|error| error.to_string())?;
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}

/// Where the sender of a request reaches the host, for links that people open. The server has checked the name.
fn base(headers: &HeaderMap) -> String {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    let is_plain = |name: &&str| {
        name.len() <= 255
            && name.bytes().all(|b| b.is_ascii_alphanumeric() || b".-:[]_".contains(&b))
    };
    let scheme = match headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok()) {
        Some("https") => "https",
        _ => "http",
    };
    text(header::HOST)
        .filter(is_plain)
        .map_or_else(String::new, |host| format!("{scheme}://{host}"))
}
