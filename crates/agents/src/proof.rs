//! Proof of every file of a pack: a signature over `pack.json` alone does not protect prompts and schemas from
//! changes by a mirror.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use sha2::{Digest as _, Sha256};

use callboard_protocol::{PackManifest, SigningMethod, hex};

use crate::archive::Files;
use crate::error::PackError;
use crate::keys::TrustedKeys;
use crate::pack::Contents;
use crate::signature::{ROOT_SIGNATURE, SIGNATURE_LENGTH, Signature};

/// Where a signed pack lists the digests of its files, as `sha256sum` writes them. `pack.json` is closed, so the
/// list stands beside it, under a signature of its own.
pub(crate) const DIGESTS: &str = "keys/files.sha256";
pub(crate) const DIGESTS_SIGNATURE: &str = "keys/files.sha256.sig";

/// Through what the contents of a pack count as verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Proof {
    /// The registry that it came from announced the archive's digest.
    Registry,
    /// The caller that handed it over said which digest the archive must have.
    Integrity,
    /// What is signed covers every file that is used.
    Signature,
}

impl Proof {
    const ALL: [Self; 3] = [Self::Registry, Self::Integrity, Self::Signature];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Registry => "registry",
            Self::Integrity => "integrity",
            Self::Signature => "signature",
        }
    }

    /// Reads what was kept; what an older or newer build wrote otherwise proves nothing.
    pub(crate) fn read(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|proof| proof.as_str() == text)
    }
}

/// The digest that an archive must have, and who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Announced {
    Registry(String),
    Caller(String),
}

impl Announced {
    pub(crate) fn digest(&self) -> &str {
        let (Self::Registry(digest) | Self::Caller(digest)) = self;
        digest
    }

    pub(crate) fn proof(&self) -> Proof {
        match self {
            Self::Registry(_) => Proof::Registry,
            Self::Caller(_) => Proof::Integrity,
        }
    }
}

/// The list of the files that a signature of it would cover: all but the list and the signatures.
pub(crate) fn digest_list(files: &Files, manifest: &PackManifest) -> String {
    let mut list = String::new();
    for (path, bytes) in covered(files, manifest) {
        // Writing to text cannot fail.
        let _ = writeln!(list, "{}  {path}", hex(Sha256::digest(bytes)));
    }
    list
}

fn covered<'f>(
    files: &'f Files,
    manifest: &PackManifest,
) -> impl Iterator<Item = (&'f str, &'f [u8])> {
    let named = manifest.signing.as_ref().and_then(|signing| signing.signature_ref.as_deref());
    let signature = named.unwrap_or(ROOT_SIGNATURE);
    let signature = signature.strip_prefix("./").unwrap_or(signature).to_owned();
    let files = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_ref()));
    files.filter(move |(path, _)| ![DIGESTS, DIGESTS_SIGNATURE, signature.as_str()].contains(path))
}

/// Whether the publisher's signature covers all that is used of the pack. A list that is signed and not kept to
/// refuses the pack; one that is missing only proves nothing.
pub(crate) fn check_contents(
    contents: &Contents,
    manifest: &PackManifest,
    signature: &Signature,
    keys: &TrustedKeys,
) -> Result<Option<Proof>, PackError> {
    let Signature::Good { key: id } = signature else { return Ok(None) };
    let method = manifest.signing.as_ref().and_then(|signing| signing.method);
    if method == Some(SigningMethod::Ed25519) || refers_to_nothing(manifest) {
        return Ok(Some(Proof::Signature));
    }
    let find = |path: &str| contents.files.get(path).map(AsRef::as_ref);
    let (Some(list), Some(signed)) = (find(DIGESTS), find(DIGESTS_SIGNATURE)) else {
        return Ok(None);
    };
    let good = <&[u8; SIGNATURE_LENGTH]>::try_from(signed)
        .is_ok_and(|signed| keys.find(id).is_some_and(|key| key.signed(list, signed)));
    if !good {
        let why = format!("{DIGESTS_SIGNATURE} was not made with key {id} for {DIGESTS}");
        return Err(PackError::Signature { why });
    }
    keeps_to(contents, manifest, list)?;
    Ok(Some(Proof::Signature))
}

/// Whether everything that the pack's agents are made of stands in `pack.json`.
fn refers_to_nothing(manifest: &PackManifest) -> bool {
    manifest.agents.iter().all(|agent| {
        let handoff = agent.handoff.as_ref();
        agent.system_prompt_ref.is_none()
            && agent.eval_suite_ref.is_none()
            && handoff
                .is_none_or(|it| it.task_schema_ref.is_none() && it.return_schema_ref.is_none())
    })
}

/// Refuses the first file that the list does not have, has otherwise, or has and is not there.
fn keeps_to(contents: &Contents, manifest: &PackManifest, list: &[u8]) -> Result<(), PackError> {
    let text = std::str::from_utf8(list).unwrap_or_default();
    let mut listed: BTreeMap<&str, &str> = text
        .lines()
        .filter_map(|line| line.split_once("  "))
        .map(|(sum, path)| (path, sum))
        .collect();
    for (path, bytes) in covered(&contents.files, manifest) {
        if listed.remove(path) != Some(hex(Sha256::digest(bytes)).as_str()) {
            return Err(PackError::FileChanged { path: path.to_owned() });
        }
    }
    match listed.into_keys().next() {
        Some(path) => Err(PackError::FileChanged { path: path.to_owned() }),
        None => Ok(()),
    }
}
