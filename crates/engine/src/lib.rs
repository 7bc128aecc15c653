//! Drives runs: records what core decides, performs what it owes, and keeps the queue of due work moving.

mod activity;
mod ancestry;
mod annotations;
mod audit;
mod audit_log;
mod budget;
mod calls;
mod catalog;
mod census;
mod changes;
mod children;
mod claim;
mod clock;
mod coding_sessions;
mod concurrency;
mod console_sessions;
mod decisions;
mod deliver;
mod deployments;
mod directory;
mod document;
mod drive;
mod effects;
mod elsewhere;
mod engine;
mod envelopes;
mod family;
mod files;
mod fire;
mod fork;
mod heartbeats;
mod in_memory;
mod intercept;
mod issuers;
mod kept_runs;
mod keys;
mod ledger;
mod links;
mod logs;
mod memory;
mod observe;
mod once;
mod order;
mod org_chart;
mod outside;
mod pace;
mod packs;
mod park;
mod patience;
mod places;
mod prompts;
mod quota;
mod record;
mod records;
mod registry;
mod retention;
mod roles;
mod roster;
mod schedules;
mod secrets;
mod setup;
mod spend;
mod store;
mod strikes;
mod sub_runs;
mod tallies;
mod tasks;
mod triggers;
mod unprocessable;
mod values;
mod wait;
mod watcher;
mod webhooks;
mod work;

pub use activity::{Activities, Activity, Call, Past, PastTask, Superseded, VersionError};
pub use ancestry::Ancestry;
pub use annotations::{Annotated, Annotations};
pub use audit::AuditRun;
pub use audit_log::{
    Actor, AuditAnomaly, AuditCheckpoint, AuditEntry, AuditFact, AuditLog, AuditQuery,
    AuditVerification, CHECKPOINT_ENTRIES, CHECKPOINT_SECONDS, CheckpointLoop, KeptEntry, audited,
};
pub use budget::{BudgetAccount, Budgets, DayAccount, accounted};
pub use catalog::{Catalog, CatalogEntry, Origin, RegisterError};
pub use census::{Census, RunGroup, WATCHED, Wakes};
pub use changes::{Changes, Listener};
pub use clock::{Clock, Ids, RandomIds, Steady, SystemClock};
pub use coding_sessions::CodingSessions;
pub use concurrency::{AtWork, Ceilings, Concurrency, HeldBack, Queue, QueuePlace, Waiting};
pub use console_sessions::{ConsoleSession, ConsoleSessions};
pub use decisions::Undecided;
pub use deliver::{Deliver, DeliverError, Parcel};
pub use deployments::{DeploymentChange, Deployments, StoredDeployment};
pub use directory::{Directory, NoAgents};
pub use effects::{Begun, EffectClaim, EffectId, EffectKey, RequestDigest, SettledEffect};
pub use elsewhere::{Cache, Elsewhere, Generations, Heard, HostSeen};
pub use engine::{
    Done, DrivingLimits, DrivingLoad, Engine, EngineError, Options, Parts, Remember, Seen,
    SnapshotLoss,
};
pub use envelopes::{EnvelopeId, Envelopes, KeptEnvelope, ProjectedEvent};
pub use files::{
    Condition, FileAccess, FileChange, FileDraft, FileError, FileRecord, FileRow, Files,
    MAX_FILE_BYTES, MAX_FILES, check_path, etag,
};
pub use fire::{Acting, Fire};
pub use fork::{
    DryRun, ForkOrder, Overlay, PlannedRetry, RetriedOnce, RetryDefinition, RetryOrder,
};
pub use heartbeats::{
    Beat, DueHeartbeats, Evaluation, Heartbeat, HeartbeatEvent, HeartbeatLoop, HeartbeatNotice,
    HeartbeatState, Heartbeats, MAX_RUNTIME, MIN_INTERVAL, NewHeartbeat, Observe, ObserveError,
    Probe,
};
pub use in_memory::InMemoryStore;
pub use intercept::{Access, Intercept, InterceptedStore, StoreCall};
pub use issuers::{IssuerAway, IssuerHttp};
pub use kept_runs::{KeptRun, KeptRuns};
pub use keys::{Keys, Made, StoredKey};
pub use ledger::{EffectState, LedgerRow};
pub use links::LinkSecrets;
pub use logs::{LogPosition, Logged, Window};
pub use memory::{
    CONVERSATIONS, Commitment, CrowdedMemory, Due, Keeper, Lifetime, MAX_MEMORY_BYTES,
    MAX_TOKEN_BUDGET, Memory, MemoryAccess, MemoryAuthor, MemoryDraft, MemoryError, MemoryQuery,
    MemoryRecord, MemoryRow, MemoryWrite, Place, Seen as MemorySeen, TOKENIZER, Upkeep,
    UpkeepError, Wanted, add_memory, next_expiry, unreached, words,
};
pub use observe::{Ended, UNTRACED};
pub use once::{CallFailure, Effect, OnUnknown, Once, OnceError};
pub use order::{Order, Target};
pub use org_chart::{OrgCharts, StoredChart};
pub use packs::{PackId, PackOwner, Packs, PutPack, StoredPack};
pub use patience::patient;
pub use prompts::Prompts;
pub use quota::{OverQuota, Quotas, StoredLimits, StoredRuns};
pub use records::{
    DueRecords, Expected, IndexEntry, IndexName, Key, KeyOrder, Kind, MEMBER, Record, RecordChange,
    RecordQuery, RecordWrite, RunLink, WORKFLOW, Within,
};
pub use registry::{Put, StoredWorkflow, Workflows};
pub use retention::{
    EndedRuns, Removable, RemovableCount, RetentionPolicy, RetentionRule, Sweeper,
    remove as remove_runs,
};
pub use roles::{MOST_ROLES, PutRole, Role, Roles};
pub use roster::{Roster, Spent, StoredMember, USAGE};
pub use schedules::{
    BookError, DeclaredError, DueSchedules, LastTurn, MissedFire, NewSchedule, Overlap, Schedule,
    ScheduleChange, ScheduleFilter, ScheduleState, Scheduler, Schedules, Timing, TurnOutcome,
    declared_schedules,
};
pub use secrets::{HeldSecret, SecretError, Secrets, StoredSecret};
pub use spend::{MOST_NAMES, SpendBy, Spending, Usage};
pub use store::{
    Append, Batch, Chosen, Claim, ClaimOrigin, ClaimRequest, Claimed, CounterChange, CounterQuery,
    Digest, DueRun, Fence, Filter, Found, InboxFilter, InboxItem, InboxPlace, KeyMode, Lease,
    Listed, NewRun, Opened, Outcome, Page, Realm, Recorded, Row, Scope, Standing, Store,
    StoreError, Tenure, Then, Turns,
};
pub use strikes::Strikes;
pub use sub_runs::{SubRun, SubRunError, SubRunResult, WeakEngine};
pub use triggers::{
    Attachment, DeadReason, DueDeliveries, Fields, FilteredPosts, InboundDelivery, InboundState,
    Incoming, Keeping, MOST_DELIVERIES, MOST_MAIL_BYTES, Mail, MailError, NewSubscription, Post,
    Preset, SecretFrom, SignatureError, SigningSecret, SigningSecrets, Subscription,
    SubscriptionBody, Terms, TokenPlace, TriggerDelivery, TriggerError, TriggerIngest, Triggers,
    Verification, queue_changes,
};
pub use values::{MOST_KEYS, StoredValue, ValueChange, ValueName};
pub use wait::{AskedQuestion, NewestEvent, Rest, Wait, WaitReason, WaitedChild};
pub use watcher::Watcher;
pub use webhooks::{
    Callback, Care, Circuit, DeadLetter, Delivery, DeliveryLoop, EventFilter, Fate, Letters,
    MOST_LETTERS, Others, PendingDelivery, Plan, Planned, ProjectError, Registration,
    RegistrationError, Resent, RetryPace, Secret, Settlement, SignCallbacks, TakeRequest, Taken,
    TranslatedEvent, UnknownPattern, Unplanned, Webhook, Webhooks, judge_delivery,
};
pub use work::{FiredWork, Queues, StoredWork, Waits, Work, WorkChange, WorkMove};
