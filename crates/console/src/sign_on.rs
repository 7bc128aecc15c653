//! Signing in elsewhere: to an issuer and back, with the authorization code flow and PKCE (RFC 7636, RFC 9700).
//!
//! Nothing is kept here meanwhile. A secret in the browser, which no script can read, is all there is; state, nonce and
//! verifier are made from it. So it does not matter which host of several the browser comes back to.

use std::fmt;

use async_trait::async_trait;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_protocol::KeyId;
use maud::html;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use crate::Console;
use crate::api::{segment, with_query};
use crate::layout;
use crate::session::Secret;
use crate::sign_in::{begin_session, is_this_machine, local, sign_in_page};
use crate::trouble::Trouble;
use crate::visit::{Fields, cookie};

/// Where people sign in, beside a key.
#[async_trait]
pub trait SignOn: fmt::Debug + Send + Sync {
    /// The names of the issuers, each with what people call it.
    fn offers(&self) -> Vec<Offer>;

    /// The address of the issuer's page.
    async fn begin(&self, name: &str, asks: Asks<'_>) -> Result<String, SignOnError>;

    /// Whose key the session stands for, once the issuer has said who it is.
    async fn finish(&self, name: &str, answers: Answers<'_>) -> Result<KeyId, SignOnError>;

    /// How a browser reaches this host, where the operator has said so.
    fn public_url(&self) -> Option<&str>;

    /// Whether this process speaks TLS itself.
    fn is_tls(&self) -> bool;
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub name: String,
    pub title: String,
}

/// What the issuer is sent through the browser.
#[derive(Debug, Clone, Copy)]
pub struct Asks<'a> {
    pub redirect_uri: &'a str,
    pub state: &'a str,
    pub nonce: &'a str,
    /// The digest of the verifier (S256).
    pub challenge: &'a str,
}

/// What came back, and what only who began can know.
#[derive(Debug, Clone, Copy)]
pub struct Answers<'a> {
    pub redirect_uri: &'a str,
    pub code: &'a str,
    pub verifier: &'a str,
    pub nonce: &'a str,
    /// Who says that it answers (RFC 9207), where it does.
    pub issuer: Option<&'a str>,
}

/// Why nobody was signed in, in words for who tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SignOnError {
    #[error("no such place to sign in")]
    Unknown,
    #[error("{0}")]
    Refused(String),
    #[error("{0}")]
    Away(String),
}

/// Nobody signs in elsewhere.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nowhere;

#[async_trait]
impl SignOn for Nowhere {
    fn offers(&self) -> Vec<Offer> {
        Vec::new()
    }

    async fn begin(&self, _: &str, _: Asks<'_>) -> Result<String, SignOnError> {
        Err(SignOnError::Unknown)
    }

    async fn finish(&self, _: &str, _: Answers<'_>) -> Result<KeyId, SignOnError> {
        Err(SignOnError::Unknown)
    }

    fn public_url(&self) -> Option<&str> {
        None
    }

    fn is_tls(&self) -> bool {
        false
    }
}

/// Sent along when the browser comes back from elsewhere, as the cookie of a session is not.
const COOKIE: &str = "callboard_sign_on";
/// Whoever takes longer begins again.
const LASTS_SECONDS: u32 = 600;
const LONGEST_CODE: usize = 4 * 1024;

/// One purpose of the secret. Nobody comes from one to another.
fn derived(secret: &Secret, name: &str, purpose: &str) -> String {
    let digest = Sha256::new()
        .chain_update(b"callboard sign-on\0")
        .chain_update(name)
        .chain_update(b"\0")
        .chain_update(purpose)
        .chain_update(b"\0")
        .chain_update(secret.reveal());
    URL_SAFE_NO_PAD.encode(digest.finalize())
}

/// `GET /console/oidc/{name}?next=…`: to the issuer's page.
pub(crate) async fn leave(
    State(console): State<Console>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Trouble> {
    let query = Fields::parse(request.uri().query().unwrap_or_default().as_bytes());
    let next = local(query.get("next")).to_owned();
    let headers = request.headers();
    let secret = Secret::generate().ok_or(Trouble::Strange)?;
    let redirect_uri = redirect_uri(&console, headers, &name);
    let challenge = Sha256::digest(derived(&secret, &name, "verifier"));
    let asks = Asks {
        redirect_uri: &redirect_uri,
        state: &derived(&secret, &name, "state"),
        nonce: &derived(&secret, &name, "nonce"),
        challenge: &URL_SAFE_NO_PAD.encode(challenge),
    };
    match console.sign_on().begin(&name, asks).await {
        Ok(address) => {
            let kept = format!("{}.{}", secret.reveal(), URL_SAFE_NO_PAD.encode(&next));
            let kept = set_cookie(headers, &kept, LASTS_SECONDS);
            Ok(([(header::SET_COOKIE, kept)], Redirect::to(&address)).into_response())
        }
        Err(error) => Ok(refused(&console, &next, &error)),
    }
}

/// `GET /console/oidc/{name}/back`: with a code, or without.
pub(crate) async fn come_back(
    State(console): State<Console>,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Trouble> {
    let query = Fields::parse(request.uri().query().unwrap_or_default().as_bytes());
    let headers = request.headers();
    let mut response = match returned(&console, headers, &name, &query).await? {
        Ok((key, next)) => {
            let began = begin_session(&console, headers, key).await?;
            // Not a redirect: the cookie of the session is not sent along where another site began the way.
            let page = html! {
                h1 { "Signed in" }
                p { a href=(next) autofocus { "Go on" } }
            };
            let again = format!("0;url={next}");
            let page = layout::bare_then("Signed in", &page, &again);
            ([(header::SET_COOKIE, began)], page).into_response()
        }
        Err((next, error)) => refused(&console, &next, &error),
    };
    // It is used up, whatever came of it.
    if let Ok(over) = set_cookie(headers, "", 0).parse() {
        response.headers_mut().append(header::SET_COOKIE, over);
    }
    Ok(response)
}

type Returned = Result<(KeyId, String), (String, SignOnError)>;

async fn returned(
    console: &Console,
    headers: &HeaderMap,
    name: &str,
    query: &Fields,
) -> Result<Returned, Trouble> {
    let foreign = || {
        let why = "This sign-in was not begun in this browser, or more than ten minutes ago";
        (String::new(), SignOnError::Refused(why.to_owned()))
    };
    let kept = cookie(headers, COOKIE).and_then(|kept| kept.split_once('.'));
    let Some((secret, next)) = kept.and_then(|(secret, next)| Some((Secret::read(secret)?, next)))
    else {
        return Ok(Err(foreign()));
    };
    let next = URL_SAFE_NO_PAD.decode(next).ok().and_then(|next| String::from_utf8(next).ok());
    let next = local(next.as_deref().unwrap_or_default()).to_owned();
    let state = derived(&secret, name, "state");
    if !bool::from(state.as_bytes().ct_eq(query.get("state").as_bytes())) {
        return Ok(Err(foreign()));
    }
    let code = query.get("code");
    if code.is_empty() || code.len() > LONGEST_CODE {
        let why = match query.get("error") {
            "access_denied" => "The sign-in was declined",
            _ => "The place to sign in refused; its operator can say why",
        };
        return Ok(Err((next, SignOnError::Refused(why.to_owned()))));
    }
    let redirect_uri = redirect_uri(console, headers, name);
    let answers = Answers {
        redirect_uri: &redirect_uri,
        code,
        verifier: &derived(&secret, name, "verifier"),
        nonce: &derived(&secret, name, "nonce"),
        issuer: Some(query.get("iss")).filter(|issuer| !issuer.is_empty()),
    };
    let finished = console.sign_on().finish(name, answers).await;
    Ok(finished.map(|key| (key, next.clone())).map_err(|error| (next, error)))
}

fn refused(console: &Console, next: &str, error: &SignOnError) -> Response {
    let status = match error {
        SignOnError::Unknown => StatusCode::NOT_FOUND,
        SignOnError::Refused(_) => StatusCode::FORBIDDEN,
        SignOnError::Away(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    let page = sign_in_page(console, next, Some(&format!("{error}.")));
    (status, AppendHeaders([(header::RETRY_AFTER, "5")]), layout::bare("Sign in", &page))
        .into_response()
}

/// Where the issuer sends the browser back to.
fn redirect_uri(console: &Console, headers: &HeaderMap, name: &str) -> String {
    let path = format!("/console/oidc/{}/back", segment(name));
    if let Some(url) = console.sign_on().public_url() {
        return format!("{url}{path}");
    }
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let is_plain = is_this_machine(headers) && !console.sign_on().is_tls();
    let scheme = if is_plain { "http" } else { "https" };
    format!("{scheme}://{host}{path}")
}

fn set_cookie(headers: &HeaderMap, value: &str, seconds: u32) -> String {
    let secure = if is_this_machine(headers) { "" } else { "; Secure" };
    format!(
        "{COOKIE}={value}; Path=/console/oidc; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"
    )
}

/// The way to an issuer's page and back here.
pub(crate) fn way(offer: &Offer, next: &str) -> String {
    with_query(&format!("/console/oidc/{}", segment(&offer.name)), [("next", local(next))])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_of_the_secret_differs_by_purpose_issuer_and_secret() {
        let (one, other) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        let all = [
            derived(&one, "a", "state"),
            derived(&one, "a", "nonce"),
            derived(&one, "a", "verifier"),
            derived(&one, "b", "state"),
            derived(&other, "a", "state"),
        ];
        assert!((0..all.len()).all(|i| (0..i).all(|j| all[i] != all[j])));
        // As RFC 7636 wants a verifier: 43 signs at least.
        assert!(all.iter().all(|text| text.len() == 43 && *text != one.reveal()));
    }
}
