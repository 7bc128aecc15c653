//! A small issuer on loopback: discovery, keys, a page that signs its one user in at once, and the exchange of codes.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use reqwest::Url;
use serde_json::{Value, json};

/// What is wrong with the id token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trick {
    None,
    OtherNonce,
    OtherAudience,
    /// For two clients, and asked for by the other.
    OtherParty,
    Unsigned,
    Expired,
    NoGroups,
    NoToken,
}

pub(crate) struct Issuer {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

struct Shared {
    url: String,
    key: Ed25519KeyPair,
    trick: Mutex<Trick>,
    /// What each code was given for.
    codes: Mutex<HashMap<String, Asked>>,
    is_away: AtomicBool,
}

/// What the page was asked with.
struct Asked {
    challenge: String,
    nonce: String,
    redirect_uri: String,
}

type Fields = HashMap<String, String>;

impl Issuer {
    pub(crate) fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let url = format!("http://{}", listener.local_addr()?);
        let shared = Arc::new(Shared {
            url: url.clone(),
            key: Ed25519KeyPair::generate()?,
            trick: Mutex::new(Trick::None),
            codes: Mutex::default(),
            is_away: AtomicBool::new(false),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                let shared = Arc::clone(&serving);
                std::thread::spawn(move || shared.answer(socket).ok());
            }
        });
        Ok(Self { url, shared })
    }

    pub(crate) fn plays(&self, trick: Trick) {
        *self.shared.trick.lock().unwrap_or_else(PoisonError::into_inner) = trick;
    }

    /// From now on it only hangs up.
    pub(crate) fn stops(&self) {
        self.shared.is_away.store(true, Ordering::Relaxed);
    }
}

impl Shared {
    fn answer(&self, socket: TcpStream) -> Result<()> {
        if self.is_away.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut reader = BufReader::new(socket);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let target = line.split(' ').nth(1).context("no target")?.to_owned();
        let mut headers = Fields::new();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let length = headers.get("content-length").and_then(|text| text.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let url = Url::parse(&self.url)?.join(&target)?;
        let query: Fields = url.query_pairs().into_owned().collect();
        let url = &self.url;
        let (status, extra, answer) = match target.split('?').next().unwrap_or_default() {
            "/.well-known/openid-configuration" => (
                200,
                String::new(),
                json!({
                    "issuer": url, "jwks_uri": format!("{url}/keys"),
                    "authorization_endpoint": format!("{url}/authorize?tenant=1"),
                    "token_endpoint": format!("{url}/token"),
                }),
            ),
            "/keys" => (200, String::new(), json!({ "keys": [self.jwk()] })),
            "/authorize" => (302, format!("location: {}\r\n", self.authorize(&query)?), json!({})),
            "/token" => {
                let (status, answer) = self.exchange(&headers, &String::from_utf8(body)?)?;
                (status, String::new(), answer)
            }
            _ => (404, String::new(), json!({})),
        };
        let answer = answer.to_string();
        let length = answer.len();
        let mut socket = reader.into_inner();
        write!(
            socket,
            "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n{extra}content-length: {length}\r\nconnection: close\r\n\r\n{answer}"
        )?;
        Ok(())
    }

    fn jwk(&self) -> Value {
        let x = URL_SAFE_NO_PAD.encode(self.key.public_key().as_ref());
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": "a", "alg": "EdDSA", "x": x })
    }

    fn authorize(&self, query: &Fields) -> Result<String> {
        let said = |name: &str| query.get(name).cloned().with_context(|| format!("no {name}"));
        let redirect_uri = said("redirect_uri")?;
        let asked = Asked {
            challenge: said("code_challenge")?,
            nonce: said("nonce")?,
            redirect_uri: redirect_uri.clone(),
        };
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        let code = format!("code-{}", said("state")?);
        codes.insert(code.clone(), asked);
        let mut back = Url::parse(&redirect_uri)?;
        back.query_pairs_mut().extend_pairs([("code", &code), ("state", &said("state")?)]);
        Ok(back.into())
    }

    /// A code counts once, for who knows what its challenge was made from and has the client's secret.
    fn exchange(&self, headers: &Fields, form: &str) -> Result<(u16, Value)> {
        let form: Fields =
            Url::parse(&format!("{}?{form}", self.url))?.query_pairs().into_owned().collect();
        let said = |name: &str| form.get(name).cloned().unwrap_or_default();
        let refused = |why: &str| Ok((400, json!({ "error": why })));
        let client = format!("Basic {}", STANDARD.encode("console:s3cret%2B%2F"));
        if headers.get("authorization") != Some(&client) || said("client_id") != "console" {
            return refused("invalid_client");
        }
        let code = self.codes.lock().unwrap_or_else(PoisonError::into_inner).remove(&said("code"));
        let Some(asked) = code else { return refused("invalid_grant") };
        let challenge = digest(&SHA256, said("code_verifier").as_bytes());
        let is_proven = URL_SAFE_NO_PAD.encode(challenge.as_ref()) == asked.challenge;
        if !is_proven || said("redirect_uri") != asked.redirect_uri {
            return refused("invalid_grant");
        }
        match self.id_token(&asked.nonce)? {
            Some(token) => Ok((200, json!({ "token_type": "Bearer", "id_token": token }))),
            None => Ok((200, json!({ "token_type": "Bearer" }))),
        }
    }

    fn id_token(&self, nonce: &str) -> Result<Option<String>> {
        let trick = *self.trick.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let mut claims = json!({
            "iss": self.url, "aud": "console", "sub": "u-1", "nonce": nonce, "iat": now, "exp": now + 300,
            "email": "ada@example.com", "groups": ["desk"],
        });
        let mut head = json!({ "alg": "EdDSA", "kid": "a" });
        match trick {
            Trick::None => {}
            Trick::OtherNonce => claims["nonce"] = json!("other"),
            Trick::OtherAudience => claims["aud"] = json!("callboard"),
            Trick::OtherParty => {
                claims["aud"] = json!(["console", "other"]);
                claims["azp"] = json!("other");
            }
            Trick::Unsigned => head = json!({ "alg": "none" }),
            Trick::Expired => claims["exp"] = json!(now - 120),
            Trick::NoGroups => claims["groups"] = json!([]),
            Trick::NoToken => return Ok(None),
        }
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let signed = format!("{}.{}", part(&head), part(&claims));
        let signature = match trick {
            Trick::Unsigned => String::new(),
            _ => URL_SAFE_NO_PAD.encode(self.key.sign(signed.as_bytes()).as_ref()),
        };
        Ok(Some(format!("{signed}.{signature}")))
    }
}
