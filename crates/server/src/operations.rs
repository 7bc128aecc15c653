//! Everything that this host answers, as one table: routes, scopes, idempotency, metrics and OpenAPI read from it.

mod agents;
mod host;
mod interrupts;
mod memory;
mod queries;
mod roster;
mod runs;
mod sources;
mod webhooks;
mod workflows;

use axum::http::StatusCode;
use axum::routing::MethodFilter;

use agents::AGENTS;
use host::HOST;
use interrupts::INTERRUPTS;
use memory::MEMORY;
use roster::ROSTER;
use runs::RUNS;
use sources::SOURCES;
use webhooks::WEBHOOKS;
use workflows::WORKFLOWS;

const OK: StatusCode = StatusCode::OK;
const CREATED: StatusCode = StatusCode::CREATED;
const ACCEPTED: StatusCode = StatusCode::ACCEPTED;
const NO_CONTENT: StatusCode = StatusCode::NO_CONTENT;

/// The table, family by family.
const FAMILIES: [&[Operation]; 9] =
    [HOST, WORKFLOWS, RUNS, INTERRUPTS, WEBHOOKS, MEMORY, AGENTS, ROSTER, SOURCES];

/// Every row of the table.
pub fn operations() -> impl Iterator<Item = &'static Operation> {
    FAMILIES.into_iter().flatten()
}

/// The name of an operation. The router has a handler for each, or it does not compile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperationId {
    ReadDiscovery,
    ReadScopedDiscovery,
    ReadOpenApi,
    CheckHealth,
    CheckReadiness,
    ReadMetrics,
    ReadWorkflow,
    CreateRun,
    ReadRun,
    FollowEvents,
    PollEvents,
    CancelRun,
    BulkCancelRuns,
    PauseRun,
    ResumeRun,
    ForkRun,
    WriteChannel,
    ReadAncestry,
    ReadOrigin,
    DiffRuns,
    ReadDebugBundle,
    ReadArtifact,
    ListAnnotations,
    AnnotateRun,
    ResolveInterrupt,
    ResolveApproval,
    InspectInterrupt,
    AnswerInterrupt,
    RegisterWebhook,
    RemoveWebhook,
    ListWebhooks,
    ReadDeadLetters,
    ListInterrupts,
    RotateLinks,
    ReadCallbackSecret,
    ListRuns,
    ListWorkflows,
    RegisterWorkflow,
    ReplaceWorkflow,
    RemoveWorkflow,
    WhoAmI,
    ListKeys,
    CreateKey,
    ReadKey,
    RevokeKey,
    RotateKey,
    ListSecrets,
    PutSecret,
    RemoveSecret,
    SeamEvents,
    SeamDispatch,
    SeamLiveInvoke,
    SeamFanOut,
    SeamPerItem,
    SeamInstallGate,
    SeamReset,
    SeamToggle,
    SeamWorkflow,
    SeamVariables,
    SeamSetVariables,
    SeamSpans,
    SeamBundle,
    SeamConcurrentClaim,
    SeamOwnedRun,
    SeamCrossWorkspaceRead,
    SeamDeployment,
    SeamToolHooks,
    SeamSafeFetch,
    SeamSafeFetchRun,
    SeamEgress,
    SeamAuthorize,
    ListPrompts,
    CreatePrompt,
    ReadPrompt,
    UpdatePrompt,
    RemovePrompt,
    RenderPrompt,
    SeamResolvePrompt,
    SeamComposePrompt,
    SeamWrapPrompt,
    SeamMockProgram,
    SeamMockBudget,
    SeamCacheKey,
    SeamModelGate,
    SeamAcceptEnvelope,
    SeamEmitUsage,
    SeamEmitReliability,
    SeamExpireSnapshots,
    SeamMemoryRoundtrip,
    SeamAgentLoop,
    SeamAttest,
    SeamFireCommitment,
    SeamDistill,
    SeamCompactMemory,
    SeamSeedMemory,
    SeamExhaustRetries,
    SeamConsolidate,
    ListMemory,
    ReadMemory,
    ReadMemoryHistory,
    RestoreMemory,
    ForgetMemory,
    ListFiles,
    ReadFile,
    WriteFile,
    RemoveFile,
    SeamWorkspace,
    SeamScheduling,
    SeamDeliver,
    SeamIngest,
    ListSubscriptions,
    ReadSubscription,
    RegisterSubscription,
    IngestTrigger,
    ReadTriggerDeadLetters,
    CreateSubscription,
    ChangeSubscription,
    DeliverToQueue,
    RotateSubscription,
    ListOwnSubscriptions,
    ReadOwnSubscription,
    RemoveSubscription,
    ReplayDeadLetter,
    ListAgents,
    ReadAgent,
    ListTools,
    ReadTool,
    ListDeployments,
    ChangeDeployment,
    ListPacks,
    ExportPacks,
    SearchPacks,
    ReadPackManifest,
    ListInstalledPacks,
    InstallPack,
    FetchPack,
    RemovePack,
    ListSchedules,
    CreateSchedule,
    ReadSchedule,
    ChangeSchedule,
    RemoveSchedule,
    NextFires,
    RunScheduleNow,
    ListRoster,
    ReadMember,
    ManageRoster,
    HireMember,
    ShowMember,
    ChangeMember,
    DismissMember,
    FireMember,
    SayChat,
    ReadActivity,
    ListWork,
    AddWork,
    MoveWork,
    FollowEverything,
    ReadOrgChart,
    ReadDepartment,
    ManageOrgChart,
    PutOrgChart,
    ReadBudget,
    SetBudget,
    ResetBudget,
    ListHeartbeats,
    CreateHeartbeat,
    ReadHeartbeat,
    ChangeHeartbeat,
    RemoveHeartbeat,
    SeamBudget,
    SeamHeartbeat,
    SeamRosterFire,
}

/// One row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Operation {
    pub id: OperationId,
    pub method: Method,
    /// As clients write it, verbs with their colon.
    pub path: &'static str,
    /// Method and path: the operation's name in idempotency records, metrics and logs.
    pub name: &'static str,
    pub summary: &'static str,
    pub access: Access,
    pub success: StatusCode,
    /// The schema of the body that it takes.
    pub(crate) takes: Option<&'static str>,
    pub(crate) media: Media,
    pub(crate) repetition: Repetition,
    /// Whether that body may be left out.
    pub(crate) body: BodyNeed,
    /// The schema of the body that it gives.
    pub(crate) gives: Gives,
    pub(crate) query: &'static [Parameter],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    Get,
    Post,
    Put,
    Patch,
    Delete,
}

/// Who may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Needs no key and is answered by a full host too.
    Public,
    /// Needs a signed link, which stands in the path.
    Link,
    /// Answers those who show no key, too. A key needs this scope.
    Anyone(&'static str),
    /// Needs a key with this scope.
    Scope(&'static str),
    /// Needs a key with one of these scopes; which one depends on the body.
    OneOf(&'static [&'static str]),
}

/// What a body is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Media {
    Json,
    /// A gzipped archive, as it is.
    Archive,
}

/// What an idempotency key makes of the same request twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repetition {
    /// The second gets what the first came to.
    Remembered,
    /// It does no harm, and nothing may be kept of the body, not even a digest.
    Harmless,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyNeed {
    Required,
    Optional,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gives {
    Nothing,
    Json(&'static str),
    Text,
    /// Server-sent events, or the named schema for those who accept JSON only.
    Events(&'static str),
}

/// A query parameter; `schema` is JSON text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Parameter {
    pub(crate) name: &'static str,
    pub(crate) schema: &'static str,
    pub(crate) summary: &'static str,
}

impl Method {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    /// Whether it changes something.
    pub(crate) fn is_mutating(self) -> bool {
        self != Self::Get
    }

    pub(crate) fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
            Self::Put => MethodFilter::PUT,
            Self::Patch => MethodFilter::PATCH,
            Self::Delete => MethodFilter::DELETE,
        }
    }
}

impl Operation {
    /// The scope that a key must have, if it is always the same.
    pub fn scope(&self) -> Option<&'static str> {
        match self.access {
            Access::Public | Access::Link | Access::Anyone(_) => None,
            Access::Scope(scope) => Some(scope),
            Access::OneOf(_) => None,
        }
    }

    /// Whether an idempotency key means anything to it.
    pub(crate) fn is_remembered(&self) -> bool {
        self.method.is_mutating() && self.repetition == Repetition::Remembered
    }

    /// Whether its body must be what its schema says.
    pub fn takes_a_body(&self) -> bool {
        self.takes.is_some()
    }

    const fn new(
        id: OperationId,
        method: Method,
        name: &'static str,
        summary: &'static str,
    ) -> Self {
        let (_, path) = name.split_at(name_split(method));
        Self {
            id,
            method,
            path,
            name,
            summary,
            access: Access::Public,
            success: StatusCode::OK,
            takes: None,
            media: Media::Json,
            repetition: Repetition::Remembered,
            body: BodyNeed::Required,
            gives: Gives::Nothing,
            query: &[],
        }
    }

    const fn by_link(mut self) -> Self {
        self.access = Access::Link;
        self
    }

    const fn open_to_all(mut self, scope: &'static str) -> Self {
        self.access = Access::Anyone(scope);
        self
    }

    pub(crate) const fn needs(mut self, scope: &'static str) -> Self {
        self.access = Access::Scope(scope);
        self
    }

    const fn needs_one_of(mut self, scopes: &'static [&'static str]) -> Self {
        self.access = Access::OneOf(scopes);
        self
    }

    pub(crate) const fn takes(mut self, schema: &'static str) -> Self {
        self.takes = Some(schema);
        self
    }

    const fn takes_archive(mut self) -> Self {
        self.media = Media::Archive;
        self.takes("Archive")
    }

    const fn takes_secret(mut self, schema: &'static str) -> Self {
        self.repetition = Repetition::Harmless;
        self.takes(schema)
    }

    pub(crate) const fn may_take(mut self, schema: &'static str) -> Self {
        self.body = BodyNeed::Optional;
        self.takes(schema)
    }

    pub(crate) const fn gives(mut self, success: StatusCode, gives: Gives) -> Self {
        self.success = success;
        self.gives = gives;
        self
    }

    const fn query(mut self, query: &'static [Parameter]) -> Self {
        self.query = query;
        self
    }
}

/// Where the path begins in `METHOD /path`.
const fn name_split(method: Method) -> usize {
    match method {
        Method::Get | Method::Put => 4,
        Method::Post => 5,
        Method::Patch => 6,
        Method::Delete => 7,
    }
}

pub(crate) const fn get(id: OperationId, name: &'static str, summary: &'static str) -> Operation {
    Operation::new(id, Method::Get, name, summary)
}

pub(crate) const fn post(id: OperationId, name: &'static str, summary: &'static str) -> Operation {
    Operation::new(id, Method::Post, name, summary)
}

pub(crate) const fn put(id: OperationId, name: &'static str, summary: &'static str) -> Operation {
    Operation::new(id, Method::Put, name, summary)
}

pub(crate) const fn patch(id: OperationId, name: &'static str, summary: &'static str) -> Operation {
    Operation::new(id, Method::Patch, name, summary)
}

pub(crate) const fn delete(
    id: OperationId,
    name: &'static str,
    summary: &'static str,
) -> Operation {
    Operation::new(id, Method::Delete, name, summary)
}

pub(crate) const fn parameter(
    name: &'static str,
    schema: &'static str,
    summary: &'static str,
) -> Parameter {
    Parameter { name, schema, summary }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::scopes::SCOPES;

    #[test]
    fn every_row_is_well_formed() {
        let mut names = BTreeSet::new();
        for operation in operations() {
            assert_eq!(operation.name, format!("{} {}", operation.method.as_str(), operation.path));
            assert!(operation.path.starts_with('/'), "{}", operation.name);
            assert!(names.insert(operation.name), "{} twice", operation.name);
            let scopes = match operation.access {
                Access::Scope(scope) | Access::Anyone(scope) => vec![scope],
                Access::OneOf(scopes) => scopes.to_vec(),
                Access::Public | Access::Link => Vec::new(),
            };
            for scope in scopes {
                assert!(SCOPES.contains(&scope), "{}: {scope}", operation.name);
            }
            for parameter in operation.query {
                let schema = serde_json::from_str::<serde_json::Value>(parameter.schema);
                assert!(schema.is_ok_and(|schema| schema.is_object()), "{}", parameter.name);
            }
        }
    }
}
