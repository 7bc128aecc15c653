//! Why a pack is not accepted: one reason each, with its public code.

use callboard_protocol::{
    AgentId, NameError, PROTOCOL_VERSIONS, PackName, PackVersion, ShapeError, VersionTextError,
};

use crate::registry::FetchError;

/// Why a pack is not installed: the first reason found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PackError {
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    Version(#[from] VersionTextError),

    #[error("the archive has more than {limit} bytes")]
    ArchiveTooLarge { limit: usize },
    #[error("the archive cannot be decompressed: {why}")]
    NotGzip { why: String },
    #[error("the archive unpacks to more than {limit} bytes")]
    UnpackedTooLarge { limit: usize },
    #[error("the archive has more than {limit} entries")]
    TooManyEntries { limit: usize },
    #[error("the archive cannot be read: {why}")]
    NotTar { why: String },
    #[error("{path} is {kind}, and a pack holds only plain files")]
    SpecialEntry { path: String, kind: &'static str },
    #[error("{path:?} leaves the pack")]
    PathTraversal { path: String },
    #[error("{path} is {kind}, which could lead out of the pack")]
    Link { path: String, kind: &'static str },
    #[error("{path} has more than {limit} bytes")]
    EntryTooLarge { path: String, limit: usize },
    #[error("{path} is left over from building and does not belong in a pack")]
    Leftover { path: String },

    #[error("there is no pack.json at the root")]
    ManifestMissing,
    #[error("pack.json has more than {limit} bytes")]
    ManifestTooLarge { limit: usize },
    #[error("pack.json is not JSON: {why}")]
    ManifestNotJson { why: String },
    #[error("pack.json: {0}")]
    Manifest(ShapeError),
    #[error("prompts[{place}]: {why}")]
    PromptTemplate { place: usize, why: ShapeError },
    #[error("the pack needs {name} {wanted}, which is not installed")]
    PromptDependency { name: String, wanted: String },
    #[error("a pack of kind {kind:?} holds no agents")]
    Kind { kind: String },
    #[error("agent {agent} does not lie below its pack {pack}")]
    ForeignAgent { agent: AgentId, pack: PackName },
    #[error("agent {agent} is declared twice")]
    DuplicateAgent { agent: AgentId },
    #[error("the pack brings code ({what}), and this host runs no code of packs")]
    Runtime { what: String },
    #[error("the pack wants {need} of the platform, which this host grants to no pack")]
    RuntimeNeed { need: &'static str },
    #[error("the pack is made for openwop {wanted}, and this host speaks {}", PROTOCOL_VERSIONS.join(" and "))]
    Protocol { wanted: String },

    #[error("{field} of {agent}: {path:?} is not a path inside the pack")]
    Reference { agent: AgentId, field: &'static str, path: String },
    #[error("{field} of {agent}: there is no file {path} in the pack")]
    ReferenceMissing { agent: AgentId, field: &'static str, path: String },
    #[error("{path} cannot be used: {why}")]
    Content { path: String, why: String },

    #[error("the registry says {expected} of {what}, but it is {found}")]
    Mismatch { what: &'static str, expected: String, found: String },
    #[error("the archive's digest is {found}, not {expected}")]
    Integrity { expected: String, found: String },
    #[error("{path} is not the file that was signed")]
    FileChanged { path: String },
    #[error("key {key} signed pack.json alone, and nothing proves the pack's other files")]
    Unproven { key: String },
    #[error("the pack is not signed")]
    Unsigned,
    #[error("the signature cannot be checked: {why}")]
    Unverifiable { why: String },
    #[error("the signature is wrong: {why}")]
    Signature { why: String },
    #[error("{path}, which pack.json names as its signature, is not in the pack")]
    SignatureMissing { path: String },
    #[error("{name} {version} was yanked by its publisher: {reason}")]
    Yanked { name: PackName, version: PackVersion, reason: String },

    #[error("this host does not offer {capability}, which the pack needs")]
    PeerDependency { capability: String },
    #[error("this host does not offer {capability}, which agent {agent} needs")]
    Capability { agent: AgentId, capability: String },
    #[error("this host has no model of class {class}, which agent {agent} needs")]
    ModelClass { agent: AgentId, class: &'static str },

    #[error("the registry has no pack {name}")]
    Unknown { name: PackName },
    #[error("the registry has no version of {name} to install: {wanted}")]
    VersionNotFound { name: PackName, wanted: String },
    #[error("the registry's answer for {what} cannot be read: {why}")]
    RegistryAnswer { what: String, why: String },
    #[error("{url} cannot be fetched: {why}")]
    Fetch { url: String, why: FetchError },
    #[error("{name} {version} is already installed with other contents")]
    VersionConflict { name: PackName, version: PackVersion },
}

impl PackError {
    /// The protocol's code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Name(NameError::Scope(_)) => "invalid_pack_scope",
            Self::Name(NameError::Shape(_)) => "invalid_pack_name",
            Self::Version(_) => "invalid_version",
            Self::ArchiveTooLarge { .. }
            | Self::UnpackedTooLarge { .. }
            | Self::TooManyEntries { .. } => "tarball_too_large",
            Self::NotGzip { .. } => "tarball_gunzip_failed",
            Self::NotTar { .. } | Self::SpecialEntry { .. } => "tarball_tar_parse_failed",
            Self::PathTraversal { .. } | Self::Link { .. } => "tarball_path_traversal",
            Self::EntryTooLarge { .. } => "tarball_entry_too_large",
            Self::Leftover { .. } => "invalid_body",
            Self::ManifestMissing => "tarball_manifest_missing",
            Self::ManifestTooLarge { .. } => "tarball_manifest_too_large",
            Self::ManifestNotJson { .. } => "tarball_manifest_not_json",
            Self::Manifest(_)
            | Self::ForeignAgent { .. }
            | Self::DuplicateAgent { .. }
            | Self::Reference { .. } => "invalid_manifest",
            Self::PromptTemplate { .. } => "prompt_template_invalid",
            Self::PromptDependency { .. } => "prompt_pack_dependency_unresolvable",
            Self::Kind { .. } => "pack_kind_invalid",
            Self::Runtime { .. } => "unsupported_runtime",
            Self::RuntimeNeed { .. } | Self::Protocol { .. } => "pack_runtime_requirement_unmet",
            Self::ReferenceMissing { .. } | Self::SignatureMissing { .. } => {
                "tarball_entry_missing"
            }
            Self::Content { .. } => "pack_load_failure",
            Self::Mismatch { .. } => "manifest_mismatch",
            Self::Integrity { .. } | Self::FileChanged { .. } => "pack_integrity_mismatch",
            Self::Unsigned | Self::Unverifiable { .. } | Self::Unproven { .. } => {
                "pack_signature_unverifiable"
            }
            Self::Signature { .. } => "pack_signature_invalid",
            Self::Yanked { .. } | Self::Unknown { .. } | Self::VersionNotFound { .. } => {
                "pack_version_not_found"
            }
            Self::PeerDependency { .. } => "pack_peer_dependency_missing",
            Self::Capability { .. } => "unsupported_capability",
            Self::ModelClass { .. } => "unsupported_model_class",
            Self::RegistryAnswer { .. } | Self::Fetch { .. } => "pack_fetch_failed",
            Self::VersionConflict { .. } => "version_conflict",
        }
    }

    /// What the user should do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Name(_) | Self::Version(_) => "correct it and try again",
            Self::ArchiveTooLarge { .. }
            | Self::UnpackedTooLarge { .. }
            | Self::TooManyEntries { .. }
            | Self::EntryTooLarge { .. }
            | Self::ManifestTooLarge { .. } => {
                "leave out what agents do not need, or split the pack"
            }
            Self::NotGzip { .. }
            | Self::NotTar { .. }
            | Self::SpecialEntry { .. }
            | Self::PathTraversal { .. }
            | Self::Link { .. }
            | Self::Leftover { .. }
            | Self::ManifestMissing => "make the archive with `callboard packs pack`",
            Self::ManifestNotJson { .. }
            | Self::Manifest(_)
            | Self::PromptTemplate { .. }
            | Self::ForeignAgent { .. }
            | Self::DuplicateAgent { .. } => "correct pack.json and pack it again",
            Self::Reference { .. } | Self::ReferenceMissing { .. } | Self::Content { .. } => {
                "correct the file or the path to it and pack it again"
            }
            Self::PromptDependency { .. } => "install that pack first",
            Self::SignatureMissing { .. } => "sign the archive with `callboard packs sign`",
            Self::Kind { .. } | Self::Runtime { .. } | Self::RuntimeNeed { .. } => {
                "only packs of agents alone, or of prompts, can be installed here"
            }
            Self::Mismatch { .. }
            | Self::Integrity { .. }
            | Self::FileChanged { .. }
            | Self::Signature { .. } => {
                "do not use this archive; fetch it again or ask its publisher"
            }
            Self::Unsigned => "sign it with `callboard packs sign`, or let an admin allow it",
            Self::Unproven { .. } => {
                "install it from its registry, or give the digest that its publisher announced (--integrity), or have it signed anew with `callboard packs sign`, or let an admin allow it unverified"
            }
            Self::Unverifiable { .. } => {
                "trust the publisher's key: [[packs.keys]] in the host's callboard.toml, or --trust of `callboard packs verify`"
            }
            Self::Yanked { .. } | Self::VersionNotFound { .. } | Self::Protocol { .. } => {
                "choose another version"
            }
            Self::PeerDependency { .. } | Self::Capability { .. } => {
                "name the capability in packs.degrade to install the pack without it"
            }
            Self::ModelClass { .. } => "configure a model for this class",
            Self::Unknown { .. } => "check the name and the registry's address",
            Self::RegistryAnswer { .. } | Self::Fetch { .. } => {
                "check the registry's address and try again"
            }
            Self::VersionConflict { .. } => "publish the change under a new version",
        }
    }

    /// The capability that is missing, for `details.requiredCapability`.
    pub fn required_capability(&self) -> Option<&str> {
        match self {
            Self::PeerDependency { capability } | Self::Capability { capability, .. } => {
                Some(capability)
            }
            Self::ModelClass { class, .. } => Some(class),
            _ => None,
        }
    }
}
