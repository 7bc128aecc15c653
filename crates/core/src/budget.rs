//! What a run may use (RFC 0084): read from its options, held below the host's ceilings, kept in its birth record.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use callboard_protocol::{
    Amount, BudgetDimension, BudgetExhausted, BudgetScope, Consumption, EffectiveBudget,
    InterruptKind, Object, RosterId, Timestamp,
};

use crate::admission::{HostLimits, Inadmissible, refuse};
use crate::interrupt::Question;
use crate::run::Answered;

/// What a question about a budget is about; no gate of a definition asks in this name.
pub const BUDGET_QUESTION: &str = "callboard.budget";
const DAY_MS: i64 = 86_400_000;
/// Patterns that one budget may have, each of which is tried for every call of a model.
const MOST_PATTERNS: usize = 100;
const LONGEST_PATTERN: usize = 256;

/// What a run may use, as it was decided when the run was created.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RunBudget {
    pub limits: EffectiveBudget,
    pub scope: BudgetScope,
    /// Patterns of models, `*` for any text; an empty list admits every model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_allow: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_deny: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threshold_percent: Option<f64>,
    #[serde(default)]
    pub on_exhaustion: OnExhaustion,
}

/// What follows when nothing is left.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OnExhaustion {
    #[default]
    Fail,
    /// A person is asked for more.
    Interrupt,
}

/// The policy as callers write it: closed.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Policy {
    max_tokens: Option<u64>,
    max_cost_usd: Option<f64>,
    max_tool_calls: Option<u64>,
    max_retries: Option<u64>,
    #[serde(default)]
    model_allow: Option<Vec<String>>,
    #[serde(default)]
    model_deny: Vec<String>,
    threshold_percent: Option<f64>,
    #[serde(default)]
    on_exhaustion: OnExhaustion,
}

impl RunBudget {
    /// The budget of a run with these options on a host with these ceilings; `left` is what a parent can still give.
    pub fn admit(
        configurable: &Object,
        host: &HostLimits,
        left: Option<EffectiveBudget>,
    ) -> Result<Option<Self>, Inadmissible> {
        let policy = configurable.get("budget").map(read).transpose()?;
        let asked = policy.as_ref().map(|policy| EffectiveBudget {
            max_tokens: policy.max_tokens,
            max_cost_usd: policy.max_cost_usd,
            max_tool_calls: policy.max_tool_calls,
            max_retries: policy.max_retries,
        });
        let bounds = [asked.unwrap_or_default(), host.run_budget, left.unwrap_or_default()];
        let limits = bounds.into_iter().fold(EffectiveBudget::default(), lower);
        if policy.is_none() && limits.is_unbounded() {
            return Ok(None);
        }
        let is_of_run = policy.is_some() || left.is_some();
        let policy = policy.unwrap_or_default();
        Ok(Some(Self {
            limits,
            scope: if is_of_run { BudgetScope::Run } else { BudgetScope::Project },
            model_allow: policy.model_allow.unwrap_or_default(),
            model_deny: policy.model_deny,
            threshold_percent: policy.threshold_percent,
            on_exhaustion: policy.on_exhaustion,
        }))
    }

    /// Whether a model may be asked. What is denied is denied, whatever else is allowed.
    pub fn admits_model(&self, provider: &str, model: &str) -> bool {
        let full = format!("{provider}/{model}");
        let named =
            |patterns: &[String]| patterns.iter().any(|it| fits(it, model) || fits(it, &full));
        !named(&self.model_deny) && (self.model_allow.is_empty() || named(&self.model_allow))
    }
}

fn read(value: &Value) -> Result<Policy, Inadmissible> {
    let wrong = |path: &str, what: &str| {
        let path = format!("configurable.budget{path}");
        Err(refuse(&path, what.to_owned()))
    };
    let policy: Policy = match serde_json::from_value(value.clone()) {
        Ok(policy) => policy,
        Err(error) => return wrong("", &error.to_string()),
    };
    if policy.max_tokens == Some(0) {
        return wrong(".maxTokens", "must be at least 1");
    }
    if policy.max_tool_calls == Some(0) {
        return wrong(".maxToolCalls", "must be at least 1");
    }
    if policy.max_cost_usd.is_some_and(|cost| cost < 0.0) {
        return wrong(".maxCostUsd", "must be at least 0");
    }
    if policy.threshold_percent.is_some_and(|percent| !(0.0..=100.0).contains(&percent)) {
        return wrong(".thresholdPercent", "must be a number from 0 to 100");
    }
    let mut patterns = policy.model_allow.iter().flatten().chain(&policy.model_deny);
    if patterns.clone().count() > MOST_PATTERNS || patterns.any(|it| it.len() > LONGEST_PATTERN) {
        let what = format!("has at most {MOST_PATTERNS} models of {LONGEST_PATTERN} bytes");
        return wrong("", &what);
    }
    if policy.model_allow.as_ref().is_some_and(Vec::is_empty) {
        return wrong(".modelAllow", "must name a model; leave it out to allow every one");
    }
    Ok(policy)
}

/// The lower ceiling in each dimension.
fn lower(a: EffectiveBudget, b: EffectiveBudget) -> EffectiveBudget {
    let count = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
    EffectiveBudget {
        max_tokens: count(a.max_tokens, b.max_tokens),
        max_cost_usd: a.max_cost_usd.into_iter().chain(b.max_cost_usd).reduce(f64::min),
        max_tool_calls: count(a.max_tool_calls, b.max_tool_calls),
        max_retries: count(a.max_retries, b.max_retries),
    }
}

/// What is left of a budget.
pub(crate) fn left_of(limits: &EffectiveBudget, used: &Consumption) -> EffectiveBudget {
    let count = |limit: Option<u64>, used: u64| limit.map(|limit| limit.saturating_sub(used));
    EffectiveBudget {
        max_tokens: count(limits.max_tokens, used.tokens),
        max_cost_usd: limits.max_cost_usd.map(|limit| (limit - used.cost_usd).max(0.0)),
        max_tool_calls: count(limits.max_tool_calls, used.tool_calls),
        max_retries: count(limits.max_retries, used.retries),
    }
}

/// Whether a text is what a pattern describes; `*` stands for any text.
fn fits(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut read) = (0, 0);
    // Where the pattern goes on behind its last star, and the text behind what that star has taken. No earlier star
    // need ever take more.
    let mut last = None;
    while let Some(sign) = text.get(read) {
        match (pattern.get(at), last) {
            (Some(b'*'), _) => {
                at += 1;
                last = Some((at, read));
            }
            (Some(wanted), _) if wanted == sign => {
                at += 1;
                read += 1;
            }
            (_, Some((behind, taken))) => {
                at = behind;
                read = taken + 1;
                last = Some((behind, taken + 1));
            }
            (_, None) => return false,
        }
    }
    pattern[at..].iter().all(|sign| *sign == b'*')
}

/// The day of a moment, in UTC: days since 1970.
pub fn day_of(at: Timestamp) -> i64 {
    at.as_millis().div_euclid(DAY_MS)
}

/// When a day begins.
pub fn day_begins(day: i64) -> Timestamp {
    Timestamp::from_millis(day.saturating_mul(DAY_MS))
}

/// A ceiling that was reached, and whose it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Overdrawn {
    pub scope: BudgetScope,
    pub dimension: BudgetDimension,
    pub consumed: Amount,
    pub limit: Amount,
    /// Whose day it is, where it is a member's.
    pub member: Option<RosterId>,
    /// The day whose ceiling it is; none for the run's own.
    pub day: Option<i64>,
}

impl Overdrawn {
    pub(crate) fn told(&self) -> BudgetExhausted {
        let Self { dimension, consumed, limit, .. } = *self;
        BudgetExhausted { dimension, consumed, limit }
    }

    /// Accepting gives as much again, `edit-accept` sets another limit, rejecting ends the run.
    pub(crate) fn question(&self) -> Question {
        let Self { consumed, limit, .. } = self;
        let amount = |amount: &Amount| match self.dimension {
            BudgetDimension::Tokens => format!("{amount} tokens"),
            BudgetDimension::Cost => format!("${:.4}", amount.get()),
            BudgetDimension::ToolCalls => format!("{amount} calls of tools"),
            BudgetDimension::Retries => format!("{amount} retries"),
        };
        let whose = match (&self.member, self.day) {
            (Some(member), _) => format!("{member} may use {} a day", amount(limit)),
            (None, Some(_)) => format!("the tenant may use {} a day", amount(limit)),
            (None, None) => format!("the run may use {}", amount(limit)),
        };
        let mut subject = json!({
            "scope": self.scope, "dimension": self.dimension, "consumed": consumed, "limit": limit,
        });
        if let Some(member) = &self.member {
            subject["rosterId"] = json!(member);
        }
        if let Some(day) = self.day {
            subject["day"] = json!(day_begins(day));
        }
        let data = json!({
            "artifactId": "budget",
            "artifactType": BUDGET_QUESTION,
            "title": format!("{whose}, and {} are used. Give as much again?", amount(consumed)),
            "actions": ["accept", "edit-accept", "reject"],
            "artifactData": subject,
        });
        Question { kind: InterruptKind::Approval, data, resume_schema: None, timeout_ms: None }
    }
}

/// What a person decided about a ceiling that was reached.
#[derive(Debug, Clone, PartialEq)]
pub struct Ruling {
    pub over: Overdrawn,
    /// The new ceiling; none where there is to be no other.
    pub raised_to: Option<Amount>,
}

impl Ruling {
    /// None where something else was asked.
    pub fn of(answered: &Answered) -> Option<Self> {
        let (data, is_ours) = (&answered.data, is_budget_question(&answered.data));
        let subject = data.get("artifactData").filter(|_| is_ours)?;
        let amount = |key: &str| subject[key].as_f64().map(Amount::from);
        let over = Overdrawn {
            scope: BudgetScope::deserialize(&subject["scope"]).ok()?,
            dimension: BudgetDimension::deserialize(&subject["dimension"]).ok()?,
            consumed: amount("consumed")?,
            limit: amount("limit")?,
            member: subject["rosterId"].as_str().map(RosterId::from),
            day: subject["day"].as_str().and_then(|day| day.parse().ok()).map(day_of),
        };
        let value = answered.value.as_ref();
        let as_much_again = over.consumed.get().max(over.limit.get()) + over.limit.get();
        let raised_to = match value.and_then(|value| value["action"].as_str()) {
            Some("accept") => Some(as_much_again.into()),
            Some("edit-accept") => {
                let edited = value.map(|value| &value["editedArtifactData"]["limit"]);
                Some(edited.and_then(Value::as_f64).unwrap_or(as_much_again).into())
            }
            _ => None,
        };
        Some(Self { over, raised_to })
    }
}

pub fn is_budget_question(data: &Value) -> bool {
    data["artifactType"] == BUDGET_QUESTION
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admitted(budget: Value, host: EffectiveBudget) -> Result<Option<RunBudget>, String> {
        let configurable = Object::from_iter([("budget".to_owned(), budget)]);
        let host = HostLimits { run_budget: host, ..HostLimits::default() };
        RunBudget::admit(&configurable, &host, None).map_err(|error| error.to_string())
    }

    #[test]
    fn the_lower_ceiling_holds_in_every_dimension() {
        let host = EffectiveBudget {
            max_tokens: Some(100),
            max_cost_usd: Some(0.5),
            ..EffectiveBudget::default()
        };
        let asked = json!({ "maxTokens": 1_000, "maxCostUsd": 0.25, "maxToolCalls": 3 });
        let budget = admitted(asked, host).unwrap().unwrap();
        assert_eq!(
            (budget.limits.max_tokens, budget.limits.max_cost_usd, budget.limits.max_tool_calls),
            (Some(100), Some(0.25), Some(3))
        );
        assert_eq!(budget.scope, BudgetScope::Run);
        let host = HostLimits { run_budget: host, ..HostLimits::default() };
        let given = RunBudget::admit(&Object::new(), &host, None).unwrap().unwrap();
        assert_eq!((given.limits.max_tokens, given.scope), (Some(100), BudgetScope::Project));
        let none = RunBudget::admit(&Object::new(), &HostLimits::default(), None).unwrap();
        assert_eq!(none, None);
    }

    #[test]
    fn a_policy_is_closed_and_its_numbers_have_ranges() {
        for (budget, place) in [
            (json!({ "maxTokens": 0 }), "maxTokens"),
            (json!({ "maxToolCalls": 0 }), "maxToolCalls"),
            (json!({ "maxCostUsd": -1 }), "maxCostUsd"),
            (json!({ "thresholdPercent": 101 }), "thresholdPercent"),
            (json!({ "maxMinutes": 5 }), "maxMinutes"),
            (json!({ "onExhaustion": "shrug" }), "shrug"),
            (json!({ "modelAllow": [] }), "modelAllow"),
            (json!(7), "budget"),
        ] {
            let refused = admitted(budget.clone(), EffectiveBudget::default()).unwrap_err();
            assert!(refused.contains(place), "{budget}: {refused}");
        }
        assert!(admitted(json!({ "maxRetries": 0 }), EffectiveBudget::default()).is_ok());
    }

    #[test]
    fn what_is_denied_is_denied_whatever_is_allowed() {
        let budget = RunBudget {
            model_allow: vec!["claude-*".to_owned(), "openai/*".to_owned()],
            model_deny: vec!["*-opus-*".to_owned()],
            ..RunBudget::default()
        };
        for (provider, model, admitted) in [
            ("anthropic", "claude-haiku-4-5", true),
            ("anthropic", "claude-opus-4-5", false),
            ("openai", "gpt-5", true),
            ("gemini", "gemini-2.5-pro", false),
        ] {
            assert_eq!(budget.admits_model(provider, model), admitted, "{provider}/{model}");
        }
        assert!(RunBudget::default().admits_model("any", "one"));
    }

    #[test]
    fn a_pattern_stands_for_any_text_where_it_has_a_star() {
        for (pattern, text, fitting) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "acb", false),
            ("*", "", true),
            ("*b*", "abc", true),
            ("a", "ab", false),
            ("a*é", "aéé", true),
            ("**a", "ba", true),
            // Trying each star anew for all that the ones before it took never ended.
            ("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*b", &"a".repeat(200), false),
        ] {
            assert_eq!(fits(pattern, text), fitting, "{pattern} {text}");
        }
    }

    #[test]
    fn a_day_begins_at_midnight_in_utc_also_before_1970() {
        let before = Timestamp::from_millis(DAY_MS - 1);
        assert_eq!((day_of(before), day_of(Timestamp::from_millis(DAY_MS))), (0, 1));
        assert_eq!(day_of(Timestamp::from_millis(-1)), -1);
        assert_eq!(day_begins(day_of(before)), Timestamp::from_millis(0));
    }

    #[test]
    fn an_answer_gives_as_much_again_or_what_it_says() {
        let over = Overdrawn {
            scope: BudgetScope::Agent,
            dimension: BudgetDimension::Tokens,
            consumed: 120_u64.into(),
            limit: 100_u64.into(),
            member: Some("host:sally".into()),
            day: Some(20_000),
        };
        let ruled = |value: Option<Value>| {
            let data = over.question().data;
            let (interrupt_id, kind) = (String::new(), InterruptKind::Approval);
            Ruling::of(&Answered {
                interrupt_id,
                kind,
                data,
                value,
                by: None,
                at: Default::default(),
            })
            .unwrap()
        };
        let accepted = ruled(Some(json!({ "action": "accept" })));
        assert_eq!(accepted, Ruling { over: over.clone(), raised_to: Some(220_u64.into()) });
        let edit = json!({ "action": "edit-accept", "editedArtifactData": { "limit": 130 } });
        assert_eq!(ruled(Some(edit)).raised_to, Some(130_u64.into()));
        assert_eq!(ruled(Some(json!({ "action": "reject" }))).raised_to, None);
        assert_eq!(ruled(None).raised_to, None);
    }
}
