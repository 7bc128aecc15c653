//! What the calls of models came to, from whichever event says it.

use callboard_protocol::{NodeId, OutputChunk, ProviderUsage, RunCost, RunTokens};
use serde_json::Value;

use super::Run;
use crate::trace::cost_attributes;

impl Run {
    pub(super) fn fold_usage(&mut self, usage: &ProviderUsage) {
        self.add_cost(RunCost::of(usage));
    }

    /// A scripted stream says with its last chunk what it used, and nothing else says it.
    pub(super) fn fold_chunk_cost(&mut self, chunk: &OutputChunk) {
        let Some(meta) = &chunk.meta else { return };
        let Some(usage) = &meta.usage else { return };
        self.add_cost(RunCost {
            usd: None,
            tokens: RunTokens { input: usage.prompt_tokens, output: usage.completion_tokens },
            model: meta.model.clone(),
            provider: meta.provider.clone(),
        });
    }

    /// What a conformance node reports passes the same gate as on its span.
    pub(super) fn fold_reported_cost(&mut self, node: &NodeId) {
        let Some(reported) = self.plan.proposed_cost(node) else { return };
        let reported = cost_attributes(reported.clone());
        let figure = |name: &str| reported.get(name);
        let tokens = |name: &str| figure(name).and_then(Value::as_u64).unwrap_or_default();
        let usd = figure("openwop.cost.usd").and_then(Value::as_f64).filter(|usd| *usd >= 0.0);
        let provider = figure("openwop.cost.provider").and_then(Value::as_str).map(str::to_owned);
        self.add_cost(RunCost {
            usd,
            tokens: RunTokens {
                input: tokens("openwop.cost.tokens.input"),
                output: tokens("openwop.cost.tokens.output"),
            },
            model: None,
            provider,
        });
    }

    fn add_cost(&mut self, call: RunCost) {
        self.models.cost = Some(RunCost::plus(self.models.cost.take(), call));
    }
}
