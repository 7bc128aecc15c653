//! Agents that come in packs, from an untrusted archive to an answer of the version that a run got.

mod admission;
mod archive;
mod ask;
mod author;
mod coding;
mod degrade;
mod deployment;
mod dispatch;
mod envelope;
mod error;
mod inventory;
mod keys;
mod live;
mod memory;
mod mention;
mod model;
mod pack;
mod prompt;
mod proof;
mod registry;
mod setup;
mod signature;
mod structured;
mod task;
mod tool;

pub use admission::{
    Check, Offer, Outcome, Policy, Report, Unsigned, Verification, Vetted, verify, vet,
};
pub use archive::{Files, Limits};
pub use author::{AuthorError, Signed, SigningKey, bundle, collect, scaffold, sign};
pub use coding::{
    Admitted, Begin, CODING_PROVIDER, CodingAgents, CodingError, CodingFault, CodingTask,
    Decision as CodingDecision, NoCodingAgents, Permission as CodingPermission,
    Report as CodingReport, Step, StepSink,
};
pub use degrade::{Degradation, Host};
pub use deployment::{
    Changed, Deployment, DeploymentPolicy, DeploymentRefusal, Draw, EvalGate, Evidence, LATEST,
    PinError, Surroundings, audit_change, audit_refusal, pin,
};
pub use dispatch::{AgentDirectory, AgentDispatch, WithModels};
pub use envelope::{
    Counter, Counters, EnvelopeOutcome, NormalizedMeta, Prior, RefusalMode, Strictness, Terms,
    UNIVERSAL_KINDS, accept, project,
};
pub use error::PackError;
pub use inventory::{
    AgentRegistry, InstallError, Installed, InstalledAgent, Left, PackCatalog, PackExport,
    PackList, PackPage, PackSearch, Snapshot,
};
pub use keys::{KeyTextError, TrustedKey, TrustedKeys};
pub use live::{Contracts, LiveAgents, LiveSettings};
pub use memory::{AgentMemory, Notebook, bind};
pub use mention::{Mention, mentioned};
pub use model::{
    AssembledCall, BUDGET_MULTIPLIER, Delta, DeltaSink, Demands, Exhausted, ExhaustedReason, Fault,
    Gate, MODEL_CAPABILITIES, Message, Model, ModelError, ModelRef, ModelRefError, ModelRequest,
    ModelTable, Models, NoModel, Overflow, Phase, Price, PriceTable, ProviderReason, RecordedCall,
    Recovery, RecoveryPath, ResolvedModel, RetryAdvice, SCHEMA_ROUNDS, Scripted, SemanticRequest,
    SentRequest, StopReason, Substitution, TokenUsage, ToolCallAssembly, ToolReply, ToolSpec,
    Tries, Turn, Verdict, WantedCall, gate, judge, recorded_calls, reduce, restore,
    scripted_answer,
};
pub use pack::{Agent, Pack, Schema, unmet_needs};
pub use prompt::{
    AgentPrompts, Binding, Bindings, Bound, Chosen, ComposeError, Composed, LibraryError,
    Observability, Prepared, PromptLibrary, PromptResolver, PromptSources, Resolution, Trust,
    built_in_prompts, compose, resolve, told_of,
};
pub use proof::{Announced, Proof};
pub use registry::{Fetch, FetchError, FolderRegistry, Registry};
pub use signature::{Signature, Sri};
pub use structured::{MockAi, MockEntry, MockText, PublishedAi, StructuredOutput};
pub use task::{ReadTask, TaskReader, plain_task};
pub use tool::{
    AdmittedCall, BrokenSchema, Credentials, FixedTools, Granted, Grants, HookRefusal, NotAdmitted,
    RatePolicy, Tool, ToolCard, ToolDescriptor, ToolFault, ToolHooks, ToolInvocation, ToolOffer,
    ToolOutput, ToolSurface, ToolUse, Toolbox, Toolboxes, WorkflowTools, args_hash, file_tools,
    memory_tools, provider_name, run_folder, untrusted,
};
