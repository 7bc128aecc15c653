//! Hosts on which the protocol's first major has ended: what these commands say is heard there under the host's own name.

use reqwest::{Method, RequestBuilder, Response, StatusCode};

use super::{Client, EXTENSION};

/// Where a host hears the first major from its own programs, whatever it says to others.
const OWN: &str = "/host/callboard";

impl Client {
    /// Where a request of the first major is heard: for what can be sent only once.
    pub(super) async fn place_of(&self, path: &str) -> String {
        let asked = self.request(Method::GET, &format!("{EXTENSION}/whoami")).send().await;
        match asked {
            Ok(answer) if is_said_by(&answer) => format!("{OWN}{path}"),
            Ok(_) | Err(_) => path.to_owned(),
        }
    }
}

/// Whether an answer to a request of the first major says that there is none.
fn is_said_by(answer: &Response) -> bool {
    let version = answer.headers().get("openwop-version").and_then(|it| it.to_str().ok());
    answer.status() == StatusCode::NOT_FOUND
        && version.is_some_and(|version| version.starts_with("2."))
        && answer.url().path().starts_with("/v1/")
}

/// The same request under the host's own name; none where it cannot be sent.
fn renamed(http: &reqwest::Client, request: RequestBuilder) -> Option<RequestBuilder> {
    let mut request = request.build().ok()?;
    let path = format!("{OWN}{}", request.url().path());
    request.url_mut().set_path(&path);
    Some(RequestBuilder::from_parts(http.clone(), request))
}

/// Sends a request, and once more under the host's own name where the first major has ended.
pub(crate) async fn send(
    http: &reqwest::Client,
    request: RequestBuilder,
    send: impl AsyncFn(RequestBuilder) -> Result<Response, reqwest::Error>,
) -> Result<Response, reqwest::Error> {
    let again = request.try_clone();
    let answer = send(request).await?;
    if !is_said_by(&answer) {
        return Ok(answer);
    }
    match again.and_then(|request| renamed(http, request)) {
        Some(request) => send(request).await,
        None => Ok(answer),
    }
}
