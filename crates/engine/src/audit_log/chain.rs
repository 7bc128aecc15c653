//! The chain as values: entries, their hashes, the tree over them, checkpoints. RFC 0218 of the protocol says how each
//! is made; nothing here reads or writes.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, Signer as _, SigningKey};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use callboard_protocol::{Object, Timestamp, Workspace, hex};

use super::facts::AuditFact;
use super::{CHECKPOINT_ENTRIES, Record};

/// One entry. Its hash is that of what is stored, so that a reader which does not know a field hashes it all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// From one on, without a gap.
    pub sequence: u64,
    /// Of the entry before; none for the first.
    pub prev_hash: Option<String>,
    pub at: Timestamp,
    /// Who did it: a principal, or `host`.
    pub actor: String,
    /// The operation of the API that it was done with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation: Option<String>,
    pub action: String,
    pub subject: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    #[serde(default, skip_serializing_if = "Object::is_empty")]
    pub details: Object,
}

/// A signed root over the entries since the checkpoint before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditCheckpoint {
    /// Its name.
    pub checkpoint: String,
    pub at_sequence: u64,
    pub merkle_root: String,
    /// Ed25519 over the 32 bytes of the root, in base64.
    pub signature: String,
}

/// Where a chain has come to. All of it must be read back: a field that is lost is a chain that cannot go on.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ChainHead {
    pub(super) sequence: u64,
    pub(super) hash: Option<String>,
    /// The last sequence that a checkpoint covers.
    pub(super) checkpointed: u64,
    /// The time of the first entry that none covers.
    pub(super) waiting_since: Option<Timestamp>,
    pub(super) tree: Tree,
}

/// The roots of the full trees over the leaves so far, the largest first: what a root is made from, whatever comes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Tree {
    leaves: u64,
    full: Vec<String>,
}

impl Tree {
    pub(super) fn push(&mut self, leaf: String) {
        let mut node = leaf;
        let mut size = self.leaves;
        while size & 1 == 1 {
            let Some(left) = self.full.pop() else { break };
            node = parent(&left, &node);
            size >>= 1;
        }
        self.full.push(node);
        self.leaves += 1;
    }

    pub(super) fn leaves(&self) -> u64 {
        self.leaves
    }

    /// None over no leaves. An odd last node is promoted unchanged, which is what joining from the right comes to.
    pub(super) fn root(&self) -> Option<String> {
        let (last, others) = self.full.split_last()?;
        Some(others.iter().rev().fold(last.clone(), |right, left| parent(left, &right)))
    }
}

/// Over the digits, not the bytes that they stand for.
fn parent(left: &str, right: &str) -> String {
    let mut hash = Sha256::new();
    hash.update(left);
    hash.update(right);
    hex(hash.finalize())
}

/// What an entry was stored as; none where that cannot be read.
pub(super) fn stored(record: &Record) -> Option<Value> {
    serde_json::from_str(&record.body).ok()
}

/// SHA-256 over the canonical JSON (RFC 8785) of an entry; none of what is no entry.
pub(super) fn hash(entry: &Value) -> Option<String> {
    entry.as_object()?;
    let canonical = serde_json_canonicalizer::to_vec(entry).ok()?;
    Some(hex(Sha256::digest(canonical)))
}

impl ChainHead {
    /// The next entry, as it is stored; none where it has no canonical form.
    pub(super) fn append(&mut self, fact: &AuditFact, at: Timestamp) -> Option<AuditEntry> {
        let entry = AuditEntry {
            sequence: self.sequence + 1,
            prev_hash: self.hash.clone(),
            at,
            actor: fact.actor.clone(),
            operation: fact.operation.map(str::to_owned),
            action: fact.action.clone(),
            subject: fact.subject.clone(),
            workspace: fact.place.workspace.clone(),
            details: fact.details.clone(),
        };
        let hash = hash(&serde_json::to_value(&entry).ok()?)?;
        self.sequence = entry.sequence;
        self.tree.push(hash.clone());
        self.hash = Some(hash);
        self.waiting_since.get_or_insert(at);
        Some(entry)
    }

    pub(super) fn is_full(&self) -> bool {
        self.tree.leaves() >= CHECKPOINT_ENTRIES
    }

    /// Covers what no checkpoint covers yet; none where that is nothing.
    pub(super) fn check(&mut self, key: &SigningKey) -> Option<AuditCheckpoint> {
        let root = self.tree.root()?;
        let signature = key.sign(&digest(&root)?);
        self.tree = Tree::default();
        self.checkpointed = self.sequence;
        self.waiting_since = None;
        Some(AuditCheckpoint {
            checkpoint: format!("checkpoint-{}-{}", self.sequence, &root[..16]),
            at_sequence: self.sequence,
            merkle_root: root,
            signature: STANDARD.encode(signature.to_bytes()),
        })
    }
}

impl AuditCheckpoint {
    pub(super) fn is_signed_by(&self, key: &SigningKey) -> bool {
        let signature = STANDARD.decode(&self.signature).ok();
        let signature = signature.and_then(|bytes| Signature::from_slice(&bytes).ok());
        let root = digest(&self.merkle_root);
        let both = signature.zip(root);
        both.is_some_and(|(signature, root)| {
            key.verifying_key().verify_strict(&root, &signature).is_ok()
        })
    }
}

/// The 32 bytes that digits stand for.
fn digest(digits: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if digits.len() != 64 || !digits.is_ascii() {
        return None;
    }
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Level by level, as the protocol says it.
    fn by_levels(mut level: Vec<String>) -> Option<String> {
        while level.len() > 1 {
            let join = |pair: &[String]| match pair {
                [left, right] => parent(left, right),
                odd => odd[0].clone(),
            };
            level = level.chunks(2).map(join).collect();
        }
        level.pop()
    }

    #[test]
    fn a_root_is_the_same_as_level_by_level() {
        let mut tree = Tree::default();
        let mut leaves = Vec::new();
        assert_eq!(tree.root(), None);
        for number in 0..200_u32 {
            let leaf = hex(Sha256::digest(number.to_be_bytes()));
            leaves.push(leaf.clone());
            tree.push(leaf);
            assert_eq!(tree.root(), by_levels(leaves.clone()), "{number}");
        }
    }

    #[test]
    fn only_digits_of_a_whole_digest_are_one() {
        assert_eq!(digest(&"0f".repeat(32)), Some([0x0f; 32]));
        for wrong in ["", "0f", &"zz".repeat(32), &"é".repeat(32)] {
            assert_eq!(digest(wrong), None, "{wrong}");
        }
    }
}
