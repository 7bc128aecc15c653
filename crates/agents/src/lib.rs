//! Agents that come in packs, from the archive of a stranger to an answer of the version that a run got.

mod admission;
mod archive;
mod author;
mod coding;
pub mod conformance;
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
mod tool;

pub use admission::{
    Check, Offer, Outcome, Policy, Report, Unsigned, Verification, Vetted, verify, vet,
};
pub use archive::{Files, Limits};
pub use author::{AuthorError, Signed, SigningKey, bundle, collect, scaffold, sign};
pub use coding::{
    Admitted, Begin, CODING_PROVIDER, CodingAgents, CodingError, CodingFault,
    Decision as CodingDecision, Errand, NoCodingAgents, Permission as CodingPermission,
    Report as CodingReport, Step, StepSink,
};
pub use degrade::{Degradation, Host};
pub use deployment::{
    Changed, Deployment, DeploymentPolicy, DeploymentRefusal, Draw, EvalGate, Evidence, LATEST,
    PinError, Surroundings, pin, tell_change, tell_refusal,
};
pub use dispatch::{AgentDirectory, AgentDispatch, WithModels, scripted_answer};
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
    AssembledCall, BUDGET_MULTIPLIER, CacheRecipe, Delta, DeltaSink, Demands, Exhausted,
    ExhaustedReason, Fault, Gate, MODEL_CAPABILITIES, Message, Model, ModelError, ModelRef,
    ModelRefError, ModelRequest, ModelTable, Models, NoModel, Overflow, Phase, Price, PriceTable,
    Recovery, RecoveryPath, ResolvedModel, RetryAdvice, SCHEMA_ROUNDS, Scripted, SemanticRequest,
    StopReason, Substitution, TokenUsage, ToolCallAssembly, ToolNames, ToolReply, ToolSpec, Tries,
    Turn, Verdict, WantedCall, gate, judge, reduce, restore,
};
pub use pack::{Agent, Pack, Schema, unmet_needs};
pub use prompt::{
    AgentPrompts, Binding, Bindings, Bound, Chosen, ComposeError, Composed, LibraryError,
    Observability, Prepared, PromptDesk, PromptLibrary, PromptSources, Resolution, Trust,
    built_in_prompts, compose, resolve, told_of,
};
pub use proof::{Announced, Proof};
pub use registry::{Fetch, FetchError, FolderRegistry, Registry};
pub use signature::{Signature, Sri};
pub use structured::{MockAi, MockEntry, MockText, StructuredOutput};
pub use tool::{
    AdmittedCall, Credentials, FixedTools, Granted, Grants, HookRefusal, NotAdmitted, RatePolicy,
    Tool, ToolDescriptor, ToolFault, ToolHooks, ToolInvocation, ToolOffer, ToolOutput, ToolSurface,
    ToolUse, Toolbox, Toolboxes, WorkflowTools, args_hash, file_tools, memory_tools, run_folder,
    untrusted,
};
