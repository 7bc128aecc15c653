//! Whether a post is from whom it says, in the way of each preset.

use std::collections::{BTreeMap, BTreeSet};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use callboard_protocol::Timestamp;

use super::preset::{Preset, Terms, TokenPlace};
use super::signature::{self, SignatureError, Signed, is_near};
use super::subscription::SigningSecrets;

/// Parts of a header with signatures that are looked at; a list without end is an attack.
const MOST_PARTS: usize = 16;
/// Longer tokens are nobody's.
const LONGEST_TOKEN: usize = 512;

/// Names with one value each; a name that comes twice has none, since nobody can say which of them counts.
#[derive(Debug, Clone, Default)]
pub struct Fields(BTreeMap<String, String>);

impl<N: Into<String>, V: Into<String>> FromIterator<(N, V)> for Fields {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(pairs: I) -> Self {
        let (mut fields, mut doubled) = (BTreeMap::new(), BTreeSet::new());
        for (name, value) in pairs {
            let name = name.into();
            if fields.insert(name.clone(), value.into()).is_some() {
                doubled.insert(name);
            }
        }
        fields.retain(|name, _| !doubled.contains(name));
        Self(fields)
    }
}

impl Fields {
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }
}

/// What somebody posted, before any of it is believed.
#[derive(Debug, Clone, Default)]
pub struct Post<'a> {
    /// Names in small letters.
    pub headers: Fields,
    /// The parameters of the address.
    pub query: Fields,
    pub body: &'a [u8],
}

impl Post<'_> {
    fn header(&self, name: &str) -> Result<&str, SignatureError> {
        self.headers.get(name).ok_or(SignatureError::Malformed)
    }
}

/// Checks a post against every secret that is valid now. Comparing takes the same time wherever two differ.
pub(super) fn verify(
    terms: &Terms,
    post: &Post<'_>,
    secrets: &SigningSecrets,
    now: Timestamp,
) -> Result<(), SignatureError> {
    match terms.preset {
        Preset::StandardWebhooks => {
            let signed = Signed {
                id: post.header("webhook-id")?,
                timestamp: post.header("webhook-timestamp")?,
                signature: post.header("webhook-signature")?,
            };
            signature::verify(signed, post.body, secrets, now)
        }
        Preset::Github => {
            let offered = hexadecimal(post.header("x-hub-signature-256")?, "sha256=")?;
            signed_by(secrets, now, &[post.body], &[offered])
        }
        Preset::Slack => {
            let time = post.header("x-slack-request-timestamp")?;
            let offered = hexadecimal(post.header("x-slack-signature")?, "v0=")?;
            is_near(time, now)?;
            let said = [b"v0:", time.as_bytes(), b":", post.body];
            signed_by(secrets, now, &said, &[offered])
        }
        Preset::Stripe => {
            let (time, offered) = stripe(post.header("stripe-signature")?)?;
            is_near(time, now)?;
            signed_by(secrets, now, &[time.as_bytes(), b".", post.body], &offered)
        }
        Preset::Token => {
            let usual = TokenPlace::default();
            let offered = token(post, terms.token.as_ref().unwrap_or(&usual))?;
            // Both are hashed under one key, so that what is compared has one length.
            let hashed = |text: &[u8]| keyed(b"callboard shared token", &[text]);
            let offered = hashed(offered.as_bytes())?.finalize().into_bytes();
            let fits = secrets.valid_at(now).any(|secret| {
                let ours = hashed(secret.reveal().as_bytes());
                ours.is_ok_and(|ours| ours.verify_slice(&offered).is_ok())
            });
            if fits { Ok(()) } else { Err(SignatureError::Wrong) }
        }
    }
}

fn token<'a>(post: &'a Post<'_>, place: &TokenPlace) -> Result<&'a str, SignatureError> {
    let token = match place {
        TokenPlace::Header(name) => {
            let value = post.header(name)?;
            let bearer = value.strip_prefix("Bearer ").filter(|_| name == "authorization");
            bearer.unwrap_or(value)
        }
        TokenPlace::Query(name) => post.query.get(name).ok_or(SignatureError::Malformed)?,
    };
    let is_sound = (1..=LONGEST_TOKEN).contains(&token.len());
    if is_sound { Ok(token) } else { Err(SignatureError::Malformed) }
}

/// The time and the signatures of `t=…,v1=…,v1=…`. A second time is an attempt to have one signed and another checked.
fn stripe(header: &str) -> Result<(&str, Vec<Vec<u8>>), SignatureError> {
    let mut times = Vec::new();
    let mut offered = Vec::new();
    for part in header.split(',').take(MOST_PARTS) {
        match part.trim().split_once('=') {
            Some(("t", time)) => times.push(time),
            Some(("v1", text)) => offered.extend(unhex(text)),
            Some(_) => {}
            None => return Err(SignatureError::Malformed),
        }
    }
    match times[..] {
        [time] => Ok((time, offered)),
        _ => Err(SignatureError::Malformed),
    }
}

fn hexadecimal(header: &str, begins: &str) -> Result<Vec<u8>, SignatureError> {
    header.strip_prefix(begins).and_then(unhex).ok_or(SignatureError::Malformed)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    // A signature has 32 bytes; what is longer need not be read.
    if !rest.is_empty() || pairs.len() > 64 {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

fn keyed(key: &[u8], said: &[&[u8]]) -> Result<Hmac<Sha256>, SignatureError> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).map_err(|_| SignatureError::Malformed)?;
    said.iter().for_each(|part| mac.update(part));
    Ok(mac)
}

fn signed_by(
    secrets: &SigningSecrets,
    now: Timestamp,
    said: &[&[u8]],
    offered: &[Vec<u8>],
) -> Result<(), SignatureError> {
    let fits = secrets.valid_at(now).any(|secret| {
        let Ok(mac) = keyed(secret.reveal().as_bytes(), said) else { return false };
        offered.iter().any(|offered| mac.clone().verify_slice(offered).is_ok())
    });
    if fits { Ok(()) } else { Err(SignatureError::Wrong) }
}

#[cfg(test)]
mod tests {
    use super::super::subscription::SigningSecret;
    use super::*;
    use callboard_protocol::hex;

    const NOW: i64 = 1_700_000_000;

    fn secrets(text: &str) -> SigningSecrets {
        let current = Some(SigningSecret::new(text.to_owned()));
        SigningSecrets { current, earlier: Vec::new() }
    }

    fn terms(preset: Preset) -> Terms {
        Terms { preset, ..Terms::default() }
    }

    fn check(
        terms: &Terms,
        secret: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<(), SignatureError> {
        let headers = headers.iter().copied().collect();
        let post = Post { headers, query: Fields::default(), body: body.as_bytes() };
        verify(terms, &post, &secrets(secret), Timestamp::from_millis(NOW * 1_000))
    }

    fn sign(secret: &str, said: &str) -> String {
        let mac = keyed(secret.as_bytes(), &[said.as_bytes()]).unwrap();
        hex(mac.finalize().into_bytes())
    }

    /// The example of GitHub's own documentation.
    #[test]
    fn the_signature_that_github_publishes_fits() {
        let github = terms(Preset::Github);
        let given = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
        let (secret, body) = ("It's a Secret to Everybody", "Hello, World!");
        let header = "x-hub-signature-256";
        assert_eq!(check(&github, secret, &[(header, given)], body), Ok(()));
        let wrong = Err(SignatureError::Wrong);
        assert_eq!(check(&github, secret, &[(header, given)], "Hello, World?"), wrong);
        assert_eq!(check(&github, "another", &[(header, given)], body), wrong);
        let malformed = Err(SignatureError::Malformed);
        assert_eq!(check(&github, secret, &[], body), malformed);
        assert_eq!(check(&github, secret, &[(header, "sha256=xyz")], body), malformed);
        assert_eq!(check(&github, secret, &[(header, &given[7..])], body), malformed);
        let doubled = [(header, given), (header, given)];
        assert_eq!(check(&github, secret, &doubled, body), malformed);
    }

    /// The example of Slack's own documentation, at its own time.
    #[test]
    fn the_signature_that_slack_publishes_fits_in_its_five_minutes() {
        let body = "token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2Fcommands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c";
        let secret = "8f742231b10e8888abcd99yyyzzz85a5";
        let given = "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503";
        let at = |seconds: i64, time: &str| {
            let headers = [("x-slack-request-timestamp", time), ("x-slack-signature", given)];
            let post = Post {
                headers: headers.into_iter().collect(),
                query: Fields::default(),
                body: body.as_bytes(),
            };
            let now = Timestamp::from_millis(seconds * 1_000);
            verify(&terms(Preset::Slack), &post, &secrets(secret), now)
        };
        assert_eq!(at(1_531_420_618, "1531420618"), Ok(()));
        assert_eq!(at(1_531_420_918, "1531420618"), Ok(()));
        assert_eq!(at(1_531_420_919, "1531420618"), Err(SignatureError::Skewed));
        assert_eq!(at(1_531_420_317, "1531420618"), Err(SignatureError::Skewed));
        assert_eq!(at(1_531_420_618, "1531420619"), Err(SignatureError::Wrong));
        assert_eq!(at(1_531_420_618, "soon"), Err(SignatureError::Malformed));
    }

    #[test]
    fn stripe_may_sign_with_two_secrets_and_never_with_two_times() {
        let (secret, body, time) = ("whsec_given_by_stripe", "{}", NOW.to_string());
        let good = sign(secret, &format!("{time}.{body}"));
        let bad = sign("the one before", &format!("{time}.{body}"));
        let check = |header: &str| {
            check(&terms(Preset::Stripe), secret, &[("stripe-signature", header)], body)
        };
        assert_eq!(check(&format!("t={time},v1={good}")), Ok(()));
        assert_eq!(check(&format!("t={time},v1={bad},v1={good},v0={bad}")), Ok(()));
        assert_eq!(check(&format!("t={time},v1={bad}")), Err(SignatureError::Wrong));
        assert_eq!(check(&format!("t={time},v0={good}")), Err(SignatureError::Wrong));
        assert_eq!(check(&format!("t={time}")), Err(SignatureError::Wrong));
        let old = NOW - 301;
        let stale = sign(secret, &format!("{old}.{body}"));
        assert_eq!(check(&format!("t={old},v1={stale}")), Err(SignatureError::Skewed));
        assert_eq!(check(&format!("t={old},t={time},v1={good}")), Err(SignatureError::Malformed));
        for malformed in ["", "v1", &format!("v1={good}"), &format!("t=x,v1={good}")] {
            assert_eq!(check(malformed), Err(SignatureError::Malformed), "{malformed}");
        }
        let many = format!("t={time}{},v1={good}", ",v1=00".repeat(MOST_PARTS));
        assert_eq!(check(&many), Err(SignatureError::Wrong), "no list without end");
    }

    #[test]
    fn a_shared_token_is_taken_where_it_was_agreed_on_and_nowhere_else() {
        let of = |place: TokenPlace| Terms { token: Some(place), ..terms(Preset::Token) };
        let header = of(TokenPlace::Header("x-gitlab-token".to_owned()));
        let secret = "correct horse battery";
        assert_eq!(check(&header, secret, &[("x-gitlab-token", secret)], ""), Ok(()));
        let wrong = Err(SignatureError::Wrong);
        assert_eq!(check(&header, secret, &[("x-gitlab-token", "correct horse")], ""), wrong);
        let malformed = Err(SignatureError::Malformed);
        assert_eq!(check(&header, secret, &[("x-webhook-token", secret)], ""), malformed);
        assert_eq!(check(&header, secret, &[("x-gitlab-token", "")], ""), malformed);
        let long = "x".repeat(LONGEST_TOKEN + 1);
        assert_eq!(check(&header, secret, &[("x-gitlab-token", &long)], ""), malformed);
        let bearer = of(TokenPlace::Header("authorization".to_owned()));
        let shown = format!("Bearer {secret}");
        assert_eq!(check(&bearer, secret, &[("authorization", &shown)], ""), Ok(()));
        let query = of(TokenPlace::Query("key".to_owned()));
        let asked = |pairs: &[(&str, &str)]| {
            let query_pairs = pairs.iter().copied().collect();
            let post = Post { headers: Fields::default(), query: query_pairs, body: b"" };
            verify(&query, &post, &secrets(secret), Timestamp::from_millis(0))
        };
        assert_eq!(asked(&[("key", secret)]), Ok(()));
        assert_eq!(asked(&[("token", secret)]), malformed);
        assert_eq!(asked(&[("key", secret), ("key", "x")]), malformed, "which of them counts?");
    }
}
