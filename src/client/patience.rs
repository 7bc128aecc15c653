//! Waiting a moment for a host that was just started on this machine.

use std::time::Duration;

use reqwest::{RequestBuilder, Response};

/// A host opens its database before it listens; a command typed right after `callboard serve &` comes
/// first. Longer than that takes, and short enough for users who have no host and wait for the error.
const WITHIN: Duration = Duration::from_secs(1);
const BETWEEN: Duration = Duration::from_millis(50);

/// Repeats a request while no one listens: a refused connection has carried nothing.
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
