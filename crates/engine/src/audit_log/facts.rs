//! What is worth an entry: which kinds of records are, and what of them is told. Values never are; names and scopes are.

use std::future::Future;

use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use callboard_protocol::{Object, Principal, hex};

use crate::records::{Key, Kind, Record, RecordChange, RecordWrite};
use crate::store::Scope;

/// Who does what the host was not asked to do by anybody.
const HOST: &str = "host";
/// A detail that is larger is told by its digest.
const LARGEST_DETAIL: usize = 4096;

tokio::task_local! {
    static ACTOR: Actor;
}

/// On whose behalf the current task works.
#[derive(Debug, Clone)]
pub struct Actor {
    pub principal: Principal,
    /// What was asked for.
    pub operation: &'static str,
}

impl Actor {
    /// What the future commits is this actor's; what tasks do that it starts is the host's.
    pub async fn does<F: Future>(self, future: F) -> F::Output {
        ACTOR.scope(self, future).await
    }

    fn current() -> Option<Self> {
        ACTOR.try_with(Clone::clone).ok()
    }
}

/// One thing to tell.
#[derive(Debug, Clone, PartialEq)]
pub struct AuditFact {
    /// Whose chain it goes to, and which workspace sees it.
    pub(super) place: Scope,
    pub(super) actor: String,
    pub(super) operation: Option<&'static str>,
    pub(super) action: String,
    pub(super) subject: String,
    pub(super) details: Object,
}

impl AuditFact {
    /// By the current actor.
    pub fn new(place: Scope, action: impl Into<String>, subject: impl ToString) -> Self {
        let actor = Actor::current();
        Self {
            place,
            operation: actor.as_ref().map(|actor| actor.operation),
            actor: actor.map_or_else(|| HOST.to_owned(), |actor| actor.principal.to_string()),
            action: action.into(),
            subject: subject.to_string(),
            details: Object::new(),
        }
    }

    /// By somebody who is not the current actor.
    #[must_use]
    pub fn by(mut self, principal: &Principal) -> Self {
        self.actor = principal.to_string();
        self
    }

    #[must_use]
    pub fn with(mut self, name: &str, value: impl Serialize) -> Self {
        let value = serde_json::to_value(value).unwrap_or_default();
        if !value.is_null() {
            self.details.insert(name.to_owned(), bounded(value));
        }
        self
    }
}

fn bounded(value: Value) -> Value {
    let text = value.to_string();
    if text.len() <= LARGEST_DETAIL {
        return value;
    }
    serde_json::json!({ "sha256": hex(Sha256::digest(text)) })
}

/// How changes of a kind are told.
struct Rule {
    /// What the thing is called.
    word: &'static str,
    /// Which fields of it are told.
    fields: &'static [&'static str],
    /// Whether only what callers change is a change: the host itself notes there how far it has come.
    only_callers: bool,
}

/// What a budget may bound.
const BUDGET: &[&str] = &["maxTokens", "maxCostUsd", "maxToolCalls", "maxRetries"];

/// None for what says nothing of access or policy.
fn rule_of(kind: Kind) -> Option<Rule> {
    let always = |word, fields| Some(Rule { word, fields, only_callers: false });
    let by_callers = |word| Some(Rule { word, fields: &[], only_callers: true });
    match kind {
        Kind::ApiKey => {
            let fields = &[
                "name",
                "scopes",
                "roles",
                "expiresAt",
                "revokedAt",
                "madeBy",
                "votesAs",
                "issuer",
            ];
            always("key", fields)
        }
        Kind::BudgetGrant => always("allowance", BUDGET),
        Kind::DailyLimit => always("daily-limit", BUDGET),
        Kind::Deployment => always("deployment", &["state"]),
        Kind::LinkGeneration => always("links", &["generation"]),
        Kind::PackOffer => always("pack", &[]),
        Kind::Role => always("role", &["scopes"]),
        Kind::Secret => always("secret", &[]),
        Kind::Subscription => always("trigger-subscription", &[]),
        Kind::Heartbeat => by_callers("heartbeat"),
        Kind::Member => by_callers("member"),
        Kind::OrgChart => by_callers("org-chart"),
        Kind::Prompt => by_callers("prompt"),
        Kind::Schedule => by_callers("schedule"),
        Kind::Webhook => by_callers("webhook"),
        Kind::Workflow => by_callers("workflow"),
        _ => None,
    }
}

/// Whether a change may be worth an entry, before anything is read.
pub(super) fn is_audited(change: &RecordChange) -> bool {
    let is_write = !matches!(change.write, RecordWrite::Nothing);
    let rule = rule_of(change.kind).filter(|_| is_write);
    rule.is_some_and(|rule| !rule.only_callers || Actor::current().is_some())
}

/// What a change comes to, given what was there before; none where it changes nothing.
pub(super) fn fact_of(change: &RecordChange, before: Option<&Record>) -> Option<AuditFact> {
    let Rule { word, fields, .. } = rule_of(change.kind)?;
    let (place, body) = match &change.write {
        RecordWrite::Nothing => return None,
        RecordWrite::Put { body, .. } if before.is_some_and(|it| *it.body == **body) => {
            return None;
        }
        RecordWrite::Put { place, body, .. } => (place, serde_json::from_str(body).ok()),
        RecordWrite::Delete => (&before?.place, None),
    };
    let action = match (&body, before) {
        (None, _) => "removed",
        (Some(body), before) if is_revoked(body) && !before.is_some_and(was_revoked) => "revoked",
        (Some(_), None) => "made",
        (Some(_), Some(_)) => "changed",
    };
    let subject = subject(place, &change.key);
    let fact = AuditFact::new(place.clone(), format!("{word}.{action}"), subject);
    let body = body.unwrap_or(Value::Null);
    Some(fields.iter().fold(fact, |fact, field| fact.with(field, &body[*field])))
}

fn is_revoked(body: &Value) -> bool {
    !body["revokedAt"].is_null()
}

fn was_revoked(before: &Record) -> bool {
    serde_json::from_str(&before.body).is_ok_and(|body| is_revoked(&body))
}

/// The key without what every entry of the chain has in common.
fn subject(place: &Scope, key: &Key) -> String {
    let shared = Key::in_realm(&place.realm(), []);
    let rest = key.as_str().strip_prefix(shared.as_str()).unwrap_or(key.as_str());
    rest.trim_start_matches('/').replace("~1", "/").replace("~0", "~")
}
