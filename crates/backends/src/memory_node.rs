//! `core.identity` with `config.memoryAction`: nodes that remember, recall, and probe what memory must not do.

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{Outcome, RetryClass, UPKEEP};
use callboard_engine::{
    Activity, Call, CallFailure, Due, Lifetime, MAX_TOKEN_BUDGET, MemoryDraft, MemoryError, Upkeep,
    UpkeepError, Wanted, unreached,
};
use callboard_protocol::{
    CompactionTrigger, ConsolidationTrigger, Failure, MemoryEntry, Object, Timestamp,
};

/// Where nodes remember that name no place and no agent.
const USUAL_REF: &str = "default";
/// What a probe remembers that is given nothing.
const USUAL_CONTENT: &str = "remembered by a workflow";
/// How long the entry of a probe lives that must be found.
const AN_HOUR_MS: u64 = 3_600_000;

/// What an agent is shown is not put together, unless its node says otherwise.
const USUALLY_KEPT: usize = 100;

/// Reads and writes memory as its node says.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryNode;

/// The same, and what the suite wants memory to be tried with. Only where an operator asked for test seams.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryProbes;

#[async_trait]
impl Activity for MemoryProbes {
    async fn perform(&self, call: Call) -> Outcome {
        let action = call.config.get("memoryAction").and_then(Value::as_str);
        let outputs = match action {
            Some("ttl-probe") => probe_lifetime(&call).await,
            Some("redaction-probe") => probe_redaction(&call).await,
            Some("cross-tenant-probe") => probe_tenants(&call).await,
            _ => return MemoryNode.perform(call).await,
        };
        outputs.map_or_else(|outcome| outcome, |outputs| Outcome::Done { outputs })
    }
}

#[async_trait]
impl Activity for MemoryNode {
    async fn perform(&self, call: Call) -> Outcome {
        let action = call.config.get("memoryAction").and_then(Value::as_str);
        let outputs = match action {
            Some("write" | "write-then-read") => write(&call).await,
            Some("list") => list(&call).await,
            Some("consolidate" | "compact" | "distill") => tidy(&call).await,
            _ => Err(invalid("config.memoryAction names nothing that a node can do")),
        };
        match outputs {
            Ok(outputs) => Outcome::Done { outputs },
            Err(outcome) => outcome,
        }
    }
}

async fn write(call: &Call) -> Result<Object, Outcome> {
    let entry = put(call, 0, draft(call)?).await?;
    Ok(outputs(json!({ "memoryReadback": entry })))
}

async fn list(call: &Call) -> Result<Object, Outcome> {
    let text = |key: &str| call.config.get(key).and_then(Value::as_str).map(str::to_owned);
    let limit = call.config.get("limit").and_then(Value::as_u64).unwrap_or(0);
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let wanted = Wanted { tag: text("tag"), text: text("text"), limit };
    let found = call.memory.list(&memory_ref(call), wanted).await.map_err(|it| unreached(&it))?;
    Ok(outputs(json!({ "memoryList": found })))
}

/// What has expired before it was written must be refused, and what has not must be found.
async fn probe_lifetime(call: &Call) -> Result<Object, Outcome> {
    let past = Lifetime::Until(Timestamp::from_millis(0));
    match call.memory.put(0, MemoryDraft { lifetime: past, ..draft(call)? }).await {
        Err(MemoryError::Invalid(_)) => {}
        Ok(_) => return Err(invalid("an entry was kept that had expired before")),
        Err(error) => return Err(error.outcome()),
    }
    let fresh = Lifetime::Millis(AN_HOUR_MS);
    put(call, 1, MemoryDraft { lifetime: fresh, ..draft(call)? }).await?;
    list(call).await
}

async fn probe_redaction(call: &Call) -> Result<Object, Outcome> {
    let Some(name) = call.config.get("byokSecretId").and_then(Value::as_str) else {
        return Err(invalid("config.byokSecretId names no secret"));
    };
    let secret = call.secret(&name.into()).await.map_err(|error| {
        let CallFailure { failure, class } = error.into();
        Outcome::Failed { failure, class }
    })?;
    let content = format!("the key is {}", secret.reveal());
    let entry = put(call, 0, MemoryDraft { content, ..draft(call)? }).await?;
    Ok(outputs(json!({ "memoryReadback": entry })))
}

async fn probe_tenants(call: &Call) -> Result<Object, Outcome> {
    let own = put(call, 0, draft(call)?).await?;
    let read = async |memory_ref: &str| {
        call.memory.list(memory_ref, Wanted::default()).await.map_err(|error| unreached(&error))
    };
    let probed = call.config.get("probeMemoryRef").and_then(Value::as_str).unwrap_or_default();
    Ok(outputs(json!({
        "ownerEntryId": own.id,
        "ownerProbe": read(&memory_ref(call)).await?,
        "crossTenantProbe": read(probed).await?,
    })))
}

/// Consolidates the entries of a reference. The outcome is recorded, and is no output of the node.
async fn tidy(call: &Call) -> Result<Object, Outcome> {
    let is_hosts_own = call.type_id.as_str() == UPKEEP;
    let trigger = match is_hosts_own {
        true => CompactionTrigger::HostManaged,
        false => CompactionTrigger::ClientRequested,
    };
    let upkeep = match call.config.get("memoryAction").and_then(Value::as_str) {
        Some("compact") => Upkeep::Compact { keep: keep(call)?, trigger },
        Some("distill") => Upkeep::Distill { token_budget: token_budget(call)?, trigger },
        _ if is_hosts_own => Upkeep::Consolidate(ConsolidationTrigger::HostManaged),
        _ => Upkeep::Consolidate(ConsolidationTrigger::OnDemand),
    };
    match call.memory.tidy(&memory_ref(call), upkeep).await {
        Ok(()) => Ok(Object::new()),
        Err(error @ UpkeepError::OverBudget { .. }) => {
            let failure = Failure::new("token_budget_exceeded", error.to_string());
            Err(Outcome::Failed { failure, class: RetryClass::Final })
        }
        Err(UpkeepError::Memory(error)) => Err(error.outcome()),
        Err(UpkeepError::Store(error)) => Err(unreached(&error)),
    }
}

/// How many of the newest entries stay as they are.
fn keep(call: &Call) -> Result<usize, Outcome> {
    let Some(keep) = call.config.get("keep") else { return Ok(USUALLY_KEPT) };
    let keep = keep.as_u64().and_then(|keep| usize::try_from(keep).ok());
    keep.ok_or_else(|| invalid("config.keep is a whole number"))
}

/// What the run's options say, else what the node does.
fn token_budget(call: &Call) -> Result<u64, Outcome> {
    let nested = call.configurable.get("distillation").and_then(|it| it.get("tokenBudget"));
    let asked = call.configurable.get("distillation.tokenBudget").or(nested);
    let Some(budget) = asked.or_else(|| call.config.get("tokenBudget")) else {
        return Ok(MAX_TOKEN_BUDGET);
    };
    let budget = budget.as_u64().filter(|budget| *budget > 0);
    budget.ok_or_else(|| invalid("distillation.tokenBudget is a whole number above zero"))
}

async fn put(call: &Call, ordinal: u32, draft: MemoryDraft) -> Result<MemoryEntry, Outcome> {
    call.memory.put(ordinal, draft).await.map_err(MemoryError::outcome)
}

fn draft(call: &Call) -> Result<MemoryDraft, Outcome> {
    let given = |key: &str| call.inputs.get(key).or_else(|| call.config.get(key));
    let content = match given("content") {
        None => USUAL_CONTENT.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    let tags = given("tags").and_then(Value::as_array).into_iter().flatten();
    let lifetime = match given("ttlSeconds") {
        None => Lifetime::Unset,
        Some(ttl) => {
            let seconds = ttl.as_u64().ok_or_else(|| invalid("ttlSeconds is a whole number"))?;
            Lifetime::Millis(seconds.saturating_mul(1_000))
        }
    };
    let due = match (given("dueAt"), given("dueOn").and_then(Value::as_str)) {
        (None, None) => None,
        (None, Some(heartbeat)) => Some(Due::On(heartbeat.into())),
        (Some(due), None) => {
            let due = due.as_str().and_then(|due| due.parse().ok());
            Some(Due::At(due.ok_or_else(|| invalid("dueAt is a time as RFC 3339 writes it"))?))
        }
        (Some(_), Some(_)) => return Err(invalid("dueAt or dueOn, not both")),
    };
    Ok(MemoryDraft {
        due,
        tags: tags.filter_map(Value::as_str).map(str::to_owned).collect(),
        lifetime,
        ..MemoryDraft::new(&memory_ref(call), &content)
    })
}

/// What the node says, else what its agent's reference says, else the agent's own.
fn memory_ref(call: &Call) -> String {
    let configured = call.config.get("memoryRef").and_then(Value::as_str);
    let named = call.named.as_ref();
    let of_agent = named.and_then(|agent| agent.memory_ref.as_deref());
    match (configured.or(of_agent), named) {
        (Some(memory_ref), _) => memory_ref.to_owned(),
        (None, Some(agent)) => format!("agent/{}", agent.agent_id),
        (None, None) => USUAL_REF.to_owned(),
    }
}

fn invalid(why: &str) -> Outcome {
    let failure = Failure::new("validation_error", why);
    Outcome::Failed { failure, class: RetryClass::Final }
}

fn outputs(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}
