//! Waiting a moment for a host that somebody has just started on this machine.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};

/// A host opens its database before it listens; who types `callboard serve &` and the next command at once comes
/// first. Longer than that takes, and short enough for whoever has no host and waits to be told so.
const WITHIN: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_millis(50);

/// Sends a request again while nobody listens: a connection that was refused has carried nothing.
pub(super) async fn send(request: RequestBuilder) -> Result<Response, reqwest::Error> {
    let mut waited = Duration::ZERO;
    loop {
        let Some(attempt) = request.try_clone() else { return request.send().await };
        match attempt.send().await {
            Err(error) if error.is_connect() && waited < WITHIN => {
                tokio::time::sleep(BETWEEN).await;
                waited += BETWEEN;
            }
            sent => return sent,
        }
    }
}
