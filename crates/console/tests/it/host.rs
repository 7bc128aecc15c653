//! A host that answers what a test says, and a browser without script.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, StatusCode};
use callboard_console::{
    Answer, Api, ApiError, Call, CallBody, Console, Frames, Identity, InMemory, Lifetime,
};
use callboard_protocol::{KeyId, Timestamp};
use futures_util::StreamExt as _;
use serde_json::{Value, json};
use tower::ServiceExt as _;

pub(crate) const KEY: &str = "cb_the_key";

/// Answers by path without its query; whatever is not known is not found.
#[derive(Debug, Default)]
pub(crate) struct MadeUp {
    pub(crate) answers: Mutex<BTreeMap<String, Value>>,
    pub(crate) calls: Mutex<Vec<(String, Option<Value>)>>,
    pub(crate) revoked: Mutex<bool>,
    pub(crate) scopes: Option<Vec<String>>,
    /// What an event stream says, piece by piece.
    pub(crate) frames: Mutex<Vec<String>>,
    /// Whoever asks for a run, and the stream after its first piece, need the one turn there is, in order.
    pub(crate) turns: Option<Arc<tokio::sync::Semaphore>>,
    /// The stream stays open for a while after the last piece.
    pub(crate) lingers: Mutex<bool>,
}

impl MadeUp {
    fn identity(&self) -> Value {
        json!({ "keyId": "key_1", "name": "first admin key", "tenant": "default", "scopes": self.scopes })
    }

    pub(crate) fn say(&self, path: &str, answer: Value) {
        self.answers.lock().unwrap().insert(path.to_owned(), answer);
    }

    /// What was asked for that changes something.
    pub(crate) fn changes(&self) -> Vec<(String, Option<Value>)> {
        self.calls
            .lock()
            .unwrap()
            .iter()
            .filter(|(path, _)| !path.starts_with("GET"))
            .cloned()
            .collect()
    }
}

#[async_trait]
impl Api for MadeUp {
    async fn sign_in(&self, key: &str) -> Result<Identity, ApiError> {
        let answer = match key {
            KEY => Answer { status: StatusCode::OK, body: self.identity() },
            _ => Answer {
                status: StatusCode::UNAUTHORIZED,
                body: json!({ "error": "unauthenticated", "message": "this host does not know the key" }),
            },
        };
        Ok(serde_json::from_value(answer.into_result()?).unwrap())
    }

    async fn call(&self, _: &KeyId, call: Call) -> Result<Answer, ApiError> {
        if *self.revoked.lock().unwrap() {
            return Ok(Answer {
                status: StatusCode::UNAUTHORIZED,
                body: json!({ "error": "key_revoked", "message": "this key was revoked" }),
            });
        }
        let _turn = match &self.turns {
            Some(turns) if call.path.starts_with("/v1/runs/") => {
                Some(turns.acquire().await.unwrap())
            }
            _ => None,
        };
        let path = call.path.split('?').next().unwrap_or_default().to_owned();
        let body = call.body.map(|body| match body {
            CallBody::Json(value) => value,
            CallBody::Text { text, .. } => json!(text),
        });
        self.calls.lock().unwrap().push((format!("{} {path}", call.method), body));
        if path.ends_with("/whoami") {
            return Ok(Answer { status: StatusCode::OK, body: self.identity() });
        }
        let known = self.answers.lock().unwrap().get(&path).cloned();
        Ok(match known {
            Some(body) => Answer { status: StatusCode::OK, body },
            None => Answer {
                status: StatusCode::NOT_FOUND,
                body: json!({ "error": "not_found", "message": "no such thing" }),
            },
        })
    }

    async fn follow(&self, _: &KeyId, _: &str, _: Option<u64>) -> Result<Frames, ApiError> {
        let pieces = std::mem::take(&mut *self.frames.lock().unwrap());
        let lingers = *self.lingers.lock().unwrap();
        let said = futures_util::stream::iter(pieces.into_iter().map(|it| Ok(it.into_bytes())));
        let turns = self.turns.clone();
        let quiet = futures_util::stream::once(async move {
            if let Some(turns) = turns {
                tokio::time::sleep(std::time::Duration::from_millis(60)).await;
                drop(turns.acquire().await.unwrap());
            }
            if lingers {
                tokio::time::sleep(std::time::Duration::from_millis(500)).await;
            }
            Ok(Vec::new())
        });
        Ok(Box::pin(said.chain(quiet)))
    }
}

/// A browser without script, on one host.
pub(crate) struct Browser {
    pub(crate) host: Arc<MadeUp>,
    pub(crate) console: Console,
    router: Router,
    cookie: Option<String>,
}

pub(crate) struct Shown {
    pub(crate) status: u16,
    pub(crate) text: String,
    headers: BTreeMap<String, String>,
}

impl Shown {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// The token that the page's forms carry.
    pub(crate) fn form_token(&self) -> String {
        let (_, rest) = self.text.split_once("name=\"_form\" value=\"").expect("a form");
        rest.split('"').next().unwrap_or_default().to_owned()
    }
}

impl Browser {
    pub(crate) fn at(host: MadeUp) -> Self {
        Self::with(host, Lifetime::default())
    }

    pub(crate) fn with(host: MadeUp, lifetime: Lifetime) -> Self {
        let host = Arc::new(host);
        let now = || "2026-01-31T07:00:00Z".parse::<Timestamp>().unwrap();
        let console = Console::new(host.clone(), Arc::new(InMemory::new(lifetime)), lifetime, now);
        Self { host, router: console.router(), console, cookie: None }
    }

    pub(crate) async fn signed_in(host: MadeUp) -> Self {
        let mut browser = Self::at(host);
        let shown = browser.post("/console/login", &[("key", KEY)]).await;
        assert_eq!(shown.status, 303, "{}", shown.text);
        browser
    }

    pub(crate) async fn get(&mut self, path: &str) -> Shown {
        let request = Request::get(path).header("host", "127.0.0.1:8787");
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub(crate) async fn post(&mut self, path: &str, form: &[(&str, &str)]) -> Shown {
        self.post_from("http://127.0.0.1:8787", path, form).await
    }

    pub(crate) async fn post_from(
        &mut self,
        origin: &str,
        path: &str,
        form: &[(&str, &str)],
    ) -> Shown {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(form).finish();
        let request = Request::post(path)
            .header("host", "127.0.0.1:8787")
            .header("origin", origin)
            .header("content-type", "application/x-www-form-urlencoded");
        self.send(request.body(Body::from(body)).unwrap()).await
    }

    /// A stream to its end, in the pieces in which it is sent.
    pub(crate) async fn pieces(&mut self, path: &str) -> Vec<String> {
        let request = Request::get(path).header("host", "127.0.0.1:8787");
        let mut request =
            request.header("accept", "text/event-stream").body(Body::empty()).unwrap();
        let cookie = self.cookie.as_deref().expect("somebody who is signed in");
        request.headers_mut().insert("cookie", cookie.parse().unwrap());
        let response = self.router.clone().oneshot(request).await.unwrap();
        let pieces = response.into_body().into_data_stream();
        pieces.map(|piece| String::from_utf8_lossy(&piece.unwrap()).into_owned()).collect().await
    }

    pub(crate) async fn send(&mut self, mut request: Request<Body>) -> Shown {
        if let Some(cookie) = &self.cookie {
            request.headers_mut().insert("cookie", cookie.parse().unwrap());
        }
        let response = self.router.clone().oneshot(request).await.unwrap();
        let headers = response.headers();
        let headers: BTreeMap<String, String> = headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.to_str().unwrap_or_default().to_owned()))
            .collect();
        if let Some(cookie) = headers.get("set-cookie").and_then(|cookie| cookie.split(';').next())
        {
            self.cookie = Some(cookie.to_owned());
        }
        let status = response.status().as_u16();
        let bytes = to_bytes(response.into_body(), 8 << 20).await.unwrap();
        Shown { status, text: String::from_utf8_lossy(&bytes).into_owned(), headers }
    }
}
