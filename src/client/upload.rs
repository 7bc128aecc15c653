//! Requests that are larger than a host reads: a host that refuses one may close the connection while it is still being
//! sent, and then its answer does not always arrive.

use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use super::{Client, innermost};
use crate::exit::CommandError;

/// Below it a request is sent at once, and a connection that breaks has another cause.
const LARGE: usize = 64 * 1024;

/// How much a request sends, as far as that is known.
pub(super) fn size(request: &RequestBuilder) -> usize {
    let built = request.try_clone().and_then(|request| request.build().ok());
    built.and_then(|request| Some(request.body()?.as_bytes()?.len())).unwrap_or(0)
}

/// Whether the host closed the connection while it was sent something large. That it took the connection shows that it is
/// there.
pub(super) fn is_cut_off(error: &reqwest::Error, size: usize) -> bool {
    size > LARGE && !error.is_connect() && !error.is_timeout() && !error.is_builder()
}

impl Client {
    /// What such an end means: the host says how much it takes.
    pub(super) async fn cut_off(&self, error: &reqwest::Error, size: usize) -> CommandError {
        let base = self.base();
        let broke = format!(
            "{base} ended the connection while {size} bytes were sent: {}",
            innermost(error)
        );
        let discovered = self.request(Method::GET, "/.well-known/openwop").send().await;
        let known: Option<Value> = match discovered {
            Ok(response) => response.json().await.ok(),
            Err(_) => return self.unreachable(error),
        };
        let limit =
            known.as_ref().and_then(|known| known.pointer("/limits/maxRequestBodyBytes")?.as_u64());
        match limit {
            Some(limit) if size as u64 > limit => CommandError::failed(format!(
                "too large for this host: {size} bytes, limit {limit}"
            ))
            .hint("send less, or raise limits.max_body_bytes in the host's callboard.toml"),
            _ => CommandError::failed(broke).hint(
                "the host is reachable: try again; a proxy in between may accept smaller bodies than the host",
            ),
        }
    }
}
