//! Signing an archive with a key of one's own.

use std::fmt;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::Signer;
use serde_json::{Value, json};

use super::collect::{AuthorError, bundle};
use crate::archive::{Limits, MANIFEST};
use crate::error::PackError;
use crate::keys::{SPKI_PREFIX, key_id};
use crate::pack::Contents;
use crate::proof::{DIGESTS, DIGESTS_SIGNATURE, digest_list};
use crate::signature::Sri;

/// Where a signed pack keeps its signature.
const SIGNATURE: &str = "keys/pack.json.sig";
/// What every Ed25519 private key begins with in DER (RFC 8410).
const PKCS8_PREFIX: [u8; 16] = [
    0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20,
];

/// A private key. It does not show itself when something is printed for debugging.
pub struct SigningKey(ed25519_dalek::SigningKey);

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SigningKey({})", self.id())
    }
}

impl SigningKey {
    /// A new key from thirty-two random bytes.
    pub fn from_seed(seed: [u8; 32]) -> Self {
        Self(ed25519_dalek::SigningKey::from_bytes(&seed))
    }

    /// Reads a key as `openssl genpkey -algorithm ed25519` writes it.
    pub fn from_pem(text: &str) -> Option<Self> {
        let body: String =
            text.lines().filter(|line| !line.starts_with("-----")).map(str::trim).collect();
        let der = STANDARD.decode(body).ok()?;
        let seed = der.strip_prefix(&PKCS8_PREFIX)?;
        Some(Self::from_seed(seed.try_into().ok()?))
    }

    /// The private key as PEM, for a file that only its owner may read.
    pub fn to_pem(&self) -> String {
        let mut der = PKCS8_PREFIX.to_vec();
        der.extend(self.0.to_bytes());
        pem("PRIVATE KEY", &der)
    }

    /// The public key as PEM.
    pub fn public_pem(&self) -> String {
        let mut der = SPKI_PREFIX.to_vec();
        der.extend(self.0.verifying_key().to_bytes());
        pem("PUBLIC KEY", &der)
    }

    /// A name for the key that follows from the key itself.
    pub fn id(&self) -> String {
        key_id(&self.0.verifying_key())
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
}

/// A signed pack, with what a registry would publish beside it.
#[derive(Debug)]
pub struct Signed {
    pub archive: Vec<u8>,
    pub signature: [u8; 64],
    pub integrity: Sri,
}

/// Signs the exact bytes of the archive's `pack.json`, which gets a block that names the key if it has none, and a
/// list of the digests of all files; both signatures go into the archive.
pub fn sign(unsigned: Arc<[u8]>, key: &SigningKey, key_id: &str) -> Result<Signed, AuthorError> {
    let mut contents = Contents::read(unsigned, &Limits::default())?;
    contents.manifest()?;
    let bytes = with_signing(contents.manifest_bytes()?, key_id)?;
    let signature = key.0.sign(&bytes).to_bytes();
    contents.files.insert(MANIFEST.to_owned(), bytes.into());
    let manifest = contents.manifest()?;
    let mut files = contents.files;
    let list = digest_list(&files, &manifest);
    let listed = key.0.sign(list.as_bytes()).to_bytes();
    files.insert(DIGESTS.to_owned(), list.into_bytes().into());
    files.insert(DIGESTS_SIGNATURE.to_owned(), listed.as_slice().into());
    files.insert(SIGNATURE.to_owned(), signature.as_slice().into());
    let archive = bundle(&files)?;
    Ok(Signed { signature, integrity: Sri::of(&archive), archive })
}

fn with_signing(bytes: &[u8], key_id: &str) -> Result<Vec<u8>, PackError> {
    let mut manifest: Value = serde_json::from_slice(bytes)
        .map_err(|error| PackError::ManifestNotJson { why: error.to_string() })?;
    let block = json!({ "method": "manual", "publicKeyRef": key_id, "signatureRef": SIGNATURE });
    if manifest.get("signing") == Some(&block) {
        return Ok(bytes.to_vec());
    }
    manifest["signing"] = block;
    Ok(format!("{manifest:#}\n").into_bytes())
}
