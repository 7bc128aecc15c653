//! Our types against the protocol's own schemas and fixtures, where they are at hand.

#![expect(clippy::expect_used, reason = "tests stop at the first surprise")]

#[path = "schemas/agents.rs"]
mod agents;
#[path = "schemas/kept.rs"]
mod kept;
#[path = "schemas/tools.rs"]
mod tools;
#[path = "schemas/triggers.rs"]
mod triggers;
#[path = "schemas/usage.rs"]
mod usage;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use callboard_protocol::{
    AgentDecided, AgentDeployment, AgentHandoff, AgentReasoned, AgentRoster, AgentRosterEntry,
    AgentSession, ApprovalReceived, ApprovalRequested, ArtifactCreated, Ask, Attestation,
    BudgetConsumed, BudgetDimension, BudgetExhausted, BudgetReserved, BudgetScope,
    BudgetThresholdCrossed, CancelRequested, CapBreached, CapKind, ChainPhase, ChannelWritten,
    ChildChanged, ChildRunSnapshot, ChunkMeta, ClarificationRequested, ClarificationResolved,
    CompactionTrigger, ConfidenceEscalated, ConsolidationTrigger, Consumption, ConversationClosed,
    ConversationExchanged, ConversationOpened, ConversationTurn, CreateRun,
    DeploymentCanaryAdjusted, DeploymentEvent, DeploymentPromoted, DeploymentRolledBack,
    DeploymentState, DeploymentStateChanged, DeploymentTransition, Distillation, DivergenceKind,
    DrainPolicy, EVENT_TYPES, EffectiveBudget, EnvelopeKind, ErrorEnvelope, EscalationKind, Event,
    EventId, Failure, FileVersion, ForkMode, ForkSnapshot, InterruptKind, InterruptRequested,
    InterruptResolved, LoopbackLimit, MemoryCompacted, MemoryConsolidated, MemoryWritten,
    NodeCancelled, NodeCompleted, NodeDispatched, NodeFailed, NodeResumed, NodeRetried,
    NodeSkipped, NodeSnapshot, NodeStarted, NodeSuspended, Object, OutputChunk, Owner,
    PauseRequested, Reducer, Remembered, ReplayDiverged, ReplayDivergedAtRefusal, RosterAgentRef,
    RosterId, RosterOwner, RosterRunInitiated, RunCancelled, RunCompleted, RunCost,
    RunDeadLettered, RunEvent, RunFailed, RunMetrics, RunOrchestratorDecided, RunPaused,
    RunResumed, RunSnapshot, RunStarted, RunStatus, RunTokens, Timestamp, Transition,
    TriggerSource, TurnRole, Usage, VariableChanged, VersionPinned, Vote, WorkflowChained,
    WorkflowDefinition, WorkspaceUpdated,
};
use jsonschema::Validator;
use serde_json::{Value, json};

/// The folder with the protocol's data; none, with a line that says so, where it is missing and not required.
#[expect(clippy::disallowed_methods, reason = "only a test may ask whether it may be skipped")]
fn openwop() -> Option<PathBuf> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/openwop"));
    if folder.is_dir() {
        return Some(folder);
    }
    let required = std::env::var("CALLBOARD_TEST_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|part| part.trim() == "openwop");
    assert!(!is_required, "openwop is required and not there");
    // Past the capture of test output: a skipped test must be seen.
    let told = std::io::stderr()
        .write_all(b"skipped: the protocol's schemas are not at ../shared/openwop\n");
    told.expect("standard error is open");
    None
}

/// Reads schemas that refer to each other by file name.
struct Files(PathBuf);

impl jsonschema::Retrieve for Files {
    fn retrieve(
        &self,
        uri: &jsonschema::Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        let name = uri.as_str().rsplit('/').next().unwrap_or_default();
        let name = name.split('#').next().unwrap_or_default();
        Ok(serde_json::from_slice(&fs::read(self.0.join("schemas").join(name))?)?)
    }
}

fn schema(folder: &Path, name: &str) -> Validator {
    compile(folder, &json!({ "$ref": format!("https://openwop.dev/spec/v1/{name}") }))
}

fn compile(folder: &Path, schema: &Value) -> Validator {
    let options = jsonschema::options().with_retriever(Files(folder.to_owned()));
    options.build(schema).expect("a schema")
}

fn check(validator: &Validator, what: &str, value: &Value) {
    let errors: Vec<String> = validator
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(errors.is_empty(), "{what}: {errors:#?}\n{value:#}");
}

/// One event of each kind that this host types, with every field set.
fn events() -> Vec<Event> {
    let mut events = run_events();
    events.extend(family_events());
    events.extend(memory_events());
    events.extend(agent_events());
    events.extend(agents::live_events());
    events.extend(triggers::trigger_events());
    events.extend(orchestration_events());
    events.extend(node_events());
    events.extend(value_events());
    events.extend(question_events());
    events.extend(answer_events());
    events.extend(talk_events());
    events
}

fn question_events() -> Vec<Event> {
    let kinds = [
        (
            InterruptKind::Approval,
            json!({ "artifactId": "a", "artifactType": "t", "title": "?", "actions": ["accept"] }),
        ),
        (InterruptKind::Clarification, json!({ "questions": [{ "id": "q", "question": "?" }] })),
        (InterruptKind::ExternalEvent, json!({ "eventType": "e", "correlation": { "k": 1 } })),
        (InterruptKind::Custom, json!({ "customKind": "c" })),
        (
            InterruptKind::LowConfidence,
            json!({ "agentId": "a.b", "threshold": 0.7, "observed": 0.2, "decision": { "x": 1 } }),
        ),
        (
            InterruptKind::ConversationStart,
            json!({ "conversationId": "c", "title": "t", "initialPrompt": "?" }),
        ),
        (
            InterruptKind::ConversationExchange,
            json!({ "conversationId": "c", "prompt": "?", "outcomeSchema": {}, "turnIndex": 1 }),
        ),
        (InterruptKind::ConversationClose, json!({ "conversationId": "c", "reason": "max-turns" })),
    ];
    assert_eq!(kinds.len(), InterruptKind::ALL.len());
    let asked = kinds.into_iter().map(|(kind, data)| {
        Event::InterruptRequested(InterruptRequested {
            node_id: None,
            kind,
            key: "r:n:0".into(),
            data,
            resume_schema: Some(Object::new()),
            timeout_ms: Some(1),
        })
    });
    asked
        .chain([
            Event::ApprovalRequested(ApprovalRequested {
                node_id: "n".into(),
                interrupt_id: "i".into(),
                artifact_id: "a".into(),
                artifact_type: "t".into(),
                title: "?".into(),
                actions: vec!["accept".into(), "edit".into()],
                approvers_list: vec!["p".into()],
                required_approvals: 2,
            }),
            Event::ClarificationRequested(ClarificationRequested {
                node_id: "n".into(),
                interrupt_id: "i".into(),
                questions: vec![json!({ "id": "q", "question": "?" })],
            }),
            suspended(),
        ])
        .collect()
}

fn suspended() -> Event {
    Event::NodeSuspended(NodeSuspended {
        node_id: "n".into(),
        interrupt_id: "i".into(),
        kind: InterruptKind::LowConfidence,
        key: "r:n:0".into(),
        reason: Some("low-confidence".into()),
        agent_id: Some("core.x.y".into()),
        threshold: Some(0.7),
        observed: Some(0.5),
    })
}

/// A conversation from its first turn to its last.
fn talk_events() -> Vec<Event> {
    let turn = |turn_index: u32, role: TurnRole| ConversationTurn {
        message_id: format!("c:{turn_index}:{}", role.as_str()),
        from: "user".into(),
        content: json!({ "text": "blue" }),
        ts: 1,
        role,
        turn_index,
        speaker_id: Some("agent.one".into()),
    };
    vec![
        Event::ConversationOpened(ConversationOpened {
            node_id: None,
            conversation_id: "c".into(),
            agent_id: Some("agent.one".into()),
            initial_turn: turn(0, TurnRole::Agent),
            schema: Some(Object::new()),
        }),
        Event::ConversationExchanged(ConversationExchanged {
            node_id: None,
            conversation_id: "c".into(),
            turn_index: 1,
            turn: turn(1, TurnRole::User),
        }),
        Event::ConversationClosed(ConversationClosed {
            node_id: None,
            conversation_id: "c".into(),
            turn_index: 2,
            final_turn: turn(2, TurnRole::System),
            outcome: Value::Null,
        }),
    ]
}

/// The protocol describes these payloads twice, and once as closed.
#[test]
fn conversations_match_the_schema_that_closes_them() {
    let Some(folder) = openwop() else { return };
    for (event, name) in talk_events().iter().zip(["Opened", "Exchanged", "Closed"]) {
        let place = format!("conversation-event.schema.json#/$defs/Conversation{name}Payload");
        check(&schema(&folder, &place), event.kind(), &event.payload());
    }
}

fn answer_events() -> Vec<Event> {
    let by = Some("p".to_owned());
    vec![
        Event::ApprovalReceived(ApprovalReceived {
            node_id: "n".into(),
            interrupt_id: Some("i".into()),
            action: "refine".into(),
            decided_by: by.clone(),
            decided_at: Timestamp::from_millis(1),
            feedback: by.clone(),
            refine_feedback: Some(object(json!({ "scope": "whole" }))),
            edited_artifact_data: Some(json!(1)),
        }),
        Event::ClarificationResolved(ClarificationResolved {
            node_id: "n".into(),
            interrupt_id: Some("i".into()),
            answers: object(json!({ "q": "a" })),
            answered_by: by.clone(),
        }),
        Event::InterruptResolved(InterruptResolved {
            node_id: "n".into(),
            interrupt_id: "i".into(),
            kind: InterruptKind::Approval,
            resume_value: Some(json!({ "action": "accept" })),
            run_id: "r".into(),
            resolved_at: Timestamp::from_millis(1),
            resolved_by: by.clone(),
            outcome: by.clone(),
            reason: by.clone(),
        }),
        Event::NodeResumed(NodeResumed {
            node_id: "n".into(),
            interrupt_id: by.clone(),
            resume_value: Some(json!(1)),
        }),
        Event::Vote(Vote {
            node_id: "n".into(),
            interrupt_id: "i".into(),
            voter: "p".into(),
            cast_by: by.clone(),
            action: "accept".into(),
        }),
        Event::Ask(Ask {
            node_id: "n".into(),
            interrupt_id: "i".into(),
            question: "?".into(),
            asked_by: by,
        }),
    ]
}

fn failure() -> Failure {
    Failure::new("code", "words").with_details(object(json!({ "x": 1 })))
}

fn agent_events() -> Vec<Event> {
    let agent_id = || "core.x.y".to_owned();
    vec![
        Event::AgentReasoned(AgentReasoned {
            node_id: None,
            agent_id: agent_id(),
            reasoning: "because".into(),
            verbosity: Some("summary".into()),
            torn: true,
        }),
        Event::AgentDecided(AgentDecided {
            node_id: None,
            agent_id: agent_id(),
            decision: json!({ "x": 1 }),
            confidence: Some(0.5),
        }),
        Event::AgentHandoff(AgentHandoff {
            node_id: None,
            from_agent_id: agent_id(),
            to_agent_id: agent_id(),
            reason: Some("why".into()),
        }),
        Event::AgentSession(AgentSession {
            node_id: "n".into(),
            coding_agent: "claude-code".into(),
            session_id: "s-1".into(),
            call: 0,
        }),
    ]
}

/// A decision, what nobody was sure enough of in it, and each step of carrying it out.
fn orchestration_events() -> Vec<Event> {
    let decision = json!({ "kind": "next-worker", "nextWorkerIds": ["w"], "confidence": 0.3 });
    let phases = [
        ChainPhase::DispatchBegan,
        ChainPhase::DispatchSucceeded,
        ChainPhase::DispatchFailed,
        ChainPhase::ChildCompleted,
        ChainPhase::ChildFailed,
        ChainPhase::ChildCancelled,
        ChainPhase::OutputHarvested,
    ];
    let chain = phases.map(|phase| {
        Event::WorkflowChained(WorkflowChained {
            node_id: None,
            phase,
            worker_id: "w".into(),
            parent_run_id: "r".into(),
            child_run_id: Some("c".into()),
            harvested_keys: Some(vec!["k".into()]),
            attestation: Some(Attestation { checksum: "00".into(), algorithm: "sha256".into() }),
            error: Some(failure()),
        })
    });
    let decided = Event::RunOrchestratorDecided(RunOrchestratorDecided {
        node_id: None,
        agent_id: "core.x.y".into(),
        iteration: Some(1),
        decision: decision.clone(),
    });
    let escalated = [EscalationKind::Clarify, EscalationKind::Escalate].map(|kind| {
        Event::ConfidenceEscalated(ConfidenceEscalated {
            node_id: None,
            confidence: 0.3,
            floor: 0.5,
            escalation_kind: kind,
            parent_run_id: "r".into(),
            worker_id: Some("w".into()),
            original_decision: Some(decision.clone()),
        })
    });
    [decided].into_iter().chain(escalated).chain(chain).collect()
}

fn memory_events() -> Vec<Event> {
    vec![
        Event::WorkspaceUpdated(WorkspaceUpdated {
            node_id: None,
            path: "desk/DIRECTIVES.md".into(),
            version: 4,
        }),
        Event::MemoryWritten(MemoryWritten {
            memory_ref: "desk/notes".into(),
            memory_id: "mem_1".into(),
            version: 2,
            node_id: Some("n".into()),
            agent_id: Some("vendor.acme.desk".into()),
            tags: vec!["source:run".into()],
        }),
        Event::MemoryCompacted(MemoryCompacted {
            node_id: None,
            memory_ref: "desk/notes".into(),
            output_id: "mem_3".into(),
            source_ids: Some(vec!["mem_1".into(), "mem_2".into()]),
            source_count: 2,
            trigger: CompactionTrigger::HostManaged,
            byte_size: 42,
            distillation: Some(Distillation {
                token_budget: 100,
                tokens_used: 99,
                index_updated: false,
            }),
        }),
        Event::MemoryConsolidated(MemoryConsolidated {
            node_id: None,
            memory_ref: "desk/notes".into(),
            input_count: 3,
            output_count: 2,
            merged_ids: Some(vec!["mem_1".into()]),
            trigger: ConsolidationTrigger::OnDemand,
        }),
    ]
}

fn family_events() -> Vec<Event> {
    vec![
        Event::NodeDispatched(NodeDispatched {
            node_id: None,
            child_run_id: "r".into(),
            child_workflow_id: "w".into(),
        }),
        Event::ChildChanged(ChildChanged {
            node_id: "n".into(),
            child_run_id: "r".into(),
            status: RunStatus::Completed,
            outputs: object(json!({ "x": 1 })),
            error: Some(failure()),
            memory: vec![Remembered { id: "mem_1".into(), version: 2 }],
            files: vec![FileVersion { path: "MEMORY-INDEX.json".into(), version: 1 }],
            used: Consumption { tokens: 3, ..Consumption::default() },
        }),
        Event::ReplayDivergedAtRefusal(ReplayDivergedAtRefusal {
            source_run_id: "run-1".into(),
            at_sequence: 7,
            original_envelope_kind: EnvelopeKind::Valid,
            replay_envelope_kind: EnvelopeKind::Refusal,
            original_event_id: Some("run-1-7".into()),
            node_id: Some("n".into()),
        }),
        Event::ReplayDiverged(ReplayDiverged {
            source_run_id: "r".into(),
            at_sequence: 3,
            original_event_id: Some(EventId::of(&"r".into(), 3)),
            divergence_kind: DivergenceKind::TypeMismatch,
            divergence_point: Some("node.completed".into()),
        }),
    ]
}

#[expect(clippy::too_many_lines, reason = "one sample of each event")]
fn run_events() -> Vec<Event> {
    let reason = Some("why".to_owned());
    vec![
        Event::RunStarted(RunStarted {
            workflow_id: "w".into(),
            inputs: object(json!({ "a": [1] })),
            transport: Some("rest".into()),
            engine_version: Some("1".into()),
            owner: Some(owner()),
            tags: vec!["t".into()],
            metadata: Some(object(json!({ "m": {} }))),
        }),
        Event::RosterRunInitiated(RosterRunInitiated {
            roster_id: "host:sally-1".into(),
            persona: "Sally".into(),
            agent_id: "vendor.acme.desk.writer".into(),
            workflow_id: "w".into(),
            trigger_source: TriggerSource::Queue.as_str().into(),
            trigger_subscription_id: Some("sub".into()),
        }),
        Event::RunCompleted(RunCompleted { outputs: object(json!({ "x": 1 })), duration_ms: 5 }),
        Event::RunFailed(RunFailed {
            error: failure(),
            failed_node_id: Some("n".into()),
            duration_ms: 5,
        }),
        Event::RunDeadLettered(RunDeadLettered {
            run_id: "r".into(),
            node_id: Some("n".into()),
            reason: "busy".into(),
            attempts: 3,
        }),
        Event::RunCancelled(RunCancelled {
            reason: reason.clone(),
            cancelled_by: Some("p".into()),
            duration_ms: 5,
            parent_run_id: Some("r".into()),
        }),
        Event::RunPaused(RunPaused {
            reason: reason.clone(),
            drain_policy: DrainPolicy::Immediate,
        }),
        Event::RunResumed(RunResumed { reason: reason.clone() }),
        Event::PauseRequested(PauseRequested { reason: reason.clone() }),
        Event::CancelRequested(CancelRequested {
            reason,
            cancelled_by: Some("p".into()),
            parent_run_id: Some("r".into()),
        }),
        Event::CapBreached(CapBreached {
            kind: CapKind::NodeExecutions,
            limit: 3_u64.into(),
            observed: 4_u64.into(),
            node_id: Some("n".into()),
            details: Some(object(json!({ "reason": "dispatch-iterations" }))),
        }),
        Event::CapBreached(CapBreached {
            kind: CapKind::BudgetCost,
            limit: 0.25.into(),
            observed: 0.5.into(),
            node_id: None,
            details: None,
        }),
        Event::BudgetReserved(BudgetReserved {
            effective_budget: EffectiveBudget {
                max_tokens: Some(100),
                max_cost_usd: Some(0.5),
                max_tool_calls: Some(2),
                max_retries: Some(0),
            },
            scope: BudgetScope::Run,
        }),
        Event::BudgetConsumed(BudgetConsumed {
            dimension: BudgetDimension::ToolCalls,
            consumed: 1_u64.into(),
            limit: 2_u64.into(),
        }),
        Event::BudgetThresholdCrossed(BudgetThresholdCrossed {
            dimension: BudgetDimension::Tokens,
            consumed: 80_u64.into(),
            limit: 100_u64.into(),
            percent: 80.0.into(),
        }),
        Event::BudgetExhausted(BudgetExhausted {
            dimension: BudgetDimension::Cost,
            consumed: 0.75.into(),
            limit: 0.5.into(),
        }),
        Event::CapBreached(CapBreached {
            kind: CapKind::LoopIterations,
            limit: 3_u64.into(),
            observed: 4_u64.into(),
            node_id: None,
            details: None,
        }),
        Event::CapBreached(CapBreached {
            kind: CapKind::RunDuration,
            limit: 3_u64.into(),
            observed: 4_u64.into(),
            node_id: None,
            details: None,
        }),
    ]
}

fn node_events() -> Vec<Event> {
    let reason = Some("why".to_owned());
    vec![
        Event::NodeStarted(NodeStarted {
            node_id: "n".into(),
            type_id: "core.noop".into(),
            attempt: 1,
            visit: 2,
            evaluated: None,
        }),
        Event::NodeCompleted(NodeCompleted {
            node_id: "n".into(),
            outputs: object(json!({ "x": null })),
            duration_ms: 5,
            evaluated: None,
        }),
        Event::NodeFailed(NodeFailed { node_id: "n".into(), error: failure(), attempts: 1 }),
        Event::NodeRetried(NodeRetried {
            node_id: "n".into(),
            attempt: 1,
            delay_ms: 1_000,
            last_error: Some(failure()),
            postponed: true,
        }),
        Event::NodeSkipped(NodeSkipped { node_id: "n".into(), reason: reason.clone() }),
        Event::NodeCancelled(NodeCancelled { node_id: "n".into(), reason }),
        Event::LoopbackLimit(LoopbackLimit { node_id: "n".into(), iterations: 5, limit: 5 }),
        Event::OutputChunk(OutputChunk {
            node_id: "n".into(),
            run_id: "r".into(),
            chunk: "text".into(),
            is_last: true,
            meta: Some(ChunkMeta {
                finish_reason: Some("stop".into()),
                model: Some("m".into()),
                usage: Some(Usage { prompt_tokens: 1, completion_tokens: 2, total_tokens: 3 }),
                provider: Some("p".into()),
            }),
            attempt: Some(1),
        }),
    ]
}

fn value_events() -> Vec<Event> {
    let names = [
        "replace",
        "append",
        "merge",
        "counter",
        "votes",
        "feedback",
        "message",
        "vendor.acme.mix",
    ];
    let written = names.map(|name| {
        Event::ChannelWritten(ChannelWritten {
            channel: "c".into(),
            value: json!([1]),
            reducer: Reducer::from(name.to_owned()),
            written_at: Timestamp::from_millis(1_700_000_000_000),
            node_id: Some("n".into()),
            schema_version: Some(1),
            source_engine_id: None,
            source_run_id: None,
        })
    });
    let mut events = vec![
        Event::VariableChanged(VariableChanged {
            name: "v".into(),
            previous: Some(json!(1)),
            next: json!({ "x": 2 }),
            node_id: Some("n".into()),
        }),
        Event::ArtifactCreated(ArtifactCreated {
            artifact_id: "n-0".into(),
            artifact_type: "plan".into(),
            node_id: "n".into(),
            version: Some("1".into()),
            registered: Some(false),
        }),
        Event::VersionPinned(VersionPinned {
            change_id: "c".into(),
            version: 2,
            node_id: Some("n".into()),
        }),
    ];
    events.extend(written);
    events
}

fn owner() -> Owner {
    Owner { tenant: "t".into(), workspace: Some("w".into()), principal: Some("p".into()) }
}

fn object(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is not an object"),
    }
}

fn envelope(event: &Event) -> RunEvent {
    RunEvent {
        event_id: EventId::of(&"run-1".into(), 3),
        run_id: "run-1".into(),
        node_id: event.node_id().cloned(),
        kind: event.kind().to_owned(),
        payload: event.payload(),
        timestamp: Timestamp::from_millis(1_700_000_000_000),
        sequence: 3,
        schema_version: 1,
        engine_version: "1".into(),
        causation_id: Some(EventId::of(&"run-1".into(), 2)),
    }
}

#[test]
fn the_list_of_events_here_has_one_of_each_kind() {
    for kind in Event::KINDS {
        assert!(events().iter().any(|event| event.kind() == *kind), "{kind} is missing");
    }
}

/// What is written reads back as itself, whatever is left out.
#[test]
fn every_event_reads_back_from_what_it_wrote() {
    for event in events() {
        let payload = serde_json::from_str(&event.payload_text()).expect("JSON");
        assert_eq!(Event::read(event.kind(), None, payload), event);
    }
}

#[test]
fn the_names_of_events_are_the_protocols() {
    let Some(folder) = openwop() else { return };
    let text = fs::read(folder.join("schemas/run-event.schema.json")).expect("the event's schema");
    let schema: Value = serde_json::from_slice(&text).expect("JSON");
    assert_eq!(schema["$defs"]["RunEventType"]["enum"], json!(EVENT_TYPES.as_slice()));
}

#[test]
fn every_event_matches_its_payload_schema() {
    let Some(folder) = openwop() else { return };
    let text = fs::read(folder.join("schemas/run-event-payloads.schema.json")).expect("payloads");
    let payloads: Value = serde_json::from_slice(&text).expect("JSON");
    let document = schema(&folder, "run-event.schema.json");
    for event in events() {
        let kind = event.kind();
        let whole = serde_json::to_value(envelope(&event)).expect("JSON");
        check(&document, kind, &whole);
        let index = &payloads["$defs"]["_typeIndex"]["properties"];
        let Some(place) = index.get(kind).and_then(|known| known["$ref"].as_str()) else {
            assert!(kind.starts_with("callboard."), "{kind} is neither the protocol's nor ours");
            continue;
        };
        let place = format!("https://openwop.dev/spec/v1/run-event-payloads.schema.json{place}");
        let payload = compile(&folder, &json!({ "$ref": place }));
        // The payload schema's list of reducers lacks `message`, which the definition schema has.
        if whole["payload"]["reducer"] == "message" {
            assert!(!payload.is_valid(&whole["payload"]), "the exception is no longer needed");
        } else {
            check(&payload, kind, &whole["payload"]);
        }
    }
}

#[test]
fn a_snapshot_matches_the_protocol_in_every_status() {
    let Some(folder) = openwop() else { return };
    let validator = schema(&folder, "run-snapshot.schema.json");
    let at = Timestamp::from_millis(1_700_000_000_000);
    for status in RunStatus::ALL {
        let node = NodeSnapshot {
            status: "failed".into(),
            visit: 1,
            attempts: 2,
            started_at: Some(at),
            ended_at: Some(at),
            error: Some(failure()),
        };
        let snapshot = RunSnapshot {
            run_id: "r".into(),
            workflow_id: "w".into(),
            status,
            owner: Some(owner()),
            current_node_id: Some("n".into()),
            created_at: at,
            started_at: Some(at),
            completed_at: Some(at),
            variables: object(json!({ "x": 1 })),
            channels: Some(object(json!({ "c": [] }))),
            node_states: [("n".into(), node)].into(),
            error: Some(failure()),
            event_log_schema_version: 2,
            tags: vec!["t".into()],
            metadata: Some(object(json!({}))),
            configurable: Some(object(json!({ "recursionLimit": 3 }))),
            workspace: vec![FileVersion { path: "DIRECTIVES.md".into(), version: 3 }],
            metrics: Some(RunMetrics {
                openwop_cost: RunCost {
                    usd: Some(0.1),
                    tokens: RunTokens { input: 3, output: 4 },
                    model: Some("m".into()),
                    provider: Some("p".into()),
                },
            }),
            last_sequence: Some(3),
            agent: serde_json::from_value(json!({ "agentId": "core.x.y" })).expect("an agent"),
            run_orchestrator: serde_json::from_value(json!({ "agentId": "core.x.y" }))
                .expect("an agent"),
            parent_run_id: Some("p".into()),
            parent_node_id: Some("n".into()),
            inputs: Some(object(json!({ "x": 1 }))),
            child_runs: vec![ChildRunSnapshot {
                run_id: "c".into(),
                workflow_id: "w".into(),
                node_id: "n".into(),
                status,
            }],
            fork: Some(ForkSnapshot {
                source_run_id: "s".into(),
                from_seq: 1,
                mode: ForkMode::Branch,
            }),
        };
        let value = serde_json::to_value(snapshot).expect("JSON");
        check(&validator, status.as_str(), &value);
    }
}

#[test]
fn an_error_envelope_matches_the_protocol() {
    let Some(folder) = openwop() else { return };
    let validator = schema(&folder, "error-envelope.schema.json");
    for details in [None, Some(object(json!({ "path": "inputs.x" })))] {
        let envelope =
            ErrorEnvelope { error: "validation_error".into(), message: "words".into(), details };
        check(&validator, "envelope", &serde_json::to_value(envelope).expect("JSON"));
    }
    let extra = json!({ "error": "e", "message": "m", "extra": 1 });
    assert!(!validator.is_valid(&extra));
    assert!(callboard_protocol::parse_value::<ErrorEnvelope>(extra).is_err());
}

/// What a caller may send with a run is what the options schema admits, and nothing beside it.
#[test]
fn a_request_for_a_run_is_read_as_the_protocol_writes_it() {
    let body = json!({ "workflowId": "w", "inputs": {}, "tenantId": "t", "scopeId": "s",
        "callbackUrl": "https://example.org", "configurable": { "recursionLimit": 3 },
        "tags": ["a"], "metadata": { "k": 1 } });
    let read: CreateRun = callboard_protocol::parse(body.to_string().as_bytes()).expect("a body");
    assert_eq!(read.workflow_id.as_deref(), Some("w"));
    let extra = callboard_protocol::parse::<CreateRun>(br#"{"workflowId":"w","extra":1}"#);
    let error = extra.expect_err("closed");
    assert_eq!(error.path, "extra");
    let Some(folder) = openwop() else { return };
    check(&schema(&folder, "run-options.schema.json"), "options", &body);
}

fn fixtures(folder: &Path) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for file in fs::read_dir(folder.join("fixtures")).expect("fixtures") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|ending| ending == "json") {
            let text = fs::read(&path).expect("a fixture");
            found.push((path.display().to_string(), serde_json::from_slice(&text).expect("JSON")));
        }
    }
    assert!(found.len() > 50, "{} fixtures", found.len());
    found
}

/// F1, F2: all that the protocol ships is read; nothing of it is lost on the way.
#[test]
fn f1_every_shipped_fixture_is_a_definition() {
    let Some(folder) = openwop() else { return };
    let validator = schema(&folder, "workflow-definition.schema.json");
    for (name, fixture) in fixtures(&folder) {
        check(&validator, &name, &fixture);
        let read = WorkflowDefinition::parse(fixture.to_string().as_bytes());
        read.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

/// F1: what the schema refuses we refuse, and the other way round.
#[test]
fn f1_a_spoilt_fixture_is_refused_by_us_and_by_the_schema() {
    let Some(folder) = openwop() else { return };
    let validator = schema(&folder, "workflow-definition.schema.json");
    for (name, fixture) in fixtures(&folder) {
        for (place, value) in spoils().into_iter().chain(spoils_of_parts()) {
            let mut spoilt = fixture.clone();
            let (parent, key) = place.rsplit_once('/').expect("a pointer");
            let Some(parent) = spoilt.pointer_mut(parent) else { continue };
            parent[key] = value.clone();
            let ours = WorkflowDefinition::parse(spoilt.to_string().as_bytes());
            assert!(!validator.is_valid(&spoilt), "{name}: the schema admits {place} = {value}");
            assert!(ours.is_err(), "{name}: we admit {place} = {value}");
        }
    }
}

/// Places and values that no definition may have.
fn spoils() -> Vec<(&'static str, Value)> {
    vec![
        ("/extra", json!(1)),
        ("/id", json!("Upper")),
        ("/id", json!("with.dot")),
        ("/id", json!("")),
        ("/name", json!("")),
        ("/version", json!("")),
        ("/status", json!("asleep")),
        ("/slug", json!("-x")),
        ("/nodes", json!([])),
        ("/nodes/0/extra", json!(1)),
        ("/nodes/0/id", json!("")),
        ("/nodes/0/name", json!("")),
        ("/nodes/0/typeId", json!("Core.Noop")),
        ("/nodes/0/typeId", json!("core/noop")),
        ("/nodes/0/outputRole", json!("third")),
        ("/nodes/0/position/x", json!("left")),
        ("/nodes/0/inputs/p", json!({ "type": "static" })),
        ("/nodes/0/inputs/p", json!({ "type": "static", "value": 1, "extra": 1 })),
        ("/nodes/0/inputs/p", json!({ "type": "expression", "expression": "" })),
        ("/nodes/0/inputs/p", json!({ "type": "variable", "variableName": "" })),
        ("/nodes/0/inputs/p", json!({ "type": "connection", "nodeId": "", "outputKey": "x" })),
        ("/nodes/0/inputs/p", json!({ "type": "connection", "nodeId": "x", "outputKey": "" })),
        ("/edges/0/extra", json!(1)),
        ("/edges/0/id", json!("")),
        ("/edges/0/triggerRule", json!("never")),
        ("/edges/0/condition", json!({ "type": "unlike" })),
        ("/triggers/0/extra", json!(1)),
        ("/triggers/0/id", json!("")),
        ("/triggers/0/type", json!("moon")),
        ("/variables/0/extra", json!(1)),
        ("/variables/0/name", json!("")),
        ("/variables/0/type", json!("date")),
    ]
}

/// More of the same, in the parts that fixtures seldom have.
fn spoils_of_parts() -> Vec<(&'static str, Value)> {
    let channel = |fields: Value| {
        let mut channel = json!({ "reducer": "append" });
        channel.as_object_mut().expect("fields").extend(object(fields));
        json!({ "c": channel })
    };
    let group = |size: Value| json!([{ "id": "g", "name": "g", "nodeIds": [], "position": { "x": 0, "y": 0 }, "size": size }]);
    vec![
        ("/channels", channel(json!({ "extra": 1 }))),
        ("/channels", channel(json!({ "reducer": "sum" }))),
        ("/channels", channel(json!({ "maxSize": 0 }))),
        ("/channels", channel(json!({ "ttlMs": 0 }))),
        ("/channels", channel(json!({ "schemaVersion": 0 }))),
        ("/channels", channel(json!({ "compatibleWith": [0] }))),
        ("/channels", channel(json!({ "compatibleWith": [1, 1] }))),
        ("/channels", channel(json!({ "access": "friends" }))),
        ("/channels", channel(json!({ "access": { "readers": ["Not A Pattern"] } }))),
        ("/channels", channel(json!({ "access": { "readers": ["a*b"] } }))),
        ("/channels", channel(json!({ "access": { "writers": ["a", "a"] } }))),
        ("/channels", channel(json!({ "access": { "others": [] } }))),
        ("/groups", group(json!({ "width": 1 }))),
        ("/defaults", json!({ "extra": 1 })),
        ("/defaults", json!({ "promptRefs": { "extra": 1 } })),
        ("/metadata", json!({ "tags": [""] })),
        ("/metadata", json!({ "complianceClass": "secret" })),
        ("/metadata", json!({ "complianceConfig": { "maskingMode": "blur" } })),
        ("/settings", json!({ "timeout": -1 })),
        ("/settings", json!({ "maxRetries": -1 })),
        ("/settings", json!({ "logLevel": "loud" })),
        ("/settings", json!({ "maxLoopbackIterations": 0 })),
    ]
}

/// RFC 0136 is newer than the schema at hand: we admit the advisory `format`, the schema does not yet.
#[test]
fn f13_the_format_of_a_variable_is_admitted() {
    let definition = json!({ "id": "w", "name": "w", "version": "1", "edges": [], "triggers": [],
        "nodes": [{ "id": "n", "typeId": "core.noop", "name": "n", "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {} }],
        "variables": [{ "name": "v", "type": "string", "format": "email" }], "metadata": {}, "settings": {} });
    let read = WorkflowDefinition::parse(definition.to_string().as_bytes()).expect("admitted");
    assert_eq!(read.variables[0].format.as_deref(), Some("email"));
}

/// What is told of a deployment, with every field and with as few as there can be.
fn deployment_events() -> Vec<DeploymentEvent> {
    let (agent_id, version) = ("vendor.acme.desk.assistant".into(), "2.0.0".parse());
    let version: callboard_protocol::PackVersion = version.expect("a version");
    let least = DeploymentPromoted {
        agent_id,
        from_version: None,
        to_version: version.clone(),
        to_state: DeploymentState::Test,
        channel: None,
        canary_percent: None,
        eval_run_id: None,
    };
    let agent_id = least.agent_id.clone();
    let promoted = DeploymentPromoted {
        from_version: Some(version.clone()),
        to_state: DeploymentState::Active,
        channel: Some("stable".to_owned()),
        canary_percent: Some(10),
        eval_run_id: Some("r1".into()),
        ..least.clone()
    };
    let back = DeploymentRolledBack {
        agent_id: agent_id.clone(),
        from_version: version.clone(),
        to_version: version.clone(),
        rollback_pointer: version.clone(),
        reason: Some("error-rate".to_owned()),
    };
    vec![
        DeploymentEvent::Promoted(least),
        DeploymentEvent::Promoted(promoted),
        DeploymentEvent::RolledBack(DeploymentRolledBack { reason: None, ..back.clone() }),
        DeploymentEvent::RolledBack(back),
        DeploymentEvent::CanaryAdjusted(DeploymentCanaryAdjusted {
            agent_id: agent_id.clone(),
            version: version.clone(),
            from_percent: 0,
            to_percent: 100,
        }),
        DeploymentEvent::StateChanged(DeploymentStateChanged {
            agent_id,
            version,
            from_state: DeploymentState::Active,
            to_state: DeploymentState::RolledBack,
        }),
    ]
}

/// A-96: the payloads are closed, and none has room for what an agent is made of.
#[test]
fn what_is_told_of_a_deployment_matches_the_protocol() {
    let Some(folder) = openwop() else { return };
    let text = fs::read(folder.join("schemas/run-event-payloads.schema.json")).expect("payloads");
    let payloads: Value = serde_json::from_slice(&text).expect("JSON");
    for event in deployment_events() {
        let place = &payloads["$defs"]["_typeIndex"]["properties"][event.kind()]["$ref"];
        let place = place.as_str().expect("the event's payload");
        let place = format!("https://openwop.dev/spec/v1/run-event-payloads.schema.json{place}");
        let payload = compile(&folder, &json!({ "$ref": place }));
        check(&payload, event.kind(), &event.payload());
        for banned in ["manifest", "prompt", "body", "secret", "credentials", "token", "apiKey"] {
            let mut told = event.payload();
            told[banned] = json!("x");
            assert!(!payload.is_valid(&told), "{} has room for {banned}", event.kind());
        }
    }
}

#[test]
fn deployments_are_read_and_written_as_the_protocol_does() {
    let Some(folder) = openwop() else { return };
    let record = schema(&folder, "agent-deployment.schema.json");
    let request = schema(&folder, "agent-deployment-transition.schema.json");
    let version: callboard_protocol::PackVersion = "1.2.3".parse().expect("a version");
    for state in DeploymentState::ALL {
        let full = AgentDeployment {
            agent_id: "vendor.acme.desk.assistant".into(),
            version: version.clone(),
            state,
            canary_percent: Some(0),
            rollback_pointer: Some(version.clone()),
            channels: vec!["canary".to_owned(), "stable".to_owned()],
            eval_run_id: Some("r1".into()),
        };
        let least = AgentDeployment {
            canary_percent: None,
            rollback_pointer: None,
            channels: Vec::new(),
            eval_run_id: None,
            ..full.clone()
        };
        for shown in [full, least] {
            check(&record, state.as_str(), &serde_json::to_value(&shown).expect("JSON"));
        }
        let asked = DeploymentTransition {
            to_state: Some(state),
            channel: Some("stable".to_owned()),
            canary_percent: Some(100),
            eval_run_id: Some("r1".into()),
            reason: Some("error-rate".to_owned()),
            ..DeploymentTransition::new(version.clone(), Transition::Promote)
        };
        assert_eq!(asked.check(), Ok(()));
        check(&request, state.as_str(), &serde_json::to_value(&asked).expect("JSON"));
    }
    for verb in ["promote", "pause", "deprecate", "rollback", "adjust-canary", "resume"] {
        let sent = json!({ "version": "1.2.3", "transition": verb });
        let read = callboard_protocol::parse_value::<DeploymentTransition>(sent.clone());
        assert_eq!(read.is_ok(), request.is_valid(&sent), "{verb}");
    }
    for (field, wrong) in [
        ("canaryPercent", json!(101)),
        ("canaryPercent", json!(-1)),
        ("channel", json!("")),
        ("channel", json!("x".repeat(65))),
        ("evalRunId", json!("")),
        ("reason", json!("")),
        ("reason", json!("x".repeat(513))),
        ("toState", json!("live")),
        ("approvalGateId", json!("g1")),
    ] {
        let mut sent = json!({ "version": "1.2.3", "transition": "promote" });
        sent[field] = wrong;
        let read = callboard_protocol::parse_value::<DeploymentTransition>(sent.clone());
        let is_fine = read.is_ok_and(|read| read.check().is_ok());
        assert!(!is_fine && !request.is_valid(&sent), "{sent}");
    }
}

fn member() -> AgentRosterEntry {
    AgentRosterEntry {
        roster_id: RosterId::named("Sally", "1a2b3c4d"),
        persona: "Sally".into(),
        agent_ref: RosterAgentRef {
            agent_id: "vendor.acme.desk.writer".into(),
            version: None,
            channel: Some("stable".into()),
        },
        workflows: vec!["campaign".into(), "posts".into()],
        owner: RosterOwner { tenant_id: "acme".into(), workspace_id: Some("growth".into()) },
        enabled: false,
        label: Some("Writer".into()),
        description: Some("Owns campaigns.".into()),
    }
}

#[test]
fn a_roster_is_written_as_the_protocol_does() {
    let Some(folder) = openwop() else { return };
    let full = member();
    let least = AgentRosterEntry {
        agent_ref: RosterAgentRef { channel: None, ..full.agent_ref.clone() },
        workflows: Vec::new(),
        owner: RosterOwner { workspace_id: None, ..full.owner.clone() },
        label: None,
        description: None,
        ..full.clone()
    };
    let entry = schema(&folder, "agent-roster-entry.schema.json");
    for shown in [&full, &least] {
        assert_eq!(shown.check(), Ok(()));
        check(&entry, "an entry", &serde_json::to_value(shown).expect("JSON"));
    }
    let roster = serde_json::to_value(AgentRoster::from(vec![full, least])).expect("JSON");
    check(&schema(&folder, "agent-roster-response.schema.json"), "the roster", &roster);
}

/// What the schema refuses, we refuse too: at reading or in the check after it.
#[test]
fn an_entry_that_the_schema_refuses_is_refused() {
    let Some(folder) = openwop() else { return };
    let entry = schema(&folder, "agent-roster-entry.schema.json");
    for (path, wrong) in [
        ("/persona", json!("")),
        ("/persona", json!("x".repeat(201))),
        ("/agentRef/version", json!("1.0.0")),
        ("/agentRef/agentId", json!("ab")),
        ("/agentRef/channel", json!("")),
        ("/agentRef/persona", json!("Sally")),
        ("/workflows", json!(["a", "a"])),
        ("/workflows", json!([7])),
        ("/workflows", json!([""])),
        ("/workflows", json!(["x".repeat(129)])),
        ("/owner/tenant", json!("acme")),
        ("/label", json!("")),
        ("/description", json!("x".repeat(501))),
        ("/schedule", json!("0 9 * * MON-FRI")),
    ] {
        let mut sent = serde_json::to_value(member()).expect("JSON");
        let (above, field) = path.rsplit_once('/').expect("a path");
        sent.pointer_mut(above).expect("a place")[field] = wrong.clone();
        assert!(!entry.is_valid(&sent), "the schema admits {path} = {wrong}");
        let read = callboard_protocol::parse_value::<AgentRosterEntry>(sent);
        assert!(read.and_then(|entry| entry.check()).is_err(), "{path} = {wrong}");
    }
}

/// `roster-attribution-no-content`: nothing beyond names fits into an attribution.
#[test]
fn an_attribution_has_no_room_for_content() {
    let Some(folder) = openwop() else { return };
    let place = "run-event-payloads.schema.json#/$defs/rosterRunInitiated";
    let place = format!("https://openwop.dev/spec/v1/{place}");
    let payload = compile(&folder, &json!({ "$ref": place }));
    let told = events().into_iter().find(|event| event.kind() == "roster.run.initiated");
    let told = told.expect("an attribution").payload();
    check(&payload, "an attribution", &told);
    for field in ["body", "prompt", "input", "payload", "apiKey", "secret", "credentials", "token"]
    {
        let mut spoilt = told.clone();
        spoilt[field] = json!("x");
        assert!(!payload.is_valid(&spoilt), "{field}");
        let written = Event::read("roster.run.initiated", None, spoilt).payload();
        assert_eq!(written, told, "what does not belong there is not written again");
    }
}
