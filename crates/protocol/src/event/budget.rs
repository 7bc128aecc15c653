//! Events about budgets (RFC 0084): amounts and limits, never a price.

use std::fmt;

use serde::{Deserialize, Serialize, Serializer};

/// Numbers above this cannot be written exactly in JSON.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// A count, or a sum of money. A whole one is written without a fraction.
#[derive(Debug, Clone, Copy, Default, PartialEq, PartialOrd, Deserialize)]
#[serde(transparent)]
pub struct Amount(f64);

impl Amount {
    pub fn get(self) -> f64 {
        self.0
    }
}

impl From<u64> for Amount {
    #[expect(clippy::cast_precision_loss, reason = "nobody counts as far as floats are inexact")]
    fn from(count: u64) -> Self {
        Self(count as f64)
    }
}

impl From<f64> for Amount {
    fn from(amount: f64) -> Self {
        Self(amount)
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for Amount {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let is_count = self.0.fract() == 0.0 && (0.0..EXACT).contains(&self.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, not negative and small enough"
        )]
        match is_count {
            true => serializer.serialize_u64(self.0 as u64),
            false => serializer.serialize_f64(self.0),
        }
    }
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BudgetDimension {
    Tokens,
    Cost,
    ToolCalls,
    Retries,
}

impl BudgetDimension {
    pub const ALL: [Self; 4] = [Self::Tokens, Self::Cost, Self::ToolCalls, Self::Retries];
}

/// Whose ceiling it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum BudgetScope {
    #[default]
    Run,
    Workflow,
    Agent,
    Project,
}

/// A ceiling for each dimension; none is unbounded.
///
/// Also part of the birth record, whose rules for old and new readers hold here too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct EffectiveBudget {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_cost_usd: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tool_calls: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_retries: Option<u64>,
}

impl EffectiveBudget {
    pub fn limit(&self, dimension: BudgetDimension) -> Option<Amount> {
        match dimension {
            BudgetDimension::Tokens => self.max_tokens.map(Amount::from),
            BudgetDimension::Cost => self.max_cost_usd.map(Amount::from),
            BudgetDimension::ToolCalls => self.max_tool_calls.map(Amount::from),
            BudgetDimension::Retries => self.max_retries.map(Amount::from),
        }
    }

    /// The same with another ceiling for one dimension.
    #[must_use]
    pub fn with(mut self, dimension: BudgetDimension, limit: Amount) -> Self {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "counts are whole, and a negative one saturates at zero"
        )]
        let count = limit.get() as u64;
        match dimension {
            BudgetDimension::Tokens => self.max_tokens = Some(count),
            BudgetDimension::Cost => self.max_cost_usd = Some(limit.get().max(0.0)),
            BudgetDimension::ToolCalls => self.max_tool_calls = Some(count),
            BudgetDimension::Retries => self.max_retries = Some(count),
        }
        self
    }

    pub fn is_unbounded(&self) -> bool {
        *self == Self::default()
    }
}

/// What was used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Consumption {
    #[serde(default)]
    pub tokens: u64,
    /// As far as the prices are known.
    #[serde(default)]
    pub cost_usd: f64,
    #[serde(default)]
    pub tool_calls: u64,
    #[serde(default)]
    pub retries: u64,
}

impl Consumption {
    pub fn of(&self, dimension: BudgetDimension) -> Amount {
        match dimension {
            BudgetDimension::Tokens => self.tokens.into(),
            BudgetDimension::Cost => self.cost_usd.into(),
            BudgetDimension::ToolCalls => self.tool_calls.into(),
            BudgetDimension::Retries => self.retries.into(),
        }
    }

    pub fn add(&mut self, other: &Self) {
        self.tokens = self.tokens.saturating_add(other.tokens);
        self.cost_usd += other.cost_usd;
        self.tool_calls = self.tool_calls.saturating_add(other.tool_calls);
        self.retries = self.retries.saturating_add(other.retries);
    }

    pub fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// `budget.reserved`: what a run may use, decided once and again when a person raises it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetReserved {
    pub effective_budget: EffectiveBudget,
    pub scope: BudgetScope,
}

/// `budget.consumed`: how much is used so far, summed over the events before it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetConsumed {
    pub dimension: BudgetDimension,
    pub consumed: Amount,
    pub limit: Amount,
}

/// `budget.threshold.crossed`: recorded once for each dimension.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetThresholdCrossed {
    pub dimension: BudgetDimension,
    pub consumed: Amount,
    pub limit: Amount,
    pub percent: Amount,
}

/// `budget.exhausted`: what stops the run, or has a person asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BudgetExhausted {
    pub dimension: BudgetDimension,
    pub consumed: Amount,
    pub limit: Amount,
}
