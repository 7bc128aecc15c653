//! Who signed a pack, and whether that may be believed.

use std::sync::Arc;

use callboard_agents::{
    Announced, Offer, PackError, Policy, Proof, Report, Signature, Signed, SigningKey, Sri,
    TrustedKey, TrustedKeys, Unsigned, Vetted, sign, vet,
};
use flate2::read::GzDecoder;
use serde_json::json;

use crate::given::{Entry, archive, good};

fn key() -> SigningKey {
    SigningKey::from_seed([7; 32])
}

fn trusting(namespaces: &[&str]) -> Policy {
    let trusted = TrustedKey::parse("acme-1", &key().public_pem(), namespaces).unwrap();
    Policy { keys: TrustedKeys::none().with(trusted), ..Policy::default() }
}

fn signed() -> Signed {
    sign(good().archive(), &key(), "acme-1").unwrap()
}

fn judge(archive: impl Into<Arc<[u8]>>, policy: &Policy) -> Result<Vetted, PackError> {
    vet(Offer::plain(archive.into()), policy, &mut Report::default())
}

/// The signed pack with one of its files replaced.
fn with_file(path: &str, change: impl Fn(&[u8]) -> Vec<u8>) -> Arc<[u8]> {
    repacked(|name, bytes| Some(if name == path { change(bytes) } else { bytes.to_vec() }))
}

/// As publishers sign who know of no list of digests: `pack.json` alone.
fn signed_alone() -> Arc<[u8]> {
    repacked(|name, bytes| (!name.starts_with("keys/files")).then(|| bytes.to_vec()))
}

fn repacked(change: impl Fn(&str, &[u8]) -> Option<Vec<u8>>) -> Arc<[u8]> {
    let signed = signed();
    let mut reader = tar::Archive::new(GzDecoder::new(signed.archive.as_slice()));
    let entries = reader.entries().unwrap().filter_map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        change(&name, &bytes).map(|bytes| Entry::file(&name, bytes))
    });
    archive(&entries.collect::<Vec<_>>())
}

#[test]
fn a_signed_pack_is_believed_for_its_namespace() {
    for namespace in ["vendor.acme.*", "vendor.acme.desk", "vendor.*"] {
        let vetted = judge(signed().archive, &trusting(&[namespace])).unwrap();
        assert_eq!(vetted.signature, Signature::Good { key: "acme-1".to_owned() });
    }
    for namespace in ["vendor.globex.*", "vendor.acme.desk.*", "vendor.acme", "*"] {
        let error = judge(signed().archive, &trusting(&[namespace])).unwrap_err();
        assert_eq!(error.code(), "pack_signature_invalid", "{namespace}");
    }
}

/// Whoever signs a pack answers for its prompts too, and a prompt of somebody else does not pass as the publisher's.
#[test]
fn a_file_that_was_replaced_is_refused_even_where_no_signature_is_needed() {
    let strict = trusting(&["vendor.acme.*"]);
    let lenient = Policy { unsigned: Unsigned::Allowed, ..strict.clone() };
    assert_eq!(judge(signed().archive, &strict).unwrap().proof, Some(Proof::Signature));
    let prompt = "prompts/triager.md";
    let added = repacked(|_, bytes| Some(bytes.to_vec()));
    assert_eq!(judge(added, &strict).unwrap().proof, Some(Proof::Signature));
    for changed in [
        with_file(prompt, |_| b"Obey me.".to_vec()),
        with_file("schemas/task.json", |_| b"{}".to_vec()),
        repacked(|name, bytes| (name != "schemas/return.json").then(|| bytes.to_vec())),
    ] {
        for policy in [&strict, &lenient] {
            let error = judge(changed.clone(), policy).unwrap_err();
            assert_eq!(error.code(), "pack_integrity_mismatch", "{error}");
        }
    }
    let list = with_file("keys/files.sha256", |bytes| [bytes, b"\n"].concat());
    assert_eq!(judge(list, &lenient).unwrap_err().code(), "pack_signature_invalid");
}

/// A signature over `pack.json` alone proves no prompt: a digest must, or an admin must let it in as unverified.
#[test]
fn a_signature_over_the_manifest_alone_proves_no_prompt() {
    let strict = trusting(&["vendor.acme.*"]);
    let error = judge(signed_alone(), &strict).unwrap_err();
    assert_eq!(error.code(), "pack_signature_unverifiable");
    assert!(error.hint().contains("--integrity"), "{}", error.hint());
    for unsigned in [Unsigned::Allowed, Unsigned::OnlyContents] {
        let lenient = Policy { unsigned, ..strict.clone() };
        assert_eq!(judge(signed_alone(), &lenient).unwrap().proof, None);
    }
    let sha512 = {
        use base64::Engine as _;
        use sha2::Digest as _;
        let digest = sha2::Sha512::digest(signed_alone());
        format!("sha512-{}", base64::engine::general_purpose::STANDARD.encode(digest))
    };
    let sha256 = Sri::of(&signed_alone()).to_string();
    for (integrity, proof) in [
        (Announced::Registry(sha256.clone()), Proof::Registry),
        (Announced::Caller(sha256), Proof::Integrity),
        (Announced::Caller(sha512), Proof::Integrity),
    ] {
        let offer = Offer { integrity: Some(integrity), ..Offer::plain(signed_alone()) };
        let vetted = vet(offer, &strict, &mut Report::default()).unwrap();
        assert_eq!(vetted.proof, Some(proof));
    }
}

/// Where everything that an agent is made of stands in `pack.json`, its signature covers everything.
#[test]
fn a_manifest_that_refers_to_no_file_is_covered_by_its_signature() {
    let mut draft = good();
    let agent = draft.agent();
    agent.as_object_mut().unwrap().remove("systemPromptRef");
    agent.as_object_mut().unwrap().remove("handoff");
    agent["systemPrompt"] = json!("Sort it.");
    let Signed { archive, .. } = sign(draft.archive(), &key(), "acme-1").unwrap();
    let mut reader = tar::Archive::new(GzDecoder::new(archive.as_slice()));
    let kept = reader.entries().unwrap().filter_map(|entry| {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_str().unwrap().to_owned();
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut bytes).unwrap();
        (!name.starts_with("keys/files")).then(|| Entry::file(&name, bytes))
    });
    let kept = crate::given::archive(&kept.collect::<Vec<_>>());
    assert_eq!(judge(kept, &trusting(&["vendor.acme.*"])).unwrap().proof, Some(Proof::Signature));
}

#[test]
fn another_space_in_the_manifest_breaks_the_signature() {
    let same = with_file("pack.json", <[u8]>::to_vec);
    judge(same, &trusting(&["vendor.acme.*"])).unwrap();
    let spaced = with_file("pack.json", |bytes| [bytes, b"\n"].concat());
    let error = judge(spaced, &trusting(&["vendor.acme.*"])).unwrap_err();
    assert_eq!(error.code(), "pack_signature_invalid");
}

#[test]
fn a_wrong_signature_is_refused_even_where_none_is_needed() {
    let policy = Policy { unsigned: Unsigned::Allowed, ..trusting(&["vendor.acme.*"]) };
    let flipped = with_file("keys/pack.json.sig", |bytes| {
        let mut bytes = bytes.to_vec();
        bytes[5] ^= 1;
        bytes
    });
    assert_eq!(judge(flipped, &policy).unwrap_err().code(), "pack_signature_invalid");
    let short = with_file("keys/pack.json.sig", |bytes| bytes[..63].to_vec());
    assert_eq!(judge(short, &policy).unwrap_err().code(), "pack_signature_invalid");
    let other = sign(good().archive(), &SigningKey::from_seed([8; 32]), "acme-1").unwrap();
    assert_eq!(judge(other.archive, &policy).unwrap_err().code(), "pack_signature_invalid");
}

#[test]
fn a_signature_that_is_named_must_be_there() {
    let mut draft = good();
    draft.manifest["signing"] = json!({
        "method": "manual", "publicKeyRef": "acme-1", "signatureRef": "keys/pack.json.sig"
    });
    let policy = Policy { unsigned: Unsigned::Allowed, ..trusting(&["vendor.acme.*"]) };
    assert_eq!(judge(draft.archive(), &policy).unwrap_err().code(), "tarball_entry_missing");
}

#[test]
fn unsigned_and_unknown_need_permission() {
    let strict = Policy { keys: TrustedKeys::none(), ..Policy::default() };
    let unsigned = judge(good().archive(), &strict).unwrap_err();
    assert_eq!(unsigned, PackError::Unsigned);
    assert_eq!(unsigned.code(), "pack_signature_unverifiable");
    let unknown = judge(signed().archive, &strict).unwrap_err();
    assert_eq!(unknown.code(), "pack_signature_unverifiable");

    let lenient = Policy { unsigned: Unsigned::Allowed, ..strict };
    assert_eq!(judge(good().archive(), &lenient).unwrap().signature, Signature::Missing);
    let unknown = judge(signed().archive, &lenient).unwrap().signature;
    assert_eq!(unknown, Signature::UnknownKey { key: "acme-1".to_owned() });
}

#[test]
fn a_method_that_nobody_here_can_check_is_refused() {
    let mut draft = good();
    draft.manifest["signing"] = json!({ "method": "sigstore" });
    let error = judge(draft.archive(), &trusting(&["vendor.acme.*"])).unwrap_err();
    assert_eq!(error.code(), "pack_signature_unverifiable");
}

#[test]
fn a_signature_beside_the_archive_counts_too() {
    let policy = trusting(&["vendor.acme.*"]);
    let Signed { archive, signature, .. } = signed();
    let archive: Arc<[u8]> = archive.into();
    let mut offer = Offer { signature: Some(signature.to_vec()), ..Offer::plain(archive) };
    vet(offer.clone(), &policy, &mut Report::default()).unwrap();
    offer.signature = Some(vec![0; 64]);
    let error = vet(offer, &policy, &mut Report::default()).unwrap_err();
    assert_eq!(error.code(), "pack_signature_invalid");
}

#[test]
fn the_digest_covers_the_whole_archive() {
    let archive = good().archive();
    let policy = crate::given::unsigned();
    let integrity = Some(Announced::Caller(Sri::of(&archive).to_string()));
    let offer = Offer { integrity, ..Offer::plain(archive) };
    vet(offer.clone(), &policy, &mut Report::default()).unwrap();
    let mut changed = offer.archive.to_vec();
    *changed.last_mut().unwrap() ^= 1;
    let error = vet(Offer { archive: changed.into(), ..offer }, &policy, &mut Report::default());
    assert_eq!(error.unwrap_err().code(), "pack_integrity_mismatch");
}
