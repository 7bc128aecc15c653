//! Whether a pack may be installed: every check in order, each with a line in a report.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::Serialize;

use callboard_protocol::{AgentId, PackName, PackVersion};

use crate::archive::Limits;
use crate::degrade::{Degradation, Host};
use crate::error::PackError;
use crate::keys::TrustedKeys;
use crate::pack::{Contents, Pack};
use crate::proof::{Announced, Proof, check_contents};
use crate::signature::{Signature, check_integrity, check_signature};

/// An archive, with what the installing caller claims about it.
#[derive(Debug, Clone)]
pub struct Offer {
    pub archive: Arc<[u8]>,
    /// What was asked for.
    pub expected: Option<(PackName, PackVersion)>,
    /// The digest that the archive must have.
    pub integrity: Option<Announced>,
    /// A signature that came beside the archive.
    pub signature: Option<Vec<u8>>,
}

impl Offer {
    /// An archive without any claims about it.
    pub fn plain(archive: Arc<[u8]>) -> Self {
        Self { archive, expected: None, integrity: None, signature: None }
    }
}

/// By what packs are judged.
#[derive(Debug, Clone)]
pub struct Policy {
    pub limits: Limits,
    pub keys: TrustedKeys,
    pub host: Host,
    pub unsigned: Unsigned,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            keys: TrustedKeys::built_in(),
            host: Host::default(),
            unsigned: Unsigned::Refused,
        }
    }
}

/// How packs are treated that have no trusted signature over all of their files. An invalid
/// signature is refused either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsigned {
    Refused,
    /// A trusted key must have signed `pack.json`; its other files need no proof.
    OnlyContents,
    Allowed,
}

/// A pack that may be installed.
#[derive(Debug, Clone)]
pub struct Vetted {
    pub pack: Pack,
    pub signature: Signature,
    /// What proves all of its files; none if it was admitted unverified.
    pub proof: Option<Proof>,
    pub degradation: BTreeMap<AgentId, Degradation>,
}

/// What was checked, in order. It ends with the first check that failed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Report {
    pub checks: Vec<Check>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Check {
    pub check: &'static str,
    pub outcome: Outcome,
    pub detail: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Passed,
    Failed,
    /// There was nothing to check against.
    Skipped,
}

impl Report {
    fn passed(&mut self, check: &'static str, detail: impl Into<String>) {
        self.checks.push(Check { check, outcome: Outcome::Passed, detail: detail.into() });
    }

    fn skipped(&mut self, check: &'static str, detail: impl Into<String>) {
        self.checks.push(Check { check, outcome: Outcome::Skipped, detail: detail.into() });
    }

    /// Notes a failure on its way to the caller.
    fn note<T>(
        &mut self,
        check: &'static str,
        result: Result<T, PackError>,
    ) -> Result<T, PackError> {
        if let Err(error) = &result {
            let detail = error.to_string();
            self.checks.push(Check { check, outcome: Outcome::Failed, detail });
        }
        result
    }
}

/// Lets a pack in, or says why not. The report gets a line for each check.
pub fn vet(offer: Offer, policy: &Policy, report: &mut Report) -> Result<Vetted, PackError> {
    match &offer.integrity {
        Some(expected) => {
            let digest = expected.digest();
            report.note("integrity", check_integrity(&offer.archive, digest))?;
            report.passed("integrity", digest);
        }
        None => report.skipped("integrity", "no digest was given"),
    }
    let contents = report.note("archive", Contents::read(offer.archive, &policy.limits))?;
    report.passed("archive", format!("{} files", contents.files.len()));

    let manifest = report.note("manifest", contents.manifest())?;
    if let Some((name, version)) = &offer.expected {
        report.note("manifest", same("name", name.as_str(), manifest.name.as_str()))?;
        report.note("manifest", same("version", version.as_str(), manifest.version.as_str()))?;
    }
    report.passed("manifest", format!("{} {}", manifest.name, manifest.version));

    let detached = offer.signature.as_deref();
    let signature = check_signature(&contents, &manifest, detached, &policy.keys)
        .and_then(|signature| trust(signature, policy.unsigned));
    let signature = report.note("signature", signature)?;
    match &signature {
        Signature::Good { key } => report.passed("signature", format!("Ed25519, key {key}")),
        Signature::Missing => report.skipped("signature", "unsigned, which was allowed"),
        Signature::UnknownKey { key } => {
            report.skipped("signature", format!("key {key} is not known, which was allowed"));
        }
    }

    let signed = check_contents(&contents, &manifest, &signature, &policy.keys);
    let announced = offer.integrity.as_ref().map(Announced::proof);
    let proof = signed.map(|signed| signed.or(announced));
    let proof = proof.and_then(|proof| proven(proof, &signature, policy.unsigned));
    let proof = report.note("contents", proof)?;
    match proof {
        Some(Proof::Signature) => report.passed("contents", "the signature covers every file"),
        Some(Proof::Registry | Proof::Integrity) => {
            report.passed("contents", "the digest covers every file");
        }
        None => report.skipped("contents", "nothing proves its files, which was allowed"),
    }

    let pack = report.note("agents", contents.into_pack(manifest))?;
    report.passed("agents", format!("{}, every reference resolved", pack.agents.len()));

    let degradation = report.note("host", policy.host.admit(&pack.manifest))?;
    let inert: BTreeSet<&str> = degradation
        .values()
        .flat_map(|without| without.capabilities.iter().map(String::as_str))
        .collect();
    match inert.is_empty() {
        true => report.passed("host", "offers all that the pack needs"),
        false => report.passed(
            "host",
            format!("without {}", inert.into_iter().collect::<Vec<_>>().join(", ")),
        ),
    }
    Ok(Vetted { pack, signature, proof, degradation })
}

fn same(what: &'static str, expected: &str, found: &str) -> Result<(), PackError> {
    if expected == found {
        return Ok(());
    }
    let (expected, found) = (expected.to_owned(), found.to_owned());
    Err(PackError::Mismatch { what, expected, found })
}

fn trust(signature: Signature, unsigned: Unsigned) -> Result<Signature, PackError> {
    match (signature, unsigned) {
        (Signature::Missing, Unsigned::Refused | Unsigned::OnlyContents) => {
            Err(PackError::Unsigned)
        }
        (Signature::UnknownKey { key }, Unsigned::Refused | Unsigned::OnlyContents) => {
            Err(PackError::Unverifiable { why: format!("key {key} is not trusted here") })
        }
        (signature, _) => Ok(signature),
    }
}

/// The signature of `pack.json` vouches for no prompt beside it.
fn proven(
    proof: Option<Proof>,
    signature: &Signature,
    unsigned: Unsigned,
) -> Result<Option<Proof>, PackError> {
    match (proof, signature, unsigned) {
        (None, Signature::Good { key }, Unsigned::Refused) => {
            Err(PackError::Unproven { key: key.clone() })
        }
        (proof, _, _) => Ok(proof),
    }
}

/// The result of checking a pack, whether it was admitted or not.
#[derive(Debug)]
pub struct Verification {
    pub report: Report,
    pub result: Result<Vetted, PackError>,
}

/// Checks a pack without installing it, for a report.
pub fn verify(offer: Result<Offer, PackError>, policy: &Policy) -> Verification {
    let mut report = Report::default();
    let result = report.note("version", offer).and_then(|offer| vet(offer, policy, &mut report));
    Verification { report, result }
}
