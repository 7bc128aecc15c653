//! The OpenWOP v1 vocabulary: ids, events, bodies, the workflow definition and
//! the error envelope. Shapes only: nothing here waits, reads or decides.

mod agent;
mod ai_envelope;
mod annotation;
mod capabilities;
mod closed;
mod deployment;
mod dialect;
mod envelope;
mod event;
mod event_types;
mod heartbeat;
mod hex;
mod ids;
mod memory;
mod org_chart;
mod pack;
mod prompt;
mod request;
mod retry;
mod roster;
mod snapshot;
mod time;
mod tool;
mod trigger;
mod usage;
mod work;
mod workflow;
mod workspace;

pub use agent::{
    AgentInventory, AgentInventoryEntry, AgentManifest, AgentRole, Confidence, Handoff,
    MemoryDimension, MemoryShape, ModelClass,
};
pub use ai_envelope::{AiEnvelope, ContentTrust, EnvelopeMeta, EnvelopeSource, PartialEnvelope};
pub use annotation::{
    Actor, Anchor, Annotation, AnnotationTarget, CreateAnnotation, Signal, SignalKind,
};
pub use capabilities::{
    AgentsCapability, ApproverRouting, AuditLogIntegrity, AuthCapability, AuthorizationCapability,
    Backpressure, BudgetCapability, BundleCapability, Capabilities, CommitmentsCapability,
    CompletionCapability, Compliance, ConformanceCapability, Contradiction, CrossHostCausation,
    DeadLetterCapability, DeploymentCapability, DiscoveryCapability, DispatchCapability,
    EgressPolicyCapability, EngineVersionRange, EnvelopesCapability, ExecutionModel, Feedback,
    HeartbeatCapability, HttpClientCapability, IdempotencyCapability, Implementation,
    IngestionCapability, InstallScope, InterruptCapability, Limits, LiveRuntime, ManifestRuntime,
    MemoryAttribution, MemoryCapability, MemoryCompaction, MemoryConsolidation, MemoryDistillation,
    MemoryRetention, MemorySearch, ModelCapabilities, MultiAgentCapability, Observability,
    OidcCapability, OrchestratorCapability, OrgChartCapability, OtelCapability, PauseResume,
    Production, PromptsCapability, ReasoningCapability, ReliabilityCapability, ReplayCapability,
    ReplayDeterminism, RestTransport, RetentionCapability, RoleCapability, RosterCapability,
    RosterContradiction, RunsCapability, SchedulingCapability, ScopedDiscovery, SeamCapability,
    SecretsCapability, SubWorkflowCapability, Supported, Testing, ToolCatalogCapability,
    ToolHooksCapability, TriggerBridgeCapability, TriggerDeadLetterCapability, UsageCapability,
    WebhooksCapability, WorkspaceCapability,
};
pub use closed::{ShapeError, parse, parse_value};
pub use deployment::{
    AgentDeployment, DeploymentCanaryAdjusted, DeploymentEvent, DeploymentPromoted,
    DeploymentRolledBack, DeploymentState, DeploymentStateChanged, DeploymentTransition,
    Transition,
};
pub use dialect::Dialect;
pub use envelope::ErrorEnvelope;
pub use event::{
    AgentDecided, AgentHandoff, AgentInvocationCompleted, AgentInvocationStarted,
    AgentPromptResolved, AgentReasoned, AgentReasoningDelta, AgentSession, AgentToolCalled,
    AgentToolReturned, Amount, ApprovalReceived, ApprovalRequested, ArtifactCreated, Ask,
    Attestation, AuthorizationDecided, BudgetConsumed, BudgetDimension, BudgetExhausted,
    BudgetReserved, BudgetScope, BudgetThresholdCrossed, CancelRequested, CapBreached, CapKind,
    ChainPhase, ChannelWritten, ChildChanged, ChunkMeta, ClarificationRequested,
    ClarificationResolved, CompactionTrigger, ConfidenceEscalated, ConsolidationTrigger,
    Consumption, ConversationClosed, ConversationExchanged, ConversationOpened, ConversationTurn,
    DeliveryOutcome, Distillation, DivergenceKind, EffectiveBudget, EgressDecided, EgressDecision,
    EgressReason, EnvelopeKind, EnvelopeNlToFormatEngaged, EnvelopeRecoveryApplied,
    EnvelopeRefusal, EnvelopeRetryAttempted, EnvelopeRetryExhausted, EnvelopeTruncated,
    EscalationKind, Evaluated, Event, Failure, InterruptKind, InterruptRequested,
    InterruptResolved, InvocationOutcome, InvocationSource, LogAppended, LoopbackLimit,
    MemoryCompacted, MemoryConsolidated, MemoryWritten, ModelCapabilityInsufficient,
    ModelCapabilitySubstituted, ModelFallback, NodeCancelled, NodeCompleted, NodeDispatched,
    NodeFailed, NodeResumed, NodeRetried, NodeSkipped, NodeStarted, NodeSuspended, OtherEvent,
    OutputChunk, PauseRequested, PromptComposed, PromptKind, PromptLayer, ReplayDiverged,
    ReplayDivergedAtRefusal, RosterRunInitiated, RunCancelled, RunCompleted, RunDeadLettered,
    RunEvent, RunFailed, RunOrchestratorDecided, RunPaused, RunResumed, RunStarted, StateReason,
    StreamTier, ToolStatus, TriggerDeliveryAttempted, TriggerSubscriptionStateChanged, TurnRole,
    UnreadableEvent, Usage, VariableChanged, VersionPinned, Vote, WorkflowChained,
    WorkspaceUpdated,
};
pub use event_types::EVENT_TYPES;
pub use heartbeat::{
    HeartbeatEvaluated, HeartbeatSkip, HeartbeatSkipped, HeartbeatStateChanged, HeartbeatStatus,
};
pub use hex::hex;
pub use ids::{
    AgentId, ChannelName, EventId, HeartbeatId, HostId, KeyId, MemoryId, NodeId, Owner, Principal,
    RosterId, RunId, ScheduleId, SecretName, Tenant, TypeId, WebhookId, WorkflowId, Workspace,
};
pub use memory::{MemoryEntry, Remembered};
pub use org_chart::{
    AgentOrgChart, Department, Depth, OrgRole, Placement, PutOrgChart, ResponsibilityView,
};
pub use pack::{
    NameError, PROMPT_PACK, PackManifest, PackName, PackRuntime, PackVersion, PeerDependencyMeta,
    PromptPackManifest, RangeTextError, RuntimeLanguage, RuntimeNeed, Signing, SigningMethod,
    VersionRange, VersionTextError,
};
pub use prompt::{
    LONGEST_PROMPT, ModelHints, PromptMeta, PromptOrigin, PromptRef, PromptSource, PromptTemplate,
    PromptValueType, PromptVariable,
};
pub use request::{
    BulkCancel, BulkCancelled, BulkItem, BulkItemError, CancelRun, Chat, CreateRun, CreatedRun,
    DrainPolicy, ForkRun, ForkedRun, OriginDelivery, ParentRun, PauseRun, ResumeRun, RunAncestry,
    RunOptions, RunOrigin,
};
pub use retry::{RetriedRun, RetriedRuns, RetryItem, RetryOutcome, RetryRun, RetryRuns};
pub use roster::{
    AgentRoster, AgentRosterEntry, ChangeMember, FireMember, HireMember, RosterAgentRef,
    RosterLine, RosterOwner, TriggerSource,
};
pub use snapshot::{
    ChildRunSnapshot, ForkMode, ForkSnapshot, NodeSnapshot, RunCost, RunMetrics, RunSnapshot,
    RunStatus, RunTokens,
};
pub use time::Timestamp;
pub use tool::{
    SafetyTier, ToolApproval, ToolAuth, ToolEgress, ToolEntry, ToolReplay, ToolSource,
    ToolTransport,
};
pub use trigger::{
    AttachmentRef, Backoff, EmailContent, FormContent, RetryPolicy, SubscriptionState,
    TriggerEvent, TriggerSubscription, WebhookContent,
};
pub use usage::ProviderUsage;
pub use work::{AddWork, MoveWork, WorkItem, WorkState};
pub use workflow::{
    AgentRef, ChannelAccess, ChannelDeclaration, ConditionType, DefinitionError, EdgeCondition,
    PortValue, Position, Reducer, TriggerRule, TriggerType, VariableType, WorkflowDefinition,
    WorkflowEdge, WorkflowMetadata, WorkflowNode, WorkflowSettings, WorkflowTrigger,
    WorkflowVariable,
};
pub use workspace::{FileVersion, WorkspaceFile, WorkspaceFileCreate};

/// A JSON object. Its keys are in an order that depends only on what was done to it, so that two folds print the same
/// bytes; code that compares bytes of different origin sorts them first.
pub type Object = serde_json::Map<String, serde_json::Value>;

/// The version of the protocol that this build speaks.
pub const PROTOCOL_VERSION: &str = "1.1";
/// Every version of it that clients and packs of this build may be made for.
pub const PROTOCOL_VERSIONS: [&str; 2] = ["1.0", PROTOCOL_VERSION];
/// The version of the second major that this build speaks beside it.
pub const SECOND_VERSION: &str = "2.0";
/// The engine version that this build stamps on runs and events.
pub const ENGINE_VERSION: u32 = 1;
/// The event log's own schema version, as OpenWOP v1 counts it.
pub const EVENT_LOG_SCHEMA_VERSION: u32 = 2;
/// The same as the second major counts it: of every run that is born from now on, and of those from before.
pub const ERA: u32 = 3;
pub const LEGACY_ERA: u32 = EVENT_LOG_SCHEMA_VERSION;
/// The version of a single event's payload contract.
pub const EVENT_SCHEMA_VERSION: u32 = 1;
