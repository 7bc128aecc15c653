//! A good pack, and ways to spoil it.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::Arc;

use callboard_agents::{Limits, Offer, Pack, PackError, Policy, Report, Unsigned, Vetted, vet};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tar::{EntryType, Header};

pub(crate) const NAME: &str = "vendor.acme.desk";

/// A pack by its parts. As it stands it is good.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) manifest: Value,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
}

pub(crate) fn good() -> Draft {
    let manifest = json!({
        "name": NAME,
        "version": "1.0.0",
        "engines": { "openwop": ">=1.1.0 <2.0.0" },
        "peerDependencies": { "agents.manifestRuntime": "supported" },
        "agents": [{
            "agentId": "vendor.acme.desk.triager",
            "persona": "Triager",
            "description": "Sorts what comes in.",
            "modelClass": "classification",
            "systemPromptRef": "prompts/triager.md",
            "toolAllowlist": ["openwop:core.http.fetch"],
            "memoryShape": { "scratchpad": true, "longTerm": false },
            "handoff": {
                "taskSchemaRef": "schemas/task.json",
                "returnSchemaRef": "schemas/return.json"
            },
            "confidence": { "defaultThreshold": 0.7 }
        }],
        "runtime": { "language": "remote", "entry": "pack.json" }
    });
    let schema = json!({ "type": "object", "required": ["text"] });
    let files = [
        ("prompts/triager.md", b"Sort it.".to_vec()),
        ("schemas/task.json", schema.to_string().into_bytes()),
        ("schemas/return.json", schema.to_string().into_bytes()),
    ];
    let files = files.map(|(path, bytes)| (path.to_owned(), bytes));
    Draft { manifest, files: BTreeMap::from(files) }
}

impl Draft {
    pub(crate) fn agent(&mut self) -> &mut Value {
        &mut self.manifest["agents"][0]
    }

    pub(crate) fn file(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.files.insert(path.to_owned(), bytes.into());
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        let manifest = Entry::file("pack.json", self.manifest.to_string());
        let files = self.files.iter().map(|(path, bytes)| Entry::file(path, bytes.clone()));
        std::iter::once(manifest).chain(files).collect()
    }

    pub(crate) fn archive(&self) -> Arc<[u8]> {
        archive(&self.entries())
    }

    pub(crate) fn vet(&self) -> Result<Vetted, PackError> {
        vet(Offer::plain(self.archive()), &unsigned(), &mut Report::default())
    }
}

/// Everybody's rules, but unsigned packs are let in.
pub(crate) fn unsigned() -> Policy {
    Policy { unsigned: Unsigned::Allowed, ..Policy::default() }
}

/// One entry of an archive, as strange as a test needs it.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) name: Vec<u8>,
    pub(crate) kind: EntryType,
    pub(crate) bytes: Vec<u8>,
    pub(crate) prefix: &'static str,
    /// What the header says, where that is not the truth.
    pub(crate) size: Option<u64>,
}

impl Entry {
    pub(crate) fn file(name: impl AsRef<[u8]>, bytes: impl Into<Vec<u8>>) -> Self {
        Self::of(name, EntryType::Regular, bytes)
    }

    pub(crate) fn of(name: impl AsRef<[u8]>, kind: EntryType, bytes: impl Into<Vec<u8>>) -> Self {
        let name = name.as_ref().to_vec();
        Self { name, kind, bytes: bytes.into(), prefix: "", size: None }
    }

    fn write(&self, tar: &mut Vec<u8>) {
        let mut header = Header::new_ustar();
        header.set_entry_type(self.kind);
        header.set_mode(0o644);
        header.set_size(self.size.unwrap_or(self.bytes.len() as u64));
        header.as_old_mut().name[..self.name.len()].copy_from_slice(&self.name);
        let ustar = header.as_ustar_mut().unwrap();
        ustar.prefix[..self.prefix.len()].copy_from_slice(self.prefix.as_bytes());
        header.set_cksum();
        tar.extend(header.as_bytes());
        tar.extend(&self.bytes);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
}

pub(crate) fn tar(entries: &[Entry]) -> Vec<u8> {
    let mut tar = Vec::new();
    for entry in entries {
        entry.write(&mut tar);
    }
    tar.resize(tar.len() + 1024, 0);
    tar
}

pub(crate) fn gzip(bytes: &[u8]) -> Arc<[u8]> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(bytes).unwrap();
    gzip.finish().unwrap().into()
}

pub(crate) fn archive(entries: &[Entry]) -> Arc<[u8]> {
    gzip(&tar(entries))
}

pub(crate) fn read(archive: Arc<[u8]>) -> Result<Pack, PackError> {
    Pack::read(archive, &Limits::default())
}
