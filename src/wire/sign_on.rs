//! Signing in at the console with an issuer: the addresses, the exchange of the code, and who that is here.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use secrecy::ExposeSecret as _;
use serde_json::Value;

use callboard_console::{Answers, Asks, Offer, SignOn, SignOnError, segment};
use callboard_engine::{Clock as _, IssuerHttp, SystemClock};
use callboard_protocol::KeyId;
use callboard_server::extend::Problem;
use callboard_server::{Issuer, KeyRing, Way};

use crate::config::OidcClient;

/// An answer with three tokens in it.
const LARGEST_ANSWER: usize = 64 * 1024;

/// An issuer, what the console is there, and the way to it.
type Client = (Arc<Issuer>, OidcClient, Arc<dyn IssuerHttp>);

#[derive(Debug)]
pub(super) struct Issued {
    pub(super) clients: Vec<Client>,
    pub(super) keys: KeyRing,
    pub(super) public_url: Option<String>,
    pub(super) is_tls: bool,
}

impl Issued {
    fn find(&self, name: &str) -> Result<&Client, SignOnError> {
        let named = self.clients.iter().find(|(issuer, _, _)| issuer.settings().name == name);
        named.ok_or(SignOnError::Unknown)
    }
}

#[async_trait]
impl SignOn for Issued {
    fn offers(&self) -> Vec<Offer> {
        let offer = |(issuer, client, _): &(Arc<Issuer>, OidcClient, _)| Offer {
            name: issuer.settings().name.clone(),
            title: client.title.clone(),
        };
        self.clients.iter().map(offer).collect()
    }

    async fn begin(&self, name: &str, asks: Asks<'_>) -> Result<String, SignOnError> {
        let (issuer, client, _) = self.find(name)?;
        let endpoints = issuer.endpoints().await.map_err(said)?;
        let page = endpoints.authorize.ok_or_else(|| nowhere("page to sign in"))?;
        let mut address = reqwest::Url::parse(&page)
            .ok()
            .filter(|url| matches!(url.scheme(), "https" | "http"))
            .ok_or_else(|| nowhere("page to sign in"))?;
        address.query_pairs_mut().extend_pairs([
            ("response_type", "code"),
            ("client_id", client.id.as_str()),
            ("redirect_uri", asks.redirect_uri),
            ("scope", client.scopes.join(" ").as_str()),
            ("state", asks.state),
            ("nonce", asks.nonce),
            ("code_challenge", asks.challenge),
            ("code_challenge_method", "S256"),
        ]);
        Ok(address.into())
    }

    async fn finish(&self, name: &str, answers: Answers<'_>) -> Result<KeyId, SignOnError> {
        let (issuer, client, http) = self.find(name)?;
        if answers.issuer.is_some_and(|other| other != issuer.settings().issuer) {
            return Err(refused("another issuer has answered"));
        }
        let endpoints = issuer.endpoints().await.map_err(said)?;
        let exchange = endpoints.token.ok_or_else(|| nowhere("door for codes"))?;
        let form = [
            ("grant_type", "authorization_code"),
            ("code", answers.code),
            ("redirect_uri", answers.redirect_uri),
            ("client_id", client.id.as_str()),
            ("code_verifier", answers.verifier),
        ];
        let pairs: Vec<String> =
            form.iter().map(|(name, value)| format!("{name}={}", segment(value))).collect();
        let authorization = client.secret.as_ref().map(|secret| {
            let pair = format!("{}:{}", segment(&client.id), segment(secret.expose_secret()));
            format!("Basic {}", STANDARD.encode(pair))
        });
        let answer =
            http.post_form(&exchange, pairs.join("&"), authorization, LARGEST_ANSWER).await;
        let (status, body) = answer.map_err(|error| {
            tracing::warn!(issuer = name, %error, "the issuer does not exchange a code");
            SignOnError::Away("the place to sign in does not answer; try again".to_owned())
        })?;
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let token = body["id_token"].as_str().filter(|_| status == 200).ok_or_else(|| {
            // What stands in error is one of a few words; the rest may hold anything.
            let error = body["error"].as_str().unwrap_or_default();
            tracing::warn!(issuer = name, status, error, "the issuer refuses a code");
            refused("the place to sign in does not take back what it gave; try again")
        })?;
        let claims = issuer.id_token(token, &client.id).await.map_err(said)?;
        // Only the browser that asked for it knows what it is made from.
        if claims.get("nonce").and_then(Value::as_str) != Some(answers.nonce) {
            return Err(refused("the answer is not for this sign-in"));
        }
        let who = issuer.vouch(&claims, Way::Console).map_err(said)?;
        self.keys.sign_in(&who, SystemClock.now()).await.map_err(said)
    }

    fn public_url(&self) -> Option<&str> {
        self.public_url.as_deref()
    }

    fn is_tls(&self) -> bool {
        self.is_tls
    }
}

fn refused(why: &str) -> SignOnError {
    SignOnError::Refused(sentence(why))
}

fn nowhere(what: &str) -> SignOnError {
    refused(&format!("the issuer names no {what}"))
}

fn said(problem: Problem) -> SignOnError {
    let why = sentence(&problem.message);
    if problem.code.status().is_server_error() {
        SignOnError::Away(why)
    } else {
        SignOnError::Refused(why)
    }
}

fn sentence(text: &str) -> String {
    let mut signs = text.chars();
    signs.next().map_or_else(String::new, |first| first.to_uppercase().chain(signs).collect())
}
