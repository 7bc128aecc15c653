//! Signatures after Standard Webhooks: who sent a post, and that it is not an old one.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use callboard_protocol::Timestamp;

use super::subscription::SigningSecrets;

/// How far the sender's clock may be from ours.
const TOLERANCE_MS: i64 = 300_000;
/// Senders that rotate send two; a list without end is an attack.
const MOST_SIGNATURES: usize = 16;
const ID_LENGTH: std::ops::RangeInclusive<usize> = 16..=128;

/// What a post says of itself, in the headers of Standard Webhooks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Signed<'a> {
    pub(super) id: &'a str,
    /// Seconds since 1970.
    pub(super) timestamp: &'a str,
    pub(super) signature: &'a str,
}

/// Why a post is not believed. For the operator; the sender learns only that it is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    #[error("a header is missing or malformed")]
    Malformed,
    #[error("the clocks are more than five minutes apart")]
    Skewed,
    #[error("no signature fits")]
    Wrong,
}

/// Whether an id can stand for one post.
pub(super) fn is_id(id: &str) -> bool {
    ID_LENGTH.contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

/// Refuses a time in seconds that is too far from now.
pub(super) fn is_near(timestamp: &str, now: Timestamp) -> Result<(), SignatureError> {
    let seconds: i64 = timestamp.parse().map_err(|_| SignatureError::Malformed)?;
    let sent = seconds.checked_mul(1_000).ok_or(SignatureError::Malformed)?;
    let is_near = now.as_millis().abs_diff(sent) <= TOLERANCE_MS.unsigned_abs();
    if is_near { Ok(()) } else { Err(SignatureError::Skewed) }
}

/// Checks a post against every secret that is valid now. Comparing takes the same time wherever two differ.
pub(super) fn verify(
    signed: Signed<'_>,
    body: &[u8],
    secrets: &SigningSecrets,
    now: Timestamp,
) -> Result<(), SignatureError> {
    if !is_id(signed.id) {
        return Err(SignatureError::Malformed);
    }
    is_near(signed.timestamp, now)?;
    let versions = signed.signature.split(' ').take(MOST_SIGNATURES);
    let offered: Vec<Vec<u8>> = versions
        .filter_map(|one| one.strip_prefix("v1,"))
        .filter_map(|text| STANDARD.decode(text).ok())
        .collect();
    let fits = secrets.valid_at(now).any(|secret| {
        let key = secret.reveal().strip_prefix("whsec_").and_then(|key| STANDARD.decode(key).ok());
        let Some(mac) = key.and_then(|key| Hmac::<Sha256>::new_from_slice(&key).ok()) else {
            return false;
        };
        let mac = mac
            .chain_update(signed.id)
            .chain_update(".")
            .chain_update(signed.timestamp)
            .chain_update(".")
            .chain_update(body);
        offered.iter().any(|offered| mac.clone().verify_slice(offered).is_ok())
    });
    if fits { Ok(()) } else { Err(SignatureError::Wrong) }
}

#[cfg(test)]
mod tests {
    use super::super::subscription::SigningSecret;
    use super::*;

    const ID: &str = "msg_p5jXN8AQM9LWM0D4loKWxJek";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;

    /// The example of the Standard Webhooks specification.
    fn secrets() -> SigningSecrets {
        let secret = SigningSecret::new("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw".to_owned());
        SigningSecrets { current: Some(secret), earlier: Vec::new() }
    }

    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";

    fn check(id: &str, timestamp: &str, signature: &str, now: i64) -> Result<(), SignatureError> {
        let signed = Signed { id, timestamp, signature };
        verify(signed, BODY, &secrets(), Timestamp::from_millis(now * 1_000))
    }

    #[test]
    fn the_published_example_verifies() {
        assert_eq!(check(ID, "1614265330", SIGNATURE, 1_614_265_330), Ok(()));
        let two = format!("v1,AAAA v2,xyz {SIGNATURE}");
        assert_eq!(check(ID, "1614265330", &two, 1_614_265_630), Ok(()));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let now = 1_614_265_330;
        assert_eq!(check(ID, "1614265330", "v1,AAAA", now), Err(SignatureError::Wrong));
        assert_eq!(check(ID, "1614265330", "", now), Err(SignatureError::Wrong));
        assert_eq!(check(ID, "1614265331", SIGNATURE, now), Err(SignatureError::Wrong));
        assert_eq!(check(ID, "1614265330", SIGNATURE, now + 301), Err(SignatureError::Skewed));
        assert_eq!(check(ID, "1614265330", SIGNATURE, now - 301), Err(SignatureError::Skewed));
        for (id, at) in [("short", "1614265330"), ("an id with spaces", "1"), (ID, "soon")] {
            assert_eq!(check(id, at, SIGNATURE, now), Err(SignatureError::Malformed), "{id} {at}");
        }
    }

    #[test]
    fn the_secret_before_works_until_its_end() {
        let old = secrets().current.unwrap();
        let until = Timestamp::from_millis(1_614_265_400_000);
        let rotated = SigningSecrets {
            current: Some(SigningSecret::new("whsec_c29tZXRoaW5nIGVsc2U=".to_owned())),
            earlier: vec![(old, until)],
        };
        let signed = Signed { id: ID, timestamp: "1614265330", signature: SIGNATURE };
        let at = |seconds: i64| Timestamp::from_millis(seconds * 1_000);
        assert_eq!(verify(signed, BODY, &rotated, at(1_614_265_399)), Ok(()));
        let late = verify(signed, BODY, &rotated, at(1_614_265_400));
        assert_eq!(late, Err(SignatureError::Wrong));
        assert!(!format!("{rotated:?}").contains("MfKQ9"));
    }
}
