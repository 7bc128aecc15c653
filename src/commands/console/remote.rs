//! The API of a host elsewhere, over HTTP. Whoever signs in shows a key, which stays in this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, IF_MATCH};
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::{Value, json};

use callboard_console::{Answer, Api, ApiError, Call, EXTENSION, Frames, Identity};
use callboard_protocol::KeyId;

use crate::client::{Client, ended};
use crate::exit::{CommandError, Exit};
use crate::wire::console::{LARGEST_ANSWER, sent};

/// A host that does not take a connection for this long is not there; people wait for the page.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than any answer that a page is made from takes.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// Hosts send a comment at least every thirty seconds; a stream that is silent for three times that is dead.
const STREAM_SILENCE: Duration = Duration::from_secs(90);
/// Keys that can be signed in with at one time. It is a console for one person or a few.
const MOST_KEYS: usize = 64;

#[derive(Debug)]
pub(super) struct RemoteApi {
    http: reqwest::Client,
    base: String,
    keys: Mutex<HashMap<KeyId, SecretString>>,
}

impl RemoteApi {
    pub(super) fn new(base: &str) -> Result<Self, CommandError> {
        let is_near = reqwest::Url::parse(base).is_ok_and(|url| {
            let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
            host == "localhost"
                || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
        });
        let builder = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(STREAM_SILENCE)
            // A key is for the host that was named and for no other.
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("callboard/", env!("CARGO_PKG_VERSION")));
        // A proxy for the outside world must not get requests to this machine.
        let builder = if is_near { builder.no_proxy() } else { builder };
        let http = builder
            .build()
            .map_err(|error| CommandError::failed(format!("no HTTP client: {error}")))?;
        Ok(Self { http, base: base.to_owned(), keys: Mutex::default() })
    }

    fn request(&self, method: Method, path: &str, key: &SecretString) -> RequestBuilder {
        let bearer = format!("Bearer {}", key.expose_secret());
        self.http.request(method, format!("{}{path}", self.base)).header(AUTHORIZATION, bearer)
    }

    fn key(&self, id: &KeyId) -> Result<SecretString, ApiError> {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        keys.get(id).cloned().ok_or_else(|| strange("no one has signed in with this key here"))
    }

    fn keep(&self, id: KeyId, key: SecretString) -> Result<(), ApiError> {
        let mut keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if keys.len() >= MOST_KEYS && !keys.contains_key(&id) {
            return Err(strange("too many keys are signed in here: start the console anew"));
        }
        keys.insert(id, key);
        Ok(())
    }

    /// What a key is called here whose host gives it no name.
    fn own_name(&self, key: &SecretString) -> KeyId {
        let keys = self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let known = keys.iter().find(|(_, known)| known.expose_secret() == key.expose_secret());
        known.map_or_else(|| KeyId::from(format!("key-{}", keys.len() + 1)), |(id, _)| id.clone())
    }

    async fn read(&self, request: RequestBuilder) -> Result<Answer, ApiError> {
        body(self.send(request).await?).await
    }

    async fn send(&self, request: RequestBuilder) -> Result<Response, ApiError> {
        ended::send(&self.http, request, RequestBuilder::send).await.map_err(unreachable)
    }

    /// Whose key it is. A host that is not ours cannot say it: then what the key may is found out by trying.
    async fn whoami(&self, key: &SecretString) -> Result<Answer, ApiError> {
        let request = self.request(Method::GET, &format!("{EXTENSION}/whoami"), key);
        let answer = self.read(request.timeout(REQUEST_TIMEOUT)).await?;
        if answer.status != StatusCode::NOT_FOUND {
            return Ok(answer);
        }
        let who = json!({ "keyId": self.own_name(key), "name": "key", "tenant": self.base });
        Ok(Answer { status: StatusCode::OK, body: who })
    }
}

#[async_trait]
impl Api for RemoteApi {
    async fn sign_in(&self, key: &str) -> Result<Identity, ApiError> {
        let key = SecretString::from(key.to_owned());
        let who = self.whoami(&key).await?.into_result()?;
        let who: Identity =
            serde_json::from_value(who).map_err(|error| strange(&error.to_string()))?;
        self.keep(who.key_id.clone(), key)?;
        Ok(who)
    }

    async fn call(&self, caller: &KeyId, call: Call) -> Result<Answer, ApiError> {
        let key = self.key(caller)?;
        if call.path == format!("{EXTENSION}/whoami") {
            return self.whoami(&key).await;
        }
        let mut request = self.request(call.method, &call.path, &key).timeout(REQUEST_TIMEOUT);
        if let Some(tag) = call.if_match {
            request = request.header(IF_MATCH, tag);
        }
        if let Some((media_type, text)) = call.body.as_ref().map(sent) {
            request = request.header(CONTENT_TYPE, media_type).body(text);
        }
        self.read(request).await
    }

    async fn follow(
        &self,
        caller: &KeyId,
        path: &str,
        last_seen: Option<u64>,
    ) -> Result<Frames, ApiError> {
        let mut request = self.request(Method::GET, path, &self.key(caller)?);
        if let Some(id) = last_seen {
            request = request.header("last-event-id", id);
        }
        let response = self.send(request).await?;
        if !response.status().is_success() {
            let refused = body(response).await?.into_result();
            return Err(refused
                .err()
                .unwrap_or_else(|| strange("a response that is not an event stream")));
        }
        let pieces = response.bytes_stream();
        Ok(Box::pin(pieces.map(|piece| piece.map(Vec::from).map_err(unreachable))))
    }
}

async fn body(mut response: Response) -> Result<Answer, ApiError> {
    let status = response.status();
    let mut bytes = Vec::new();
    while let Some(piece) = response.chunk().await.map_err(unreachable)? {
        if bytes.len() + piece.len() > LARGEST_ANSWER {
            return Err(strange("its answer is too large"));
        }
        bytes.extend_from_slice(&piece);
    }
    // Nothing, and what is no JSON, is shown as nothing; the status says what happened.
    Ok(Answer { status, body: serde_json::from_slice::<Value>(&bytes).unwrap_or_default() })
}

fn strange(why: &str) -> ApiError {
    ApiError::Unreachable(why.to_owned())
}

fn unreachable(error: reqwest::Error) -> ApiError {
    let error = error.without_url();
    let cause = std::error::Error::source(&error).map(ToString::to_string);
    ApiError::Unreachable(cause.unwrap_or_else(|| error.to_string()))
}

/// What the command says when no one can be signed in at the start.
pub(super) fn refused(client: &Client, error: &ApiError) -> CommandError {
    match error {
        ApiError::Refused(why) => CommandError::new(Exit::Refused, why.message.clone())
            .hint("set CALLBOARD_API_KEY to a key of that host, or leave it out and type one in the browser"),
        ApiError::Unreachable(why) => {
            CommandError::new(Exit::Unreachable, format!("{} cannot be reached: {why}", client.base()))
                .hint("check the address, and that the host runs")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    /// A host that knows no `whoami`, as others have none.
    fn foreign() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let _ = socket.read(&mut [0; 4096]);
                let answer =
                    "HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}";
                let _ = socket.write_all(answer.as_bytes());
            }
        });
        base
    }

    #[tokio::test]
    async fn keys_of_a_host_that_names_none_are_told_apart() -> anyhow::Result<()> {
        let api = RemoteApi::new(&foreign()).unwrap();
        let first = api.sign_in("one").await?;
        let second = api.sign_in("two").await?;
        assert_ne!(first.key_id, second.key_id);
        assert_eq!(api.sign_in("one").await?.key_id, first.key_id);
        assert!(first.may("runs:read"), "what it may is found out by trying");
        let asked = api.call(&second.key_id, Call::get(format!("{EXTENSION}/whoami"))).await?;
        assert_eq!(asked.body["keyId"], second.key_id.as_str());
        assert!(api.call(&KeyId::from("key-9"), Call::get("/v1/runs/x")).await.is_err());
        Ok(())
    }
}
