//! The run's own account: what was used, what that comes to, and when nothing is left.
//!
//! Usage is summed from events that the log has anyway, so every fold counts the same, however often hosts were lost.

use callboard_protocol::{
    Amount, BudgetConsumed, BudgetDimension, BudgetExhausted, BudgetReserved, BudgetScope,
    BudgetThresholdCrossed, CapBreached, CapKind, Consumption, EffectiveBudget, Event, NodeRetried,
    ProviderUsage,
};

use super::{Answered, Run};
use crate::budget::{OnExhaustion, Overdrawn, Ruling, RunBudget, left_of};
use crate::graph::NodeIndex;

/// What the log says of the run's budget.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    /// What may be used; none until it is recorded.
    limits: Option<EffectiveBudget>,
    used: Consumption,
    /// What readers know to be used.
    told: Consumption,
    /// The dimensions whose threshold was crossed.
    crossed: Vec<BudgetDimension>,
    /// At its end, and neither raised nor asked about since.
    exhausted: Option<BudgetExhausted>,
    /// What a person has raised the limits to, with no event for it yet.
    owed: Option<EffectiveBudget>,
    /// What a person would not raise.
    refused: Option<Overdrawn>,
}

impl Run {
    pub(super) fn next_reserved(&self) -> Option<Event> {
        let budget = self.birth.budget.as_ref()?;
        let first = self.account.limits.is_none().then_some(budget.limits);
        let effective_budget = first.or(self.account.owed)?;
        let scope = budget.scope;
        Some(Event::BudgetReserved(BudgetReserved { effective_budget, scope }))
    }

    pub(super) fn is_reserved(&self) -> bool {
        self.account.limits.is_some()
    }

    /// What follows from what was used: events, and in the end a limit that is broken.
    pub(super) fn next_of_budget(&self) -> Option<Event> {
        let account = &self.account;
        if let Some(over) = &account.refused {
            return Some(breach(over.dimension, over.limit, over.consumed));
        }
        let budget = self.birth.budget.as_ref()?;
        let limits = account.limits?;
        let bounded = BudgetDimension::ALL
            .into_iter()
            .filter_map(|dimension| Some((dimension, limits.limit(dimension)?)));
        for (dimension, limit) in bounded.clone() {
            let consumed = account.used.of(dimension);
            if consumed != account.told.of(dimension) {
                return Some(Event::BudgetConsumed(BudgetConsumed { dimension, consumed, limit }));
            }
            let threshold = budget.threshold_percent.filter(|percent| {
                let is_used = consumed.get() > 0.0 && !account.crossed.contains(&dimension);
                is_used && consumed.get() * 100.0 >= limit.get() * percent
            });
            if let Some(percent) = threshold.map(Amount::from) {
                let crossed = BudgetThresholdCrossed { dimension, consumed, limit, percent };
                return Some(Event::BudgetThresholdCrossed(crossed));
            }
        }
        if budget.on_exhaustion == OnExhaustion::Interrupt {
            return None;
        }
        if let Some(over) = &account.exhausted {
            return Some(breach(over.dimension, over.limit, over.consumed));
        }
        let mut used =
            bounded.map(|(dimension, limit)| (dimension, limit, account.used.of(dimension)));
        let (dimension, limit, consumed) = used.find(|(_, limit, consumed)| consumed > limit)?;
        Some(Event::BudgetExhausted(BudgetExhausted { dimension, consumed, limit }))
    }

    /// What stands against asking a model once more: nothing may be asked with nothing left.
    pub(super) fn barred_call(&self, index: NodeIndex) -> Vec<Event> {
        let Some(budget) = &self.birth.budget else { return Vec::new() };
        let over = self.over(&self.account.used, |dimension, consumed, limit| match dimension {
            BudgetDimension::Tokens | BudgetDimension::Cost => consumed >= limit,
            BudgetDimension::ToolCalls | BudgetDimension::Retries => consumed > limit,
        });
        match over {
            None => Vec::new(),
            Some(over) if budget.on_exhaustion == OnExhaustion::Interrupt => {
                self.overdrawn(index, &over)
            }
            Some(over) => vec![Event::BudgetExhausted(over.told())],
        }
    }

    /// What forbids the use of tools whose calls are being recorded. Where no person is to be asked, what was recorded
    /// ends the run by itself.
    pub(super) fn barred_tools(&self, index: NodeIndex, calls: u64) -> Vec<Event> {
        let asks = |budget: &RunBudget| budget.on_exhaustion == OnExhaustion::Interrupt;
        if calls == 0 || !self.birth.budget.as_ref().is_some_and(asks) {
            return Vec::new();
        }
        let mut used = self.account.used;
        used.tool_calls += calls;
        let over = self.over(&used, |dimension, consumed, limit| {
            dimension == BudgetDimension::ToolCalls && consumed > limit
        });
        over.map(|over| self.overdrawn(index, &over)).unwrap_or_default()
    }

    fn over(
        &self,
        used: &Consumption,
        is_spent: impl Fn(BudgetDimension, Amount, Amount) -> bool,
    ) -> Option<Overdrawn> {
        let limits = self.account.limits?;
        BudgetDimension::ALL.into_iter().find_map(|dimension| {
            let (limit, consumed) = (limits.limit(dimension)?, used.of(dimension));
            let over = Overdrawn {
                scope: BudgetScope::Run,
                dimension,
                consumed,
                limit,
                member: None,
                day: None,
            };
            is_spent(dimension, consumed, limit).then_some(over)
        })
    }

    /// A ceiling is reached and a person is asked about it, in one step.
    pub(super) fn overdrawn(&self, index: NodeIndex, over: &Overdrawn) -> Vec<Event> {
        vec![Event::BudgetExhausted(over.told()), self.asked(index, over.question())]
    }

    /// What a child may use: what its parent has left.
    pub fn budget_left(&self) -> Option<EffectiveBudget> {
        self.account.limits.map(|limits| left_of(&limits, &self.account.used))
    }

    /// What the run used in sum, its children included.
    pub fn consumption(&self) -> Consumption {
        self.account.used
    }

    pub(super) fn fold_reserved(&mut self, payload: &BudgetReserved) {
        self.account.limits = Some(payload.effective_budget);
        self.account.owed = None;
        self.account.exhausted = None;
        // A higher limit has a threshold of its own.
        self.account.crossed.clear();
    }

    pub(super) fn fold_consumed(&mut self, payload: &BudgetConsumed) {
        let (used, told) = (self.account.used, &mut self.account.told);
        match payload.dimension {
            BudgetDimension::Tokens => told.tokens = used.tokens,
            BudgetDimension::Cost => told.cost_usd = used.cost_usd,
            BudgetDimension::ToolCalls => told.tool_calls = used.tool_calls,
            BudgetDimension::Retries => told.retries = used.retries,
        }
    }

    pub(super) fn fold_crossed(&mut self, payload: &BudgetThresholdCrossed) {
        self.account.crossed.push(payload.dimension);
    }

    pub(super) fn fold_exhausted(&mut self, payload: &BudgetExhausted) {
        self.account.exhausted = Some(payload.clone());
    }

    /// A person is asked about it, so nothing follows from it by itself.
    pub(super) fn fold_budget_asked(&mut self) {
        self.account.exhausted = None;
    }

    pub(super) fn fold_budget_answered(&mut self, answered: &Answered) {
        let Some(ruling) = Ruling::of(answered) else { return };
        let over = ruling.over;
        match ruling.raised_to {
            None => self.account.refused = Some(over),
            // What is a day's is raised where days are accounted for.
            Some(_) if over.day.is_some() => {}
            Some(limit) => {
                let limits = self.account.limits.unwrap_or_default();
                self.account.owed = Some(limits.with(over.dimension, limit));
            }
        }
    }

    pub(super) fn account_usage(&mut self, usage: &ProviderUsage) {
        self.account.used.add(&Consumption {
            tokens: usage.input_tokens.saturating_add(usage.output_tokens),
            cost_usd: usage.cost_estimate_usd.unwrap_or(0.0),
            ..Consumption::default()
        });
    }

    pub(super) fn account_tool_call(&mut self) {
        self.account.used.tool_calls += 1;
    }

    /// Waiting because a provider asks for it is no retry.
    pub(super) fn account_retry(&mut self, retried: Option<&NodeRetried>) {
        self.account.used.retries += u64::from(retried.is_none_or(|retried| !retried.postponed));
    }

    pub(super) fn account_child(&mut self, used: &Consumption) {
        self.account.used.add(used);
    }
}

fn breach(dimension: BudgetDimension, limit: Amount, observed: Amount) -> Event {
    Event::CapBreached(CapBreached {
        kind: CapKind::of_budget(dimension),
        limit,
        observed,
        node_id: None,
        details: None,
    })
}
