//! Usage that coding agents report, in the host's own terms.

use serde_json::Value;

use callboard_agents::TokenUsage;

/// What was counted.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Counted {
    /// Of this task.
    pub(super) usage: Option<TokenUsage>,
    /// Of the session since it began, where the agent counts so.
    pub(super) session: Option<TokenUsage>,
    pub(super) cost_usd: Option<f64>,
}

/// Reads an agent's count. One that counts for the whole session has `spent` taken off.
pub(super) fn read(kind: &str, counted: &Value, spent: Option<TokenUsage>) -> Counted {
    let number = |name: &str| counted[name].as_u64();
    let (Some(input), Some(output)) = (number("input_tokens"), number("output_tokens")) else {
        return Counted { cost_usd: cost(counted), ..Counted::default() };
    };
    let cache_read = number("cached_input_tokens");
    let cache_write = number("cache_creation_input_tokens");
    // Claude does not count cached input tokens as input; we do.
    let beside = if kind == "claude-code" {
        cache_read.unwrap_or_default().saturating_add(cache_write.unwrap_or_default())
    } else {
        0
    };
    let whole = TokenUsage { input: input.saturating_add(beside), output, cache_read, cache_write };
    let cost_usd = cost(counted);
    if counted["cumulative"] != Value::Bool(true) {
        return Counted { usage: Some(whole), session: None, cost_usd };
    }
    let before = spent.unwrap_or_default();
    let less = |now: Option<u64>, then: Option<u64>| {
        now.map(|now| now.saturating_sub(then.unwrap_or_default()))
    };
    let usage = TokenUsage {
        input: whole.input.saturating_sub(before.input),
        output: whole.output.saturating_sub(before.output),
        cache_read: less(whole.cache_read, before.cache_read),
        cache_write: less(whole.cache_write, before.cache_write),
    };
    Counted { usage: Some(usage), session: Some(whole), cost_usd }
}

fn cost(counted: &Value) -> Option<f64> {
    counted["cost_usd"].as_f64().filter(|cost| cost.is_finite() && *cost >= 0.0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_count_of_the_whole_session_is_taken_apart() {
        let counted = json!({ "input_tokens": 30, "output_tokens": 12, "cumulative": true });
        let first = read(
            "codex",
            &json!({ "input_tokens": 20, "output_tokens": 7, "cumulative": true }),
            None,
        );
        assert_eq!(first.usage.map(|it| (it.input, it.output)), Some((20, 7)));
        let second = read("codex", &counted, first.session);
        assert_eq!(second.usage.map(|it| (it.input, it.output)), Some((10, 5)));
    }

    #[test]
    fn claude_counts_its_cache_beside_its_input() {
        let counted = json!({
            "input_tokens": 10, "output_tokens": 7, "cached_input_tokens": 100,
            "cache_creation_input_tokens": 5, "cost_usd": 0.25,
        });
        let found = read("claude-code", &counted, None);
        assert_eq!(found.usage.map(|it| it.input), Some(115));
        assert_eq!(found.cost_usd, Some(0.25));
    }

    #[test]
    fn what_nobody_counted_is_not_zero() {
        for counted in [json!(null), json!({}), json!({ "input_tokens": null, "output_tokens": 1 })]
        {
            assert_eq!(read("aider", &counted, None), Counted::default(), "{counted}");
        }
    }
}
