//! `core.crypto.hash`, `hmac-sign` and `hmac-verify`. A key may come over a port, and then is a value like any other;
//! one that is the host's secret reaches these functions from outside of core.

use callboard_protocol::{Failure, Object};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::given::{Given, invalid};
use super::meter::{EACH, Meter};
use super::outputs;
use super::text::{decode_bytes, encode_bytes};

const INPUTS: [&str; 4] = ["utf8", "hex", "base64", "base64url"];
const OUTPUTS: [&str; 3] = ["hex", "base64", "base64url"];
/// Units of work for each byte that is digested, with decoding it.
const PER_BYTE: u64 = 4;

pub(super) fn hash(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let algorithms = ["sha256", "sha384", "sha512", "sha1", "md5", "blake2b512"];
    let algorithm = given.choice("algorithm", algorithms, Some("sha256"))?;
    let bytes = data(given, meter)?;
    let digest = match algorithm {
        "sha256" => Sha256::digest(&bytes).to_vec(),
        "sha384" => Sha384::digest(&bytes).to_vec(),
        "sha512" => Sha512::digest(&bytes).to_vec(),
        _ => {
            return Err(invalid(format!(
                "config.algorithm {algorithm} does not run here; sha256, sha384 and sha512 do"
            )));
        }
    };
    let encoding = given.choice("outputEncoding", OUTPUTS, Some("hex"))?;
    let digest = encode_bytes(&digest, encoding);
    Ok(outputs([("digest", digest.into()), ("algorithm", algorithm.into())]))
}

pub(super) fn hmac_sign(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    sign(given, given.text("key")?, meter)
}

pub(super) fn hmac_verify(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    verify(given, given.text("key")?, meter)
}

/// Signs with a key that is not among the inputs.
pub(crate) fn sign(given: &Given<'_>, key: &str, meter: &mut Meter<'_>) -> Result<Object, Failure> {
    let algorithm = algorithm(given)?;
    let (key, data) = (key_bytes(given, key)?, data(given, meter)?);
    let signature = match algorithm {
        "sha384" => tag(Hmac::<Sha384>::new_from_slice(&key), &data),
        "sha512" => tag(Hmac::<Sha512>::new_from_slice(&key), &data),
        _ => tag(Hmac::<Sha256>::new_from_slice(&key), &data),
    };
    let signature = signature.ok_or_else(|| invalid("the key cannot be used"))?;
    let encoding = given.choice("outputEncoding", OUTPUTS, Some("hex"))?;
    let signature = encode_bytes(&signature, encoding);
    Ok(outputs([("signature", signature.into()), ("algorithm", algorithm.into())]))
}

/// Compares in the same time wherever the first difference is. What cannot be a signature is not valid.
pub(crate) fn verify(
    given: &Given<'_>,
    key: &str,
    meter: &mut Meter<'_>,
) -> Result<Object, Failure> {
    let algorithm = algorithm(given)?;
    let encoding = given.choice("signatureEncoding", OUTPUTS, Some("hex"))?;
    let signature = decode_bytes(given.text("signature")?, encoding, "the signature");
    let (key, data) = (key_bytes(given, key)?, data(given, meter)?);
    let signature = signature.unwrap_or_default();
    let is_valid = match algorithm {
        "sha384" => is_tag(Hmac::<Sha384>::new_from_slice(&key), &data, &signature),
        "sha512" => is_tag(Hmac::<Sha512>::new_from_slice(&key), &data, &signature),
        _ => is_tag(Hmac::<Sha256>::new_from_slice(&key), &data, &signature),
    };
    Ok(outputs([("valid", is_valid.into())]))
}

fn tag<M: Mac, E>(mac: Result<M, E>, data: &[u8]) -> Option<Vec<u8>> {
    let mut mac = mac.ok()?;
    mac.update(data);
    Some(mac.finalize().into_bytes().to_vec())
}

fn is_tag<M: Mac, E>(mac: Result<M, E>, data: &[u8], signature: &[u8]) -> bool {
    let Ok(mut mac) = mac else { return false };
    mac.update(data);
    mac.verify_slice(signature).is_ok()
}

fn algorithm(given: &Given<'_>) -> Result<&'static str, Failure> {
    given.choice("algorithm", ["sha256", "sha384", "sha512"], Some("sha256"))
}

fn key_bytes(given: &Given<'_>, key: &str) -> Result<Vec<u8>, Failure> {
    let encoding = given.choice("keyEncoding", INPUTS, Some("utf8"))?;
    decode_bytes(key, encoding, "the key")
}

fn data(given: &Given<'_>, meter: &mut Meter<'_>) -> Result<Vec<u8>, Failure> {
    let encoding = given.choice("inputEncoding", INPUTS, Some("utf8"))?;
    let data = given.text("data")?;
    meter.make(EACH + data.len())?;
    meter.look(PER_BYTE * data.len() as u64)?;
    decode_bytes(data, encoding, "the input data")
}
