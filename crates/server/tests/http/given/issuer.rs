//! An issuer of tokens on loopback: its discovery document, its keys, and whatever is to go wrong with them.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use aws_lc_rs::encoding::{AsDer as _, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair as RsaKeyPair, KeySize};
use aws_lc_rs::signature::{
    self, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _,
};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A key that signs.
pub(crate) enum Signer {
    Rsa(RsaKeyPair),
    Ec(EcdsaKeyPair),
    Ed(Ed25519KeyPair),
}

impl Signer {
    pub(crate) fn rsa() -> Self {
        Self::Rsa(RsaKeyPair::generate(KeySize::Rsa2048).expect("a key"))
    }

    pub(crate) fn ec() -> Self {
        Self::Ec(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key"))
    }

    pub(crate) fn ed() -> Self {
        Self::Ed(Ed25519KeyPair::generate().expect("a key"))
    }

    pub(crate) fn sign(&self, alg: &str, message: &[u8]) -> Vec<u8> {
        let random = SystemRandom::new();
        match self {
            Self::Rsa(key) => {
                let scheme: &dyn signature::RsaEncoding = match alg {
                    "PS256" => &signature::RSA_PSS_SHA256,
                    _ => &signature::RSA_PKCS1_SHA256,
                };
                let mut signature = vec![0; key.public_modulus_len()];
                key.sign(scheme, &random, message, &mut signature).expect("signed");
                signature
            }
            Self::Ec(key) => key.sign(&random, message).expect("signed").as_ref().to_vec(),
            Self::Ed(key) => key.sign(message).as_ref().to_vec(),
        }
    }

    pub(crate) fn jwk(&self, kid: &str) -> Value {
        let text = |bytes: &[u8]| URL_SAFE_NO_PAD.encode(bytes);
        match self {
            Self::Rsa(key) => {
                // The modulus of 256 bytes stands between the heads of its list and the exponent.
                let public = key.public_key().as_ref();
                json!({ "kty": "RSA", "kid": kid, "use": "sig", "n": text(&public[9..265]), "e": "AQAB" })
            }
            Self::Ec(key) => {
                let point = key.public_key().as_ref();
                json!({ "kty": "EC", "crv": "P-256", "kid": kid, "x": text(&point[1..33]), "y": text(&point[33..]) })
            }
            Self::Ed(key) => {
                json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": text(key.public_key().as_ref()) })
            }
        }
    }

    /// The public key as anybody can fetch it, for those who take it for a secret.
    pub(crate) fn public_der(&self) -> Vec<u8> {
        let Self::Rsa(key) = self else { panic!("an RSA key") };
        let der: PublicKeyX509Der<'_> = key.public_key().as_der().expect("a key");
        der.as_ref().to_vec()
    }
}

/// A token with this head and these claims; whoever signs sees what there is to sign.
pub(crate) fn token(head: &Value, claims: &Value, sign: impl FnOnce(&[u8]) -> Vec<u8>) -> String {
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let signed = format!("{}.{}", part(head), part(claims));
    let signature = URL_SAFE_NO_PAD.encode(sign(signed.as_bytes()));
    format!("{signed}.{signature}")
}

/// How the issuer answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mood {
    Well,
    /// More bytes than anybody reads.
    Huge,
    /// More keys than anybody has.
    Many,
    Failing,
    Silent,
    /// Names another issuer.
    Impostor,
}

pub(crate) struct Login {
    pub(crate) url: String,
    shared: Arc<Shared>,
    serving: JoinHandle<()>,
}

struct Shared {
    url: String,
    keys: Mutex<Vec<Value>>,
    mood: Mutex<Mood>,
    asked: AtomicUsize,
}

impl Login {
    pub(crate) async fn start(keys: Vec<Value>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let shared = Arc::new(Shared {
            url: url.clone(),
            keys: Mutex::new(keys),
            mood: Mutex::new(Mood::Well),
            asked: AtomicUsize::new(0),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys_of))
            .with_state(Arc::clone(&shared));
        #[expect(clippy::disallowed_methods, reason = "the host's tasks are not the issuer's")]
        let serving =
            tokio::spawn(async move { axum::serve(listener, router).await.expect("served") });
        Self { url, shared, serving }
    }

    pub(crate) fn publish(&self, keys: Vec<Value>) {
        *self.shared.keys.lock().expect("unpoisoned") = keys;
    }

    pub(crate) fn is(&self, mood: Mood) {
        *self.shared.mood.lock().expect("unpoisoned") = mood;
    }

    /// How often its keys were asked for.
    pub(crate) fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::Relaxed)
    }

    pub(crate) async fn leave(&mut self) {
        self.serving.abort();
        let _ = (&mut self.serving).await;
    }
}

async fn discovery(State(shared): State<Arc<Shared>>) -> Response {
    let mood = *shared.mood.lock().expect("unpoisoned");
    let url = &shared.url;
    let issuer = if mood == Mood::Impostor { "https://elsewhere.example" } else { url };
    match mood {
        Mood::Failing => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        Mood::Silent => std::future::pending().await,
        _ => axum::Json(json!({ "issuer": issuer, "jwks_uri": format!("{url}/keys") }))
            .into_response(),
    }
}

async fn keys_of(State(shared): State<Arc<Shared>>) -> Response {
    shared.asked.fetch_add(1, Ordering::Relaxed);
    let mood = *shared.mood.lock().expect("unpoisoned");
    let keys = shared.keys.lock().expect("unpoisoned").clone();
    match mood {
        Mood::Huge => {
            let filler = "x".repeat(1024 * 1024);
            axum::Json(json!({ "keys": keys, "filler": filler })).into_response()
        }
        Mood::Many => {
            let many: Vec<Value> = keys.iter().cycle().take(101).cloned().collect();
            axum::Json(json!({ "keys": many })).into_response()
        }
        _ => axum::Json(json!({ "keys": keys })).into_response(),
    }
}
