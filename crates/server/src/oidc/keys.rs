//! The public keys that an issuer publishes (JWKS), read with bounds.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;

/// The largest set that is read. Common ones have a few keys and some kilobytes.
pub(super) const MOST_BYTES: usize = 256 * 1024;
/// Keys in one set; a larger one is refused whole.
const MOST_KEYS: usize = 100;

/// The keys that can sign tokens which are taken here.
#[derive(Clone)]
pub(super) struct KeySet(Vec<SigningKey>);

#[derive(Clone)]
struct SigningKey {
    kid: Option<String>,
    /// What it can sign with, one or two of them.
    algorithms: Vec<Algorithm>,
    key: DecodingKey,
}

#[derive(Deserialize)]
struct Written {
    keys: Vec<Value>,
}

impl KeySet {
    /// Leaves out what is not for signatures or of no use here, as issuers publish more than that.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let written: Written =
            serde_json::from_slice(bytes).map_err(|_| "its keys are no JSON of keys".to_owned())?;
        if written.keys.len() > MOST_KEYS {
            return Err(format!("it publishes more than {MOST_KEYS} keys"));
        }
        let keys: Vec<SigningKey> = written.keys.into_iter().filter_map(signing).collect();
        if keys.is_empty() {
            return Err("none of its keys can sign with RS256, PS256, ES256 or EdDSA".to_owned());
        }
        Ok(Self(keys))
    }

    /// The key that a token names. One that names none is signed with the only key there is of its kind.
    pub(super) fn find(&self, kid: Option<&str>, algorithm: Algorithm) -> Option<DecodingKey> {
        let mut fitting = self.0.iter().filter(|key| {
            key.algorithms.contains(&algorithm) && (kid.is_none() || key.kid.as_deref() == kid)
        });
        let found = fitting.next()?;
        (kid.is_some() || fitting.next().is_none()).then(|| found.key.clone())
    }
}

fn signing(written: Value) -> Option<SigningKey> {
    let named = written.get("alg").and_then(Value::as_str).map(str::to_owned);
    let jwk: Jwk = serde_json::from_value(written).ok()?;
    let is_for_others = |used: &PublicKeyUse| *used != PublicKeyUse::Signature;
    if jwk.common.public_key_use.as_ref().is_some_and(is_for_others) {
        return None;
    }
    let able: &[(&str, Algorithm)] = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => &[("RS256", Algorithm::RS256), ("PS256", Algorithm::PS256)],
        AlgorithmParameters::EllipticCurve(curve) if curve.curve == EllipticCurve::P256 => {
            &[("ES256", Algorithm::ES256)]
        }
        AlgorithmParameters::OctetKeyPair(curve) if curve.curve == EllipticCurve::Ed25519 => {
            &[("EdDSA", Algorithm::EdDSA)]
        }
        _ => return None,
    };
    let is_meant = |name: &str| named.as_ref().is_none_or(|named| named == name);
    let able = able.iter().filter(|(name, _)| is_meant(name)).map(|(_, algorithm)| *algorithm);
    let algorithms: Vec<Algorithm> = able.collect();
    let key = DecodingKey::from_jwk(&jwk).ok().filter(|_| !algorithms.is_empty())?;
    Some(SigningKey { kid: jwk.common.key_id, algorithms, key })
}

impl std::fmt::Debug for KeySet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("KeySet").field(&self.0.len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn ed(kid: &str) -> Value {
        json!({ "kty": "OKP", "crv": "Ed25519", "kid": kid, "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo" })
    }

    fn read(keys: Vec<Value>) -> Result<KeySet, String> {
        KeySet::read(json!({ "keys": keys }).to_string().as_bytes())
    }

    #[test]
    fn a_key_is_found_by_its_name_and_what_it_can_sign_with() {
        let mut encrypting = ed("enc");
        encrypting["use"] = json!("enc");
        let set = read(vec![ed("a"), ed("b"), encrypting, json!({ "kty": "new" })]).expect("keys");
        assert!(set.find(Some("a"), Algorithm::EdDSA).is_some());
        assert!(set.find(Some("a"), Algorithm::RS256).is_none());
        assert!(set.find(Some("enc"), Algorithm::EdDSA).is_none());
        assert!(set.find(None, Algorithm::EdDSA).is_none(), "which of the two?");
        assert!(read(vec![ed("a")]).expect("keys").find(None, Algorithm::EdDSA).is_some());
    }

    #[test]
    fn a_secret_is_no_public_key_and_sets_are_bounded() {
        let secret = json!({ "kty": "oct", "kid": "s", "k": "c2VjcmV0" });
        assert!(read(vec![secret]).is_err());
        let many: Vec<Value> = (0..=MOST_KEYS).map(|number| ed(&number.to_string())).collect();
        assert!(read(many.clone()).is_err());
        assert!(read(many[1..].to_vec()).is_ok());
        assert!(KeySet::read(b"{}").is_err() && KeySet::read(b"[").is_err());
    }
}
