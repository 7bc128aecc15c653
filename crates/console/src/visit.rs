//! One request of somebody who is signed in: who it is, what was asked, and the way to the API in that name.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use callboard_protocol::Timestamp;
use serde_json::Value;

use crate::Console;
use crate::api::{ApiError, Call, Identity, with_query};
use crate::session::{Hash, Secret, Session};
use crate::trouble::Trouble;

pub(crate) const COOKIE: &str = "callboard_session";
const THEME_COOKIE: &str = "callboard_theme";
/// A form with a definition in it. The API has its own, smaller or larger limit.
const LONGEST_FORM: usize = 1024 * 1024;
/// Strangers send a key or a code and nothing else.
pub(crate) const LONGEST_SIGN_IN: usize = 4 * 1024;
/// What a body may take to arrive.
const FORM_WITHIN: Duration = Duration::from_secs(20);
/// A session is noted as seen this many times in what it may be idle at most, so that reading pages writes little.
const SEEN_PER_IDLE: u32 = 60;

/// What the forms of a page carry to prove that they are ours.
pub(crate) const FORM_TOKEN: &str = "_form";

#[derive(Debug, Clone)]
pub(crate) struct Visit {
    pub(crate) console: Console,
    pub(crate) who: Identity,
    pub(crate) path: String,
    pub(crate) query: Fields,
    pub(crate) theme: Theme,
    pub(crate) form_token: String,
    /// The session's own hash, to end it.
    pub(crate) session: Hash,
    /// What the browser has seen of a stream that broke.
    pub(crate) last_seen: Option<u64>,
}

/// The same for a form that was sent, checked to be one of this session.
#[derive(Debug)]
pub(crate) struct Act {
    pub(crate) visit: Visit,
    pub(crate) form: Fields,
}

/// What stands in a query or a form, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields(pub(crate) Vec<(String, String)>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Theme {
    /// As the system has it.
    Auto,
    Light,
    Dark,
}

impl Visit {
    pub(crate) fn now(&self) -> Timestamp {
        self.console.now()
    }

    pub(crate) fn may(&self, scope: &str) -> bool {
        self.who.may(scope)
    }

    /// Whether nobody has signed out since the page was asked for: for streams, which outlive their request.
    pub(crate) async fn is_signed_in(&self) -> bool {
        let session = self.console.sessions().find(&self.session).await;
        let lifetime = self.console.lifetime();
        session.is_ok_and(|it| it.is_some_and(|it| !it.is_over(self.now(), lifetime)))
    }

    pub(crate) async fn call(&self, call: Call) -> Result<Value, Trouble> {
        let answer = self.console.api().call(&self.who.key_id, call).await?;
        Ok(answer.into_result()?)
    }

    pub(crate) async fn get(&self, path: &str) -> Result<Value, Trouble> {
        self.call(Call::get(path)).await
    }

    pub(crate) async fn list<'a>(
        &self,
        path: &str,
        query: impl IntoIterator<Item = (&'a str, &'a str)> + Send,
    ) -> Result<Value, Trouble> {
        self.get(&with_query(path, query)).await
    }

    /// What a page can do without: missing, or not for this key.
    pub(crate) async fn find(&self, path: &str) -> Result<Option<Value>, Trouble> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(Trouble::Api(ApiError::Refused(refused)))
                if matches!(
                    refused.status,
                    StatusCode::NOT_FOUND | StatusCode::FORBIDDEN | StatusCode::BAD_REQUEST
                ) =>
            {
                Ok(None)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// What only hosts like ours can say: none where the host does not know the question. What is wrong with it is said.
    pub(crate) async fn get_if_known(&self, path: &str) -> Result<Option<Value>, Trouble> {
        match self.get(path).await {
            Ok(value) => Ok(Some(value)),
            Err(Trouble::Api(ApiError::Refused(refused)))
                if refused.status == StatusCode::NOT_FOUND =>
            {
                Ok(None)
            }
            Err(trouble) => Err(trouble),
        }
    }

    /// What a page can do without, where the scope is known beforehand: nobody is asked for what would be refused.
    pub(crate) async fn find_with(
        &self,
        scope: &str,
        path: &str,
    ) -> Result<Option<Value>, Trouble> {
        if self.may(scope) { self.find(path).await } else { Ok(None) }
    }
}

impl Fields {
    pub(crate) fn parse(text: &[u8]) -> Self {
        Self(form_urlencoded::parse(text).into_owned().collect())
    }

    /// Empty where it is not there.
    pub(crate) fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value.as_str())
    }

    pub(crate) fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0.iter().filter(move |(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn number(&self, name: &str) -> Option<u64> {
        self.get(name).parse().ok()
    }
}

impl Theme {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Light => "light",
            Self::Dark => "dark",
        }
    }

    pub(crate) fn next(self) -> Self {
        match self {
            Self::Auto => Self::Light,
            Self::Light => Self::Dark,
            Self::Dark => Self::Auto,
        }
    }

    pub(crate) fn of(headers: &HeaderMap) -> Self {
        match cookie(headers, THEME_COOKIE) {
            Some("dark") => Self::Dark,
            Some("light") => Self::Light,
            _ => Self::Auto,
        }
    }

    pub(crate) fn cookie(self) -> String {
        format!(
            "{THEME_COOKIE}={}; Path=/; Max-Age=31536000; SameSite=Strict; HttpOnly",
            self.name()
        )
    }
}

impl FromRequestParts<Console> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, console: &Console) -> Result<Self, Response> {
        let secret = cookie(&parts.headers, COOKIE).and_then(Secret::read);
        let asked = parts.uri.path_and_query().map_or("/", |asked| asked.as_str()).to_owned();
        let signed_out = || sign_in_first(parts, &asked);
        let secret = secret.ok_or_else(signed_out)?;
        let hash = secret.hash();
        let who = match signed_in(console, &hash).await {
            Ok(who) => who,
            Err(Trouble::SignedOut) => return Err(signed_out()),
            Err(trouble) => return Err(trouble.into_response()),
        };
        let last_seen = parts.headers.get("last-event-id").and_then(|id| id.to_str().ok());
        Ok(Self {
            console: console.clone(),
            who,
            path: parts.uri.path().to_owned(),
            query: Fields::parse(parts.uri.query().unwrap_or_default().as_bytes()),
            theme: Theme::of(&parts.headers),
            form_token: secret.form_token(),
            session: hash,
            last_seen: last_seen.and_then(|id| id.trim().parse().ok()),
        })
    }
}

/// Whose session it is. One that is over, or whose key counts no more, ends here for good.
async fn signed_in(console: &Console, hash: &Hash) -> Result<Identity, Trouble> {
    let (sessions, now) = (console.sessions(), console.now());
    let session = sessions.find(hash).await?.ok_or(Trouble::SignedOut)?;
    let who = if session.is_over(now, console.lifetime()) {
        Err(Trouble::SignedOut)
    } else {
        who(console, &session).await
    };
    match &who {
        Err(Trouble::SignedOut) => sessions.end(hash).await?,
        Ok(_) if now.since(session.seen) > console.lifetime().idle / SEEN_PER_IDLE => {
            sessions.touch(hash, Session { seen: now, ..session }).await?;
        }
        _ => {}
    }
    who
}

/// Whose key it is, and whether it still counts: the host says so each time.
async fn who(console: &Console, session: &Session) -> Result<Identity, Trouble> {
    let call = Call::get(format!("{}/whoami", crate::EXTENSION));
    let answer = console.api().call(&session.key, call).await?.into_result()?;
    serde_json::from_value(answer).map_err(|_| Trouble::Strange)
}

/// A page leads to the sign-in page and back; a stream or a form says so and ends.
fn sign_in_first(parts: &Parts, asked: &str) -> Response {
    let accept = parts.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok());
    let is_page = accept.is_none_or(|accept| !accept.contains("text/event-stream"));
    match parts.method.is_safe() && is_page {
        true => Redirect::to(&with_query("/console/login", [("next", asked)])).into_response(),
        false if is_page => Redirect::to("/console/login").into_response(),
        false => StatusCode::UNAUTHORIZED.into_response(),
    }
}

impl FromRequest<Console> for Act {
    type Rejection = Response;

    async fn from_request(request: Request, console: &Console) -> Result<Self, Response> {
        let (mut parts, body) = request.into_parts();
        check_origin(&parts.headers).map_err(IntoResponse::into_response)?;
        let visit = Visit::from_request_parts(&mut parts, console).await?;
        let secret = cookie(&parts.headers, COOKIE).and_then(Secret::read);
        let form = read_form(body, LONGEST_FORM).await.map_err(IntoResponse::into_response)?;
        let is_ours = secret.is_some_and(|secret| secret.accepts(form.get(FORM_TOKEN)));
        if !is_ours {
            return Err(Trouble::ForeignForm.into_response());
        }
        Ok(Self { visit, form })
    }
}

pub(crate) async fn read_form(body: Body, limit: usize) -> Result<Fields, Trouble> {
    let bytes = tokio::time::timeout(FORM_WITHIN, to_bytes(body, limit)).await;
    let bytes = bytes.map_err(|_| Trouble::UnreadForm)?.map_err(|_| Trouble::UnreadForm)?;
    Ok(Fields::parse(&bytes))
}

/// A form comes from a page of this host, or it is not taken. Browsers say with every post where it comes from.
pub(crate) fn check_origin(headers: &HeaderMap) -> Result<(), Trouble> {
    let text = |name: header::HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let origin = text(header::ORIGIN).and_then(|origin| origin.split_once("://"));
    let host = text(header::HOST);
    match (origin, host) {
        (Some((scheme, from)), Some(host)) if plain(scheme, from) == plain(scheme, host) => Ok(()),
        _ => Err(Trouble::ForeignOrigin),
    }
}

/// An authority without the port that its scheme stands for.
fn plain(scheme: &str, authority: &str) -> String {
    let usual = if scheme == "https" { ":443" } else { ":80" };
    authority.strip_suffix(usual).unwrap_or(authority).to_ascii_lowercase()
}

pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let texts = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(known, _)| known.trim() == name).map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from(origin: Option<&str>, host: &str) -> bool {
        let mut headers = HeaderMap::new();
        origin.map(|origin| headers.insert(header::ORIGIN, origin.parse().unwrap()));
        headers.insert(header::HOST, host.parse().unwrap());
        check_origin(&headers).is_ok()
    }

    /// K-05
    #[test]
    fn only_a_page_of_this_host_may_send_forms() {
        assert!(from(Some("http://127.0.0.1:8787"), "127.0.0.1:8787"));
        assert!(from(Some("https://board.example"), "Board.example:443"));
        for origin in [
            None,
            Some("null"),
            Some("http://evil.example"),
            Some("http://127.0.0.1:8788"),
            Some("http://127.0.0.1:8787.evil.example"),
            Some("https://evil.example/?127.0.0.1:8787"),
        ] {
            assert!(!from(origin, "127.0.0.1:8787"), "{origin:?}");
        }
    }

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let mut headers = HeaderMap::new();
        headers
            .insert(header::COOKIE, "xcallboard_session=1; callboard_session=2".parse().unwrap());
        assert_eq!(cookie(&headers, COOKIE), Some("2"));
        assert_eq!(cookie(&headers, "other"), None);
    }
}
