//! The cost of tokens, by a static table of prices.

use callboard_engine::Spent;
use callboard_protocol::{NodeId, ProviderUsage};

use super::{ModelRef, ModelRequest, Scripted, TokenUsage};

/// Few tokens are shorter; what is foreseen is rather too much than too little.
const BYTES_PER_TOKEN: u64 = 3;

/// US dollars for a million tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    pub input: f64,
    pub output: f64,
    /// Of input that came out of the provider's cache.
    pub cache_read: f64,
    pub cache_write: f64,
}

impl Price {
    /// The usual proportions: a tenth for what was cached, a quarter more for caching it.
    pub const fn usual(input: f64, output: f64) -> Self {
        Self { input, output, cache_read: input * 0.1, cache_write: input * 1.25 }
    }

    const FREE: Self = Self::usual(0.0, 0.0);
}

/// List prices as their providers published them, without discounts: an estimate for people, never a bill. A model that
/// is not here has no price.
const LIST: [(&str, &str, Price); 21] = [
    (Scripted::PROVIDER, "", Price::FREE),
    // Of the protocol's test suite, where something must cost something.
    ("mock", "mock-priced", Price::usual(5.0, 25.0)),
    ("anthropic", "claude-opus-4-5", Price::usual(5.0, 25.0)),
    ("anthropic", "claude-opus-4-1", Price::usual(15.0, 75.0)),
    ("anthropic", "claude-sonnet-4", Price::usual(3.0, 15.0)),
    ("anthropic", "claude-haiku-4-5", Price::usual(1.0, 5.0)),
    ("anthropic", "claude-3-5-haiku", Price::usual(0.8, 4.0)),
    ("openai", "gpt-5", Price::usual(1.25, 10.0)),
    ("openai", "gpt-5-mini", Price::usual(0.25, 2.0)),
    ("openai", "gpt-5-nano", Price::usual(0.05, 0.4)),
    ("openai", "gpt-4.1", Price::usual(2.0, 8.0)),
    ("openai", "gpt-4.1-mini", Price::usual(0.4, 1.6)),
    ("openai", "gpt-4.1-nano", Price::usual(0.1, 0.4)),
    ("openai", "gpt-4o", Price::usual(2.5, 10.0)),
    ("openai", "gpt-4o-mini", Price::usual(0.15, 0.6)),
    ("openai", "o3", Price::usual(2.0, 8.0)),
    ("openai", "o4-mini", Price::usual(1.1, 4.4)),
    ("gemini", "gemini-2.5-pro", Price::usual(1.25, 10.0)),
    ("gemini", "gemini-2.5-flash", Price::usual(0.3, 2.5)),
    ("gemini", "gemini-2.5-flash-lite", Price::usual(0.1, 0.4)),
    ("gemini", "gemini-2.0-flash", Price::usual(0.1, 0.4)),
];

/// The built-in list under an operator's own.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PriceTable(Vec<(ModelRef, Price)>);

impl PriceTable {
    /// An operator's own price, for one model.
    #[must_use]
    pub fn with(mut self, model: ModelRef, price: Price) -> Self {
        self.0.push((model, price));
        self
    }

    fn find(&self, model: &ModelRef) -> Option<Price> {
        if let Some((_, price)) = self.0.iter().rev().find(|(named, _)| named == model) {
            return Some(*price);
        }
        let listed = LIST.iter().filter(|(provider, name, _)| {
            model.provider == *provider && is_dated(&model.model, name)
        });
        // A small model's name begins with that of its big sister.
        listed.max_by_key(|(_, name, _)| name.len()).map(|(_, _, price)| *price)
    }

    pub fn knows(&self, model: &ModelRef) -> bool {
        self.find(model).is_some()
    }

    /// In US dollars; none where no rate is known.
    pub fn estimate(&self, model: &ModelRef, usage: &TokenUsage) -> Option<f64> {
        let price = self.find(model)?;
        let (read, write) = (usage.cache_read.unwrap_or(0), usage.cache_write.unwrap_or(0));
        let fresh = usage.input.saturating_sub(read).saturating_sub(write);
        let parts = [
            (fresh, price.input),
            (usage.output, price.output),
            (read, price.cache_read),
            (write, price.cache_write),
        ];
        Some(parts.iter().map(|(tokens, rate)| *tokens as f64 * rate).sum::<f64>() / 1e6)
    }

    /// The most that a turn may use, estimated before the call.
    pub(crate) fn foresee(&self, request: &ModelRequest) -> Spent {
        let tools = request.tools.iter().map(|tool| {
            tool.name.len() + tool.description.len() + tool.parameters.to_string().len()
        });
        let schema = request.response_schema.as_ref().map_or(0, |schema| schema.to_string().len());
        let messages = serde_json::to_string(&request.messages).map_or(0, |text| text.len());
        let system = request.system.as_ref().map_or(0, String::len);
        let bytes = system + messages + schema + tools.sum::<usize>();
        let input = bytes as u64 / BYTES_PER_TOKEN;
        let output = u64::from(request.max_output_tokens);
        let usage = TokenUsage { input, output, cache_read: None, cache_write: None };
        let cost_usd = self.estimate(&request.model, &usage).unwrap_or(0.0);
        Spent { input_tokens: input, output_tokens: output, cost_usd }
    }

    /// The recorded usage of a turn. Without token counts there is no price.
    pub(crate) fn usage_of(&self, model: &ModelRef, counted: Option<&TokenUsage>) -> ProviderUsage {
        match counted {
            Some(usage) => self.usage(model, usage, None),
            None => ProviderUsage {
                cost_estimate_usd: None,
                currency: None,
                ..self.usage(model, &TokenUsage::default(), None)
            },
        }
    }

    /// What the log says about a call.
    pub fn usage(
        &self,
        model: &ModelRef,
        usage: &TokenUsage,
        node: Option<NodeId>,
    ) -> ProviderUsage {
        let cost = self.estimate(model, usage);
        ProviderUsage {
            provider: model.provider.clone(),
            model: model.model.clone(),
            input_tokens: usage.input,
            output_tokens: usage.output,
            total_tokens: Some(usage.input.saturating_add(usage.output)),
            cost_estimate_usd: cost,
            currency: cost.map(|_| "USD".to_owned()),
            cache_hit: None,
            cache_read_tokens: usage.cache_read,
            cache_write_tokens: usage.cache_write,
            node_id: node,
            trace_id: None,
        }
    }
}

/// Whether the model is the listed one, or a dated or numbered edition of it.
fn is_dated(model: &str, listed: &str) -> bool {
    match model.strip_prefix(listed) {
        Some("") => true,
        Some(rest) => listed.is_empty() || rest.starts_with('-') || rest.starts_with('@'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(model: &str, usage: TokenUsage) -> Option<f64> {
        PriceTable::default().estimate(&model.parse().unwrap(), &usage)
    }

    const MILLION: TokenUsage =
        TokenUsage { input: 1_000_000, output: 1_000_000, cache_read: None, cache_write: None };

    #[test]
    fn the_longest_name_in_the_list_decides() {
        assert_eq!(cost("openai/gpt-4o-2024-11-20", MILLION), Some(12.5));
        assert_eq!(cost("openai/gpt-4o-mini-2024-07-18", MILLION), Some(0.75));
        assert_eq!(cost("anthropic/claude-sonnet-4-5", MILLION), Some(18.0));
    }

    #[test]
    fn an_unknown_rate_is_not_free() {
        for unknown in ["openai/gpt-4ox", "acme/gpt-4o", "ollama/llama3.2"] {
            assert_eq!(cost(unknown, MILLION), None, "{unknown}");
        }
        assert_eq!(cost("scripted", MILLION), Some(0.0));
    }

    #[test]
    fn what_was_cached_is_not_paid_for_as_fresh() {
        let cached = TokenUsage { cache_read: Some(1_000_000), ..MILLION };
        let close = cost("anthropic/claude-sonnet-4-5", cached).map(|cost| (cost - 15.3).abs());
        assert!(close.is_some_and(|difference| difference < 1e-9), "{close:?}");
    }

    ///
    #[test]
    fn an_operators_price_wins_and_the_log_gets_the_models_own_name() {
        let model: ModelRef = "local/qwen3".parse().unwrap();
        let price = Price { input: 1.0, output: 2.0, cache_read: 0.0, cache_write: 0.0 };
        let table = PriceTable::default().with(model.clone(), price);
        let said = table.usage(&model, &MILLION, Some("ask".into()));
        assert_eq!((said.provider.as_str(), said.model.as_str()), ("local", "qwen3"));
        assert_eq!((said.cost_estimate_usd, said.currency.as_deref()), (Some(3.0), Some("USD")));
        assert_eq!(said.total_tokens, Some(2_000_000));
    }
}
