//! Names of things. Each id is its own type, so that one cannot stand where another belongs.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(Arc<str>);

        impl $name {
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl From<&str> for $name {
            fn from(text: &str) -> Self {
                Self(text.into())
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                Self(text.into())
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
    )*};
}

id! {
    /// One run. Minted by the host from `[A-Za-z0-9_-]`, so that `:verb` suffixes in paths stay unambiguous.
    RunId;
    /// One node of a workflow definition.
    NodeId;
    /// What a node is: `core.noop`, `vendor.acme.thing`.
    TypeId;
    /// One workflow definition.
    WorkflowId;
    /// One agent of an installed pack: `vendor.acme.desk.triager`.
    AgentId;
    /// One standing member of a roster, also as a reference to an agent: `host:sally-1a2b3c4d`.
    RosterId;
    /// A typed state channel of a run.
    ChannelName;
    /// One event of one run's log.
    EventId;
    /// The isolation boundary: nothing of one tenant is visible to another.
    Tenant;
    /// An optional part of a tenant with runs of its own.
    Workspace;
    /// Who acts: opaque, never personal data.
    Principal;
    /// One API key; safe to log, unlike the key.
    KeyId;
    /// One process that drives runs.
    HostId;
    /// One subscription to events.
    WebhookId;
    /// One entry of a tenant's memory, the same in all of its versions.
    MemoryId;
    /// One schedule of runs.
    ScheduleId;
    /// One thing outside that is looked at again and again.
    HeartbeatId;
    /// The name of one secret of a tenant; not secret itself, unlike its value.
    SecretName;
}

impl SecretName {
    const LONGEST: usize = 128;

    /// Whether a secret may be kept under this name. It stands in paths, and in brackets where its value stood.
    pub fn is_valid(&self) -> bool {
        let text = self.as_str();
        (1..=Self::LONGEST).contains(&text.len())
            && text.starts_with(|first: char| first.is_ascii_alphanumeric())
            && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    }
}

impl EventId {
    /// The id of a run's event follows from its place in the log, so it needs neither randomness nor a column.
    pub fn of(run: &RunId, sequence: u64) -> Self {
        Self([run.as_str(), "-", &sequence.to_string()].concat().into())
    }
}

/// The identity triple of RFC 0048, always taken from the credential.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    pub tenant: Tenant,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub principal: Option<Principal>,
}
