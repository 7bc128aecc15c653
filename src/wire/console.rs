//! The console over the host's own API: the same router and gate as over a socket, asked in the name of a key; its
//! sessions are in the host's store.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::StreamExt as _;
use reqwest::StatusCode;

use callboard_console::{
    Answer, Api, ApiError, Call, CallBody, Console, EXTENSION, Frames, Hash, Identity, InMemory,
    Lifetime, Refused, Session, Sessions, SessionsError,
};
use callboard_engine::{
    Clock as _, ConsoleSession, ConsoleSessions, Store, StoreError, SystemClock,
};
use callboard_protocol::KeyId;
use callboard_server::{
    InProcess, InProcessAnswer, InProcessCall, InProcessCaller, KeyRing, Surface, is_of_issuer,
};

/// The largest answer that a page is made from; a debug bundle has at most half of it.
pub(crate) const LARGEST_ANSWER: usize = 16 * 1024 * 1024;

#[derive(Debug)]
struct HostApi(InProcess);

#[derive(Debug)]
struct StoredSessions {
    all: ConsoleSessions,
    keys: KeyRing,
    lifetime: Lifetime,
}

pub(super) fn open(
    api: &Surface,
    store: Arc<dyn Store>,
    keys: &KeyRing,
    lifetime: Lifetime,
) -> Console {
    let api = Arc::new(HostApi(InProcess::new(api.clone())));
    let (all, keys) = (ConsoleSessions::new(store), keys.clone());
    let sessions = Arc::new(StoredSessions { all, keys, lifetime });
    Console::new(api, sessions, lifetime, || SystemClock.now())
}

/// A console over any API, whose sessions end with this process.
pub(crate) fn over(api: Arc<dyn Api>) -> Console {
    let lifetime = Lifetime::default();
    Console::new(api, Arc::new(InMemory::new(lifetime)), lifetime, || SystemClock.now())
}

/// An address that a browser on this machine can open, and that signs it in.
pub(crate) fn link(
    console: &Console,
    scheme: &str,
    listens: SocketAddr,
    key: KeyId,
) -> Option<String> {
    Some(format!("{}{}", near(scheme, listens), console.link(key)?))
}

/// Where a browser on this machine finds who listens.
pub(crate) fn near(scheme: &str, listens: SocketAddr) -> String {
    let near = match listens.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    format!("{scheme}://{}", SocketAddr::new(near, listens.port()))
}

#[async_trait]
impl Api for HostApi {
    async fn sign_in(&self, key: &str) -> Result<Identity, ApiError> {
        let call = Call::get(format!("{EXTENSION}/whoami"));
        let answer = self.send(InProcessCaller::Shows(key), &call, None).await?;
        let body = read(answer).await?.into_result()?;
        let who: Identity = serde_json::from_value(body)
            .map_err(|error| ApiError::Unreachable(error.to_string()))?;
        // A session would outlast it.
        if is_of_issuer(&who.key_id) {
            return Err(ApiError::Refused(Refused {
                status: StatusCode::FORBIDDEN,
                code: "forbidden".to_owned(),
                message: "this is a token, which counts for a short time; sign in with a key, or with its issuer".to_owned(),
                field: None,
                problems: Vec::new(),
            }));
        }
        Ok(who)
    }

    async fn call(&self, caller: &KeyId, call: Call) -> Result<Answer, ApiError> {
        read(self.send(InProcessCaller::Acts(caller), &call, None).await?).await
    }

    async fn follow(
        &self,
        caller: &KeyId,
        path: &str,
        last_seen: Option<u64>,
    ) -> Result<Frames, ApiError> {
        let call = Call::get(path);
        let answer = self.send(InProcessCaller::Acts(caller), &call, last_seen).await?;
        if !answer.status.is_success() {
            let refused = read(answer).await?.into_result();
            return Err(refused.err().unwrap_or_else(broken));
        }
        Ok(Box::pin(answer.stream().map(|bytes| Ok(bytes.to_vec()))))
    }
}

impl HostApi {
    async fn send(
        &self,
        caller: InProcessCaller<'_>,
        call: &Call,
        last_event_id: Option<u64>,
    ) -> Result<InProcessAnswer, ApiError> {
        let call = InProcessCall {
            caller,
            method: call.method.clone(),
            path: &call.path,
            body: call.body.as_ref().map(sent),
            if_match: call.if_match.as_deref(),
            last_event_id,
            idempotency_key: None,
        };
        self.0.call(call).await.map_err(|error| ApiError::Unreachable(error.to_string()))
    }
}

/// The media type and the text of a body.
pub(crate) fn sent(body: &CallBody) -> (&'static str, String) {
    match body {
        CallBody::Json(value) => ("application/json", value.to_string()),
        CallBody::Text { media_type, text } => (media_type, text.clone()),
    }
}

#[async_trait]
impl Sessions for StoredSessions {
    async fn begin(&self, hash: &Hash, session: Session) -> Result<(), SessionsError> {
        let ends_at = session.ends(self.lifetime);
        let (session, place) = (stored(session.clone()), self.keys.place_of(&session.key));
        self.all.begin(hash, &session, ends_at, place).await.map_err(unreached)
    }

    async fn find(&self, hash: &Hash) -> Result<Option<Session>, SessionsError> {
        let found = self.all.find(hash).await.map_err(unreached)?;
        Ok(found.map(|it| Session { key: it.key, created: it.created_at, seen: it.seen_at }))
    }

    async fn touch(&self, hash: &Hash, session: Session) -> Result<(), SessionsError> {
        let ends_at = session.ends(self.lifetime);
        self.all.touch(hash, &stored(session), ends_at).await.map_err(unreached)
    }

    async fn end(&self, hash: &Hash) -> Result<(), SessionsError> {
        self.all.end(hash).await.map_err(unreached)
    }

    async fn end_all_of(&self, key: &KeyId) -> Result<(), SessionsError> {
        self.all.end_all_of(key).await.map_err(unreached)
    }
}

fn stored(Session { key, created, seen }: Session) -> ConsoleSession {
    ConsoleSession { key, created_at: created, seen_at: seen }
}

fn unreached(error: StoreError) -> SessionsError {
    SessionsError(error.to_string())
}

async fn read(answer: InProcessAnswer) -> Result<Answer, ApiError> {
    let status = answer.status;
    let bytes = answer.bytes(LARGEST_ANSWER).await.ok_or_else(broken)?;
    // Nothing, and what is no JSON, is shown as nothing; the status says what happened.
    Ok(Answer { status, body: serde_json::from_slice(&bytes).unwrap_or_default() })
}

fn broken() -> ApiError {
    ApiError::Unreachable("the answer broke off or is too large".to_owned())
}
