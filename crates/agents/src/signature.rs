//! Checks of a pack's origin: a digest of its archive, a detached Ed25519 signature.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256, Sha512};

use callboard_protocol::{PackManifest, SigningMethod};

use crate::error::PackError;
use crate::keys::TrustedKeys;
use crate::pack::Contents;

/// A subresource integrity value: `sha256-` and the digest of the whole archive in base64.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sri(String);

impl Sri {
    pub fn of(archive: &[u8]) -> Self {
        Self(format!("sha256-{}", STANDARD.encode(Sha256::digest(archive))))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Sri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Refuses an archive that is not the one that was announced, by SHA-256 or by SHA-512.
pub(crate) fn check_integrity(archive: &[u8], expected: &str) -> Result<(), PackError> {
    let found = if expected.starts_with("sha512-") {
        format!("sha512-{}", STANDARD.encode(Sha512::digest(archive)))
    } else {
        Sri::of(archive).0
    };
    if found == expected {
        return Ok(());
    }
    Err(PackError::Integrity { expected: expected.to_owned(), found })
}

/// The result of checking a pack's signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Signature {
    /// Made with the key of this id, which may sign for the pack's name.
    Good { key: String },
    /// There is none.
    Missing,
    /// There is one, but its key is not trusted here.
    UnknownKey { key: String },
}

/// Where the root of an archive may hold a signature that the manifest does not name.
pub(crate) const ROOT_SIGNATURE: &str = "pack.json.sig";
pub(crate) const SIGNATURE_LENGTH: usize = 64;

/// Checks every signature that the pack has: the one that came beside it and the one inside.
pub(crate) fn check_signature(
    contents: &Contents,
    manifest: &PackManifest,
    detached: Option<&[u8]>,
    keys: &TrustedKeys,
) -> Result<Signature, PackError> {
    let signing = manifest.signing.as_ref();
    let method = signing.and_then(|signing| signing.method).unwrap_or(SigningMethod::Manual);
    let signed = match method {
        SigningMethod::Manual => contents.manifest_bytes()?,
        SigningMethod::Ed25519 => &contents.archive,
        SigningMethod::Sigstore => {
            let why = "sigstore bundles are not supported".to_owned();
            return Err(PackError::Unverifiable { why });
        }
    };
    let mut signatures: Vec<&[u8]> = detached.into_iter().collect();
    // A signature over the archive cannot lie inside it.
    if method == SigningMethod::Manual {
        signatures.extend(embedded(contents, manifest)?);
    }
    if signatures.is_empty() {
        return Ok(Signature::Missing);
    }
    let id =
        signing.and_then(|signing| signing.key_id.as_deref().or(signing.public_key_ref.as_deref()));
    let Some(id) = id else {
        return Err(PackError::Unverifiable { why: "pack.json names no key".to_owned() });
    };
    let Some(key) = keys.find(id) else { return Ok(Signature::UnknownKey { key: id.to_owned() }) };
    if !key.may_sign(&manifest.name) {
        let why = format!("key {id} may not sign for {}", manifest.name);
        return Err(PackError::Signature { why });
    }
    for signature in signatures {
        let signature = <&[u8; SIGNATURE_LENGTH]>::try_from(signature).map_err(|_| {
            let why = format!("it has {} bytes, not {SIGNATURE_LENGTH}", signature.len());
            PackError::Signature { why }
        })?;
        if !key.signed(signed, signature) {
            let why = format!("it was not made with key {id} for these bytes");
            return Err(PackError::Signature { why });
        }
    }
    Ok(Signature::Good { key: id.to_owned() })
}

fn embedded<'c>(
    contents: &'c Contents,
    manifest: &PackManifest,
) -> Result<Option<&'c [u8]>, PackError> {
    let named = manifest.signing.as_ref().and_then(|signing| signing.signature_ref.as_deref());
    let path = named.unwrap_or(ROOT_SIGNATURE);
    let found = contents.files.get(path.strip_prefix("./").unwrap_or(path)).map(AsRef::as_ref);
    match (found, named) {
        (None, Some(path)) => Err(PackError::SignatureMissing { path: path.to_owned() }),
        (found, _) => Ok(found),
    }
}
