//! Error responses: one envelope, one list of codes.

use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use callboard_agents::{DeploymentRefusal, InstallError, PackError};
use callboard_core::{Inadmissible, Refusal, redact_fields, redact_text};
use callboard_engine::{
    EngineError, FileError, MAX_FILE_BYTES, MAX_FILES, SnapshotLoss, StoreError, Undecided,
};
use callboard_protocol::{ErrorEnvelope, Object, RunStatus, ShapeError};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::scopes::DELEGATE;

macro_rules! codes {
    ($($variant:ident = $name:literal, $status:ident, $meaning:literal;)*) => {
        /// Every code that a caller can meet.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Code {
            $(#[doc = $meaning] $variant,)*
        }

        impl Code {
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// The code on the wire.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            pub fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            /// One sentence for the reader of the error pages.
            pub fn meaning(self) -> &'static str {
                match self { $(Self::$variant => $meaning,)* }
            }
        }
    };
}

codes! {
    ValidationError = "validation_error", BAD_REQUEST, "The request is invalid; the message says where.";
    PromptVariableUnresolved = "prompt_variable_unresolved", BAD_REQUEST, "A variable that the prompt needs has no value; details.variable names it.";
    PromptRefInvalid = "prompt_ref_invalid", BAD_REQUEST, "The reference is not a valid reference to a prompt.";
    InvalidArgument = "invalid_argument", BAD_REQUEST, "A request to a test endpoint has an invalid argument.";
    ProviderUsageCredentialLeak = "provider_usage_credential_leak", BAD_REQUEST, "A usage report must not contain text that looks like a credential.";
    EnvelopeReliabilityCredentialLeak = "envelope_reliability_credential_leak", BAD_REQUEST, "An event about a model's answer must not contain text that looks like a credential.";
    EnvelopeRecoveryContentLeak = "envelope_recovery_content_leak", BAD_REQUEST, "An event about a recovered answer must not contain any part of the answer.";
    UnsupportedStreamMode = "unsupported_stream_mode", BAD_REQUEST, "The stream mode does not exist or cannot be combined with the others.";
    UnsupportedMockProvider = "unsupported_mock_provider", BAD_REQUEST, "No mock provider has this id.";
    UnsupportedForceEngineVersion = "unsupported_force_engine_version", BAD_REQUEST, "The forced engine version is outside the advertised range.";
    ChannelCrossEngineWriteForbidden = "channel_cross_engine_write_forbidden", BAD_REQUEST, "The channel's reducer accepts writes of the run's own nodes only.";
    ChannelAccessDenied = "channel_access_denied", BAD_REQUEST, "The channel lists its writers, and the caller is not among them.";
    WebhookUrlRejected = "webhook_url_rejected", BAD_REQUEST, "The host does not call this URL; the message says why.";
    ProtocolVersionMismatch = "protocol_version_mismatch", BAD_REQUEST, "The path is of one major of the protocol, and OpenWOP-Version names another.";
    IdempotencyKeyInvalid = "idempotency_key_invalid", BAD_REQUEST, "In the second major an idempotency key has 22 to 128 characters of A-Z, a-z, 0-9, dot, underscore, tilde and hyphen.";
    InvalidTimezone = "invalid_timezone", BAD_REQUEST, "No time zone has this name.";
    ScheduleHorizonExceeded = "schedule_horizon_exceeded", BAD_REQUEST, "The schedule would fire later than details.maxFutureHorizon from now.";
    Unauthenticated = "unauthenticated", UNAUTHORIZED, "The request has no key, or an unknown one.";
    KeyExpired = "key_expired", UNAUTHORIZED, "The key has expired.";
    KeyRevoked = "key_revoked", UNAUTHORIZED, "The key was revoked.";
    InterruptTokenInvalid = "interrupt_token_invalid", UNAUTHORIZED, "The token is not one that this host has signed.";
    SignatureInvalid = "signature_invalid", UNAUTHORIZED, "The post is not signed with the subscription's secret, or its timestamp is too far from the host's clock.";
    Forbidden = "forbidden", FORBIDDEN, "The key may not do this; details.scopeRequired names the missing scope.";
    IdTenantMismatch = "id_tenant_mismatch", FORBIDDEN, "The id names another tenant than the key's; nobody has looked whether it exists.";
    MockProviderForbidden = "mock_provider_forbidden", FORBIDDEN, "Only test keys may use mock providers.";
    ForceEngineVersionForbidden = "force_engine_version_forbidden", FORBIDDEN, "Only test keys may force an engine version.";
    TenantMembershipRequired = "tenant_membership_required", FORBIDDEN, "The key belongs to another tenant than tenantId.";
    WorkspaceMembershipRequired = "workspace_membership_required", FORBIDDEN, "The key does not belong to the workspace of workspaceId, or a member's workflow is not one that its owner can run.";
    PromptReadOnly = "prompt_read_only", FORBIDDEN, "The prompt belongs to the host or to a pack and cannot be changed.";
    RunForbidden = "run_forbidden", FORBIDDEN, "The run belongs to another workspace. Only a test endpoint says so; all others answer not_found.";
    NotInPortfolio = "not_in_portfolio", FORBIDDEN, "The member does not own the workflow.";
    NotYetARun = "delivery_not_startable", UNPROCESSABLE_ENTITY, "The delivery still cannot start a run; the message says why.";
    NotFound = "not_found", NOT_FOUND, "It does not exist, or the caller may not see it.";
    SubscriptionNotFound = "subscription_not_found", NOT_FOUND, "The webhook does not exist, or the caller may not see it.";
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED, "The path exists, the method does not; see the Allow header.";
    ProtocolVersionUnsupported = "protocol_version_unsupported", NOT_ACCEPTABLE, "The host does not speak the version in OpenWOP-Version; details.protocolVersions lists those that it speaks.";
    RequestTimeout = "request_timeout", REQUEST_TIMEOUT, "The body did not arrive in time.";
    TemplateNotFound = "template_not_found", NOT_FOUND, "The prompt template does not exist, or the caller may not see it.";
    PromptConflict = "prompt_conflict", CONFLICT, "The prompt exists already, its version is not greater than the stored one, or it was changed at the same time.";
    RunAlreadyActive = "run_already_active", CONFLICT, "Another run of the same scope is active.";
    RunTerminal = "run_terminal", CONFLICT, "The run has ended.";
    RunStateConflict = "run_state_conflict", CONFLICT, "The run's status does not allow this; details.runStatus is that status.";
    RunNotEnded = "run_not_ended", CONFLICT, "The run has not ended, so there is nothing to retry yet.";
    RunCompleted = "run_completed", CONFLICT, "The run has completed; a retry must name the node to run again.";
    EngineVersionMismatch = "engine_version_mismatch", CONFLICT, "The run was started by a newer build and cannot be processed by this one.";
    IdempotencyKeyMismatch = "idempotency_key_mismatch", CONFLICT, "The idempotency key was used for another request.";
    WorkflowReserved = "workflow_reserved", CONFLICT, "The workflow was loaded by the host and cannot be changed over HTTP.";
    ScheduleReserved = "schedule_reserved", CONFLICT, "A workflow's own definition declares the schedule; change the definition.";
    SubscriptionNotActive = "subscription_not_active", CONFLICT, "The trigger subscription is not active and accepts no deliveries.";
    KeyReserved = "key_reserved", CONFLICT, "The key is part of the host's configuration and cannot be changed over HTTP.";
    RoleReserved = "role_reserved", CONFLICT, "The role is the protocol's or part of the host's configuration and cannot be changed over HTTP, or the tenant has too many.";
    MemoryConflict = "memory_conflict", CONFLICT, "The entry was changed since it was read.";
    WorkspaceConflict = "workspace_conflict", CONFLICT, "The file does not have the version in If-Match; details.currentVersion is its version.";
    WorkspaceTooLarge = "workspace_too_large", PAYLOAD_TOO_LARGE, "The file is larger than workspace.maxFileBytes, or the workspace holds workspace.maxFiles already.";
    InterruptNotFound = "interrupt_not_found", NOT_FOUND, "The node has no open question, or the link is not valid on this host.";
    InterruptAlreadyResolved = "interrupt_already_resolved", CONFLICT, "The question was already answered.";
    InterruptExpired = "interrupt_expired", GONE, "The link has expired.";
    InterruptGone = "interrupt_gone", GONE, "The run was cancelled with its parent, so its questions are closed.";
    AgentNotFound = "agent_not_found", NOT_FOUND, "The agent does not exist, or the caller may not see it.";
    RunUnprocessable = "run_unprocessable", UNPROCESSABLE_ENTITY, "The host's decision about the run twice exceeded its time limit, or panicked. Such a run fails with this code; it can still be read and cancelled. A run whose log holds an event that this build cannot read does not fail: it is left unchanged and tried again.";
    ReloadRefused = "reload_refused", UNPROCESSABLE_ENTITY, "A file of the host is wrong, so nothing was reloaded and everything stays as it was. The host's log names the file and the line; the message does so for keys of the tenant default.";
    InvalidFromSeq = "invalid_from_seq", UNPROCESSABLE_ENTITY, "The run has no event with this sequence to fork at.";
    RetryNodeInvalid = "retry_node_invalid", UNPROCESSABLE_ENTITY, "The run cannot be retried from this node: the workflow has no such node, or the run never reached it; details.nodeId names it.";
    RetryNothingFailed = "retry_nothing_failed", UNPROCESSABLE_ENTITY, "The run failed, but not at a node that could run again; the message says what can be done.";
    RetryDefinitionGone = "retry_definition_gone", UNPROCESSABLE_ENTITY, "The run's workflow no longer exists, so there is no newest definition to retry it with; it can be retried with its own.";
    ReplayMemorySnapshotUnavailable = "replay_memory_snapshot_unavailable", UNPROCESSABLE_ENTITY, "The memory snapshot of the run no longer exists, so the run cannot be forked.";
    TokenBudgetExceeded = "token_budget_exceeded", UNPROCESSABLE_ENTITY, "Distilling would take more tokens than the budget; nothing was changed.";
    UnknownChildWorkflow = "unknown_child_workflow", UNPROCESSABLE_ENTITY, "A node starts a workflow that does not exist.";
    CorrelationMismatch = "correlation_mismatch", UNPROCESSABLE_ENTITY, "The run waits for another event.";
    PayloadTooLarge = "payload_too_large", PAYLOAD_TOO_LARGE, "The body is larger than limits.maxRequestBodyBytes.";
    UnsupportedMediaType = "unsupported_media_type", UNSUPPORTED_MEDIA_TYPE, "The body is not of the media type that the operation takes (mostly application/json), or it is compressed.";
    CapabilityRequired = "capability_required", UNPROCESSABLE_ENTITY, "The request needs a capability that this host does not have.";
    InvalidPackScope = "invalid_pack_scope", BAD_REQUEST, "A pack's name must begin with core, vendor, community or private.";
    InvalidPackName = "invalid_pack_name", BAD_REQUEST, "The name is not a valid pack name.";
    InvalidVersion = "invalid_version", BAD_REQUEST, "The version is not a semantic version.";
    InvalidBody = "invalid_body", BAD_REQUEST, "The archive contains something that is not allowed in a pack.";
    TarballGunzipFailed = "tarball_gunzip_failed", BAD_REQUEST, "The archive cannot be decompressed.";
    TarballTooLarge = "tarball_too_large", BAD_REQUEST, "The archive, its uncompressed size or the number of its files exceeds the limit.";
    TarballTarParseFailed = "tarball_tar_parse_failed", BAD_REQUEST, "The archive is not a tar archive of regular files with plain names.";
    TarballPathTraversal = "tarball_path_traversal", BAD_REQUEST, "A name or a link leads out of the pack.";
    TarballEntryTooLarge = "tarball_entry_too_large", BAD_REQUEST, "A file of the archive exceeds the limit.";
    TarballEntryMissing = "tarball_entry_missing", BAD_REQUEST, "A file that the manifest names is not in the archive.";
    TarballManifestMissing = "tarball_manifest_missing", BAD_REQUEST, "There is no pack.json at the root.";
    TarballManifestTooLarge = "tarball_manifest_too_large", BAD_REQUEST, "pack.json exceeds the limit.";
    TarballManifestNotJson = "tarball_manifest_not_json", BAD_REQUEST, "pack.json is not JSON.";
    InvalidManifest = "invalid_manifest", BAD_REQUEST, "pack.json does not match its schema, or an agent refers to a file outside the pack.";
    ManifestMismatch = "manifest_mismatch", BAD_REQUEST, "The pack is not the one that was requested.";
    PackLoadFailure = "pack_load_failure", BAD_REQUEST, "A prompt is not UTF-8, or a schema does not compile.";
    PackKindInvalid = "pack_kind_invalid", BAD_REQUEST, "A pack of this kind cannot contain agents.";
    UnsupportedRuntime = "unsupported_runtime", BAD_REQUEST, "The pack contains code, and this host runs no code of packs.";
    PromptTemplateInvalid = "prompt_template_invalid", BAD_REQUEST, "A template of the pack is invalid.";
    PromptPackDependencyUnresolvable = "prompt_pack_dependency_unresolvable", UNPROCESSABLE_ENTITY, "The pack of prompts depends on a pack that is not installed.";
    PromptRefAmbiguous = "prompt_ref_ambiguous", CONFLICT, "Two packs have a prompt with this id; name one in libraryId.";
    PackRuntimeRequirementUnmet = "pack_runtime_requirement_unmet", BAD_REQUEST, "The pack requires a runtime or platform feature that this host does not offer.";
    PackIntegrityMismatch = "pack_integrity_mismatch", BAD_REQUEST, "The digest of the archive, or of a file in it, is not the announced or signed one.";
    PackSignatureInvalid = "pack_signature_invalid", BAD_REQUEST, "The signature is invalid, or its key may not sign for this name.";
    PackSignatureUnverifiable = "pack_signature_unverifiable", BAD_REQUEST, "The pack has no signature of a trusted key over all of its files.";
    PackPeerDependencyMissing = "pack_peer_dependency_missing", UNPROCESSABLE_ENTITY, "The pack needs a capability that this host lacks; details.requiredCapability names it.";
    UnsupportedCapability = "unsupported_capability", UNPROCESSABLE_ENTITY, "An agent needs a capability that this host lacks; details.requiredCapability names it.";
    UnsupportedModelClass = "unsupported_model_class", UNPROCESSABLE_ENTITY, "An agent needs a model class that this host lacks.";
    PackVersionNotFound = "pack_version_not_found", NOT_FOUND, "The registry has no such version, or it was yanked.";
    PackFetchFailed = "pack_fetch_failed", BAD_GATEWAY, "The registry cannot be reached, or its response is invalid.";
    VersionConflict = "version_conflict", CONFLICT, "It was changed at the same time, or this version of a pack is installed with other contents; the message says which.";
    PackReserved = "pack_reserved", CONFLICT, "The pack was given to the host at its start and cannot be removed over HTTP.";
    NoActiveDeployment = "no_active_deployment", BAD_REQUEST, "No active version of the agent serves on the channel.";
    EvalGateUnmet = "eval_gate_unmet", FORBIDDEN, "The promotion needs the id of a finished and passed evaluation.";
    DeploymentConflict = "deployment_conflict", CONFLICT, "The version's state does not allow the transition, or it was changed at the same time.";
    MemberPaused = "member_paused", CONFLICT, "The member is paused; resume it before its workflows can start.";
    WorkConflict = "work_conflict", CONFLICT, "The work item is in that state already, it was changed at the same time, or its member does not own its workflow any more.";
    MisdirectedRequest = "misdirected_request", MISDIRECTED_REQUEST, "The host does not answer to the name in the Host header; start it with --host NAME.";
    RateLimited = "rate_limited", TOO_MANY_REQUESTS, "The key, its tenant or the subscription exceeds its rate or its share of the host; Retry-After says when to try again.";
    InternalError = "internal_error", INTERNAL_SERVER_ERROR, "Internal error; the host's log has the cause under details.correlationId.";
    EventTypeUnmapped = "event_type_unmapped", INTERNAL_SERVER_ERROR, "The run's log holds an event that the protocol's second major has no name for; the first can read it.";
    PayloadUnprojectable = "payload_unprojectable", INTERNAL_SERVER_ERROR, "The run's log holds what the protocol's second major has no place for; details.keys names it, and the first can read it.";
    CapabilityNotProvided = "capability_not_provided", NOT_IMPLEMENTED, "The protocol defines this, but this host does not support it.";
    ServiceUnavailable = "service_unavailable", SERVICE_UNAVAILABLE, "The host is at its limit or cannot reach its database; Retry-After says when to try again.";
    InsufficientStorage = "insufficient_storage", INSUFFICIENT_STORAGE, "The host's disk is full, or the tenant has as many runs stored as it may; reads still work.";
}

/// The `Retry-After` while the store is unavailable. Short: stores come back or stay away.
const RETRY_SOON_SECONDS: u64 = 1;

/// The pause where only a new start of the host helps.
const RETRY_LATER_SECONDS: u64 = 60;

/// One answer that is not a success.
#[derive(Debug, Clone, PartialEq)]
pub struct Problem {
    pub code: Code,
    pub message: String,
    pub details: Object,
    pub retry_after: Option<u64>,
}

/// Finds a failed request in the log. Kept beside the response, for the code that logs it.
#[derive(Debug, Clone)]
pub(crate) struct CorrelationId(pub(crate) String);

impl Problem {
    /// A problem on our side gets a fresh correlation id, so that caller and operator can speak of the same one.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        let problem =
            Self { code, message: message.into(), details: Object::new(), retry_after: None };
        if code.status().is_server_error() {
            problem.with("correlationId", uuid::Uuid::now_v7().to_string())
        } else {
            problem
        }
    }

    pub fn invalid(message: impl Into<String>) -> Self {
        Self::new(Code::ValidationError, message)
    }

    pub fn invalid_at(path: &str, message: &str) -> Self {
        Self::invalid(format!("{path}: {message}")).with("path", path)
    }

    /// Says nothing about what was asked for: an unknown thing and a hidden one must look the same.
    pub fn no_such(what: &str) -> Self {
        Self::new(Code::NotFound, format!("no such {what}"))
    }

    pub(crate) fn unavailable(message: &str, retry_after: u64) -> Self {
        Self::new(Code::ServiceUnavailable, message).retry_after(retry_after)
    }

    /// The cause is for the operator. The caller learns only that it was us.
    pub fn internal(cause: &(dyn std::error::Error + 'static)) -> Self {
        let problem = Self::new(Code::InternalError, "internal error; see the host's log");
        tracing::error!(error = cause, correlation_id = problem.correlation_id(), "request failed");
        problem
    }

    /// A detail that is a text.
    pub(crate) fn detail(&self, key: &str) -> Option<&str> {
        self.details.get(key).and_then(Value::as_str)
    }

    #[must_use]
    pub fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.details.insert(key.to_owned(), value.into());
        self
    }

    /// Sets the header, and the detail that must agree with it.
    #[must_use]
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self.with("retryAfter", seconds)
    }

    /// Where a store found that the thing had moved on, says it with the code of its kind.
    #[must_use]
    pub(crate) fn if_moved(self, code: Code) -> Self {
        match self.code {
            Code::VersionConflict => Self { code, ..self },
            _ => self,
        }
    }

    pub(crate) fn correlation_id(&self) -> Option<&str> {
        self.details.get("correlationId").and_then(Value::as_str)
    }
}

impl Problem {
    fn envelope(&self) -> ErrorEnvelope {
        let mut details = (!self.details.is_empty()).then(|| self.details.clone());
        // A refusal repeats what was sent, and what was sent may be a credential in the wrong place.
        details.iter_mut().for_each(redact_fields);
        let message = redact_text(&self.message);
        ErrorEnvelope { error: self.code.name().to_owned(), message, details }
    }

    /// Its envelope, for answers that hold several.
    pub(crate) fn into_envelope(self) -> Object {
        match json!(self.envelope()) {
            Value::Object(fields) => fields,
            _ => Object::new(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let correlation = self.correlation_id().map(|id| CorrelationId(id.to_owned()));
        let mut response = Answer::of(self.code.status(), &self.envelope()).into_response();
        let mut set =
            |name: HeaderName, value: HeaderValue| response.headers_mut().insert(name, value);
        if let Some(seconds) = self.retry_after {
            set(header::RETRY_AFTER, seconds.into());
        }
        if self.code.status() == StatusCode::UNAUTHORIZED {
            set(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self.code);
        if let Some(correlation) = correlation {
            response.extensions_mut().insert(correlation);
        }
        response
    }
}

impl From<ShapeError> for Problem {
    fn from(error: ShapeError) -> Self {
        let problem = Self::invalid(error.to_string());
        if error.path.is_empty() { problem } else { problem.with("path", error.path) }
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let (code, message) = match &error {
            StoreError::ScopeBusy { active } => {
                return Self::new(Code::RunAlreadyActive, "another run of this scope is active")
                    .with("activeRunId", active.as_str())
                    .with("activeHost", "cloud")
                    .retry_after(RETRY_SOON_SECONDS);
            }
            StoreError::Moved { .. } => {
                (Code::VersionConflict, "it was changed at the same time; read it again and retry")
            }
            StoreError::Full => {
                (Code::InsufficientStorage, "the disk of this host is full; reads still work")
            }
            StoreError::Unavailable(_)
            | StoreError::Conflict { .. }
            | StoreError::LeaseLost { .. } => {
                (Code::ServiceUnavailable, "the database is not available; try again")
            }
            StoreError::AlreadyDone(_) | StoreError::Unreadable { .. } => {
                return Self::internal(&error);
            }
        };
        let problem = Self::new(code, message).retry_after(RETRY_SOON_SECONDS);
        let cause: &(dyn std::error::Error + 'static) = &error;
        tracing::warn!(
            error = cause,
            correlation_id = problem.correlation_id(),
            "store refused a request"
        );
        problem
    }
}

impl From<FileError> for Problem {
    fn from(error: FileError) -> Self {
        let message = error.to_string();
        match error {
            FileError::Invalid(why) => Self::invalid(why),
            FileError::TooLarge => {
                Self::new(Code::WorkspaceTooLarge, message).with("maxFileBytes", MAX_FILE_BYTES)
            }
            FileError::TooMany => {
                Self::new(Code::WorkspaceTooLarge, message).with("maxFiles", MAX_FILES)
            }
            FileError::Conflict { current } => {
                Self::new(Code::WorkspaceConflict, message).with("currentVersion", current)
            }
            FileError::Missing => Self::no_such("file"),
            FileError::Store(error) => error.into(),
            // Only attempts of runs can be that.
            FileError::Superseded(error) => Self::internal(&error),
        }
    }
}

impl From<PackError> for Problem {
    fn from(error: PackError) -> Self {
        // A test holds that every code of the crate is in the table.
        let code = Code::ALL.iter().copied().find(|code| code.name() == error.code());
        let message = error.to_string();
        let problem =
            Self::new(code.unwrap_or(Code::ValidationError), message).with("hint", error.hint());
        match error.required_capability() {
            Some(capability) => problem.with("requiredCapability", capability),
            None => problem,
        }
    }
}

impl From<DeploymentRefusal> for Problem {
    fn from(refusal: DeploymentRefusal) -> Self {
        let message = refusal.to_string();
        match &refusal {
            DeploymentRefusal::Invalid { field, .. } => Self::invalid(message).with("path", *field),
            DeploymentRefusal::EvalGateUnmet { .. } => Self::new(Code::EvalGateUnmet, message),
            DeploymentRefusal::Illegal { from, to, .. } => {
                Self::new(Code::DeploymentConflict, message)
                    .with("fromState", from.as_str())
                    .with("toState", to.as_str())
            }
            DeploymentRefusal::NotOnChannel { .. }
            | DeploymentRefusal::CanaryUnderWay { .. }
            | DeploymentRefusal::Alone { .. }
            | DeploymentRefusal::NothingToRestore => Self::new(Code::DeploymentConflict, message),
        }
    }
}

impl From<InstallError> for Problem {
    fn from(error: InstallError) -> Self {
        match error {
            InstallError::Refused(error) => error.into(),
            InstallError::Store(error) => error.into(),
        }
    }
}

impl From<Inadmissible> for Problem {
    fn from(error: Inadmissible) -> Self {
        // The engine's codes are ours; one that is not would still be a fault of the request.
        let code = Code::ALL
            .iter()
            .copied()
            .find(|code| code.name() == error.code)
            .unwrap_or(Code::ValidationError);
        let message = error.to_string();
        Self { details: error.details, ..Self::new(code, message) }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        match error {
            EngineError::UnknownWorkflow(id) => {
                Self::invalid(format!("workflowId: no workflow {:?}", id.as_str()))
                    .with("path", "workflowId")
            }
            EngineError::Inadmissible(error) => error.into(),
            EngineError::UnknownAgent(agent) => {
                Self::invalid(format!("agentId: no agent {agent:?}"))
                    .with("path", "agentId")
                    .with("agentId", agent)
            }
            EngineError::UnknownRun(_) => Self::no_such("run"),
            EngineError::UnknownChild { ref node, ref workflow } => {
                Self::new(Code::UnknownChildWorkflow, error.to_string())
                    .with("nodeId", node.as_str())
                    .with("workflowId", workflow.as_str())
            }
            EngineError::NoSuchEvent { ref run, from, until } => {
                Self::new(Code::InvalidFromSeq, error.to_string())
                    .with("sourceRunId", run.as_str())
                    .with("fromSeq", from)
                    .with("boundary", until)
            }
            EngineError::NotRetryable { ref refusal, .. } => Self::from(refusal),
            EngineError::DefinitionGone { ref workflow, .. } => {
                Self::new(Code::RetryDefinitionGone, error.to_string())
                    .with("workflowId", workflow.as_str())
            }
            EngineError::NoMemorySnapshot { ref run, from, reason } => {
                let reason = match reason {
                    SnapshotLoss::RetentionExpired => "retention_expired",
                    SnapshotLoss::EventLogUnavailable => "event_log_unavailable",
                };
                Self::new(Code::ReplayMemorySnapshotUnavailable, error.to_string())
                    .with("sourceRunId", run.as_str())
                    .with("fromSeq", from)
                    .with("reason", reason)
            }
            EngineError::Refused(refusal) => refusal.into(),
            EngineError::FutureVersion { run, persisted, current } => {
                Self::new(Code::EngineVersionMismatch, "a newer build of this host started the run")
                    .with("runId", run.as_str())
                    .with("persistedVersion", persisted)
                    .with("currentVersion", current)
            }
            EngineError::Unprocessable { run, why } => Self::from(why).with("runId", run.as_str()),
            EngineError::OverQuota(over) => Self::new(Code::InsufficientStorage, over.to_string())
                .with("stored", over.stored)
                .with("limit", over.limit)
                .with("hint", "remove runs with `callboard db prune`, let retention do it, or raise the quota"),
            EngineError::Store(error) => error.into(),
        }
    }
}

impl From<Undecided> for Problem {
    fn from(why: Undecided) -> Self {
        match why {
            Undecided::NoThreads => Self::unavailable(&why.to_string(), RETRY_LATER_SECONDS),
            // What broke is for the operator, and was logged there.
            Undecided::Broke(_) => {
                Self::new(Code::RunUnprocessable, "a decision about the run panicked")
            }
            Undecided::Overran { .. } | Undecided::Unusable(_) | Undecided::Unreadable(_) => {
                Self::new(Code::RunUnprocessable, why.to_string())
            }
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let conflict = |code: Code, status: RunStatus| {
            Self::new(code, refusal.to_string()).with("runStatus", status.as_str())
        };
        match &refusal {
            Refusal::Unreadable(why) => Self::new(Code::RunUnprocessable, why.to_string()),
            Refusal::Ended { status } => conflict(Code::RunTerminal, *status),
            Refusal::NotPaused { status } | Refusal::PauseUnderWay { status } => {
                conflict(Code::RunStateConflict, *status)
            }
            Refusal::CannotPause { status, paused_at } => {
                let problem = conflict(Code::RunStateConflict, *status);
                paused_at.iter().fold(problem, |problem, at| problem.with("pausedAt", json!(at)))
            }
            Refusal::NoInterrupt { .. } => Self::new(Code::InterruptNotFound, refusal.to_string()),
            Refusal::AlreadyResolved { .. } => {
                Self::new(Code::InterruptAlreadyResolved, refusal.to_string())
            }
            Refusal::InvalidAnswer { .. } => Self::invalid(refusal.to_string()),
            Refusal::Uncorrelated { .. } => {
                Self::new(Code::CorrelationMismatch, refusal.to_string())
            }
            Refusal::KeyRequired { .. } | Refusal::NotAnApprover { .. } => {
                Self::new(Code::Forbidden, refusal.to_string())
            }
            Refusal::NotADelegate { .. } => {
                Self::new(Code::Forbidden, refusal.to_string()).with("scopeRequired", DELEGATE)
            }
            Refusal::UnknownChannel { channel } | Refusal::InvalidWrite { channel, .. } => {
                Self::invalid(refusal.to_string()).with("channel", channel.as_str())
            }
            Refusal::NotAVariable { name } => {
                Self::invalid(refusal.to_string()).with("path", format!("variables.{name}"))
            }
            Refusal::ForeignWrite { channel, reducer, source_engine_id, source_run_id } => {
                Self::new(Code::ChannelCrossEngineWriteForbidden, refusal.to_string())
                    .with("channel", channel.as_str())
                    .with("reducer", reducer.as_str())
                    .with("sourceEngineId", json!(source_engine_id))
                    .with("sourceRunId", json!(source_run_id))
            }
            Refusal::NotAWriter { channel, source_engine_id, source_run_id } => {
                let writer =
                    json!({ "sourceEngineId": source_engine_id, "sourceRunId": source_run_id });
                Self::new(Code::ChannelAccessDenied, refusal.to_string())
                    .with("channel", channel.as_str())
                    .with("requestedBy", writer)
                    .with("allowed", "writers")
            }
            Refusal::IsReplay => Self::new(Code::RunStateConflict, refusal.to_string()),
            // Commands of drivers, never of callers.
            Refusal::AlreadyStarted | Refusal::StaleAttempt { .. } => Self::internal(&refusal),
        }
    }
}
