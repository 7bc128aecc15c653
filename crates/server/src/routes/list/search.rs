//! What a list of runs is narrowed by beyond what has an index: a bounded search, which goes on at its cursor.

use callboard_engine::{EngineError, Filter, Listed};
use callboard_protocol::RunId;
use serde_json::Value;

use crate::app::Host;
use crate::keys::Caller;
use crate::page::PageSize;
use crate::problem::Problem;
use crate::query::Parameters;

/// Runs that one request looks at, however few of them it finds.
const MOST_LOOKED_AT: usize = 2000;
/// Runs whose variables and failure one request reads for a text, and what they may come to.
const MOST_READ: usize = 200;
const MOST_BYTES: usize = 8 * 1024 * 1024;
/// Runs that are asked of the store at once.
const STEP: usize = 200;
const LONGEST_TEXT: usize = 200;

/// What is looked for.
#[derive(Debug, Default)]
pub(super) struct Search {
    source: Option<String>,
    /// Dollars that a run has cost at least; one whose cost is unknown is not found.
    min_cost: Option<f64>,
    /// In small letters.
    text: Option<String>,
}

/// What of a run's content may still be read.
struct Allowance {
    runs: usize,
    bytes: usize,
}

impl Search {
    pub(super) fn read(query: &Parameters) -> Result<Self, Problem> {
        let dollars =
            |text: &str| text.parse().ok().filter(|cost: &f64| cost.is_finite() && *cost >= 0.0);
        let words = |text: &str| {
            let fits = !text.trim().is_empty() && text.chars().count() <= LONGEST_TEXT;
            fits.then(|| text.trim().to_lowercase())
        };
        Ok(Self {
            source: query.get("triggerSource").map(str::to_owned),
            min_cost: query.read("minCostUsd", "a number of dollars", dollars)?,
            text: query.read("text", "1 to 200 characters", words)?,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.source.is_none() && self.min_cost.is_none() && self.text.is_none()
    }

    /// A page of what was found, and where the search goes on, unless it has come to the end.
    pub(super) async fn page(
        &self,
        host: &Host,
        caller: &Caller,
        mut filter: Filter,
        size: PageSize,
    ) -> Result<(Vec<Listed>, Option<RunId>), Problem> {
        let (mut found, mut looked_at) = (Vec::new(), 0);
        let mut left = Allowance { runs: MOST_READ, bytes: MOST_BYTES };
        filter.limit = STEP;
        loop {
            let step = host.app.engine.store().list(&caller.scope, &filter).await?;
            let is_last = step.len() < STEP;
            for run in step {
                looked_at += 1;
                filter.before = Some(run.run_id.clone());
                if self.admits(&run) && self.holds(host, caller, &run, &mut left).await? {
                    found.push(run);
                }
                let is_full = found.len() == size.get();
                if is_full || looked_at == MOST_LOOKED_AT || left.runs == 0 || left.bytes == 0 {
                    return Ok((found, filter.before));
                }
            }
            if is_last {
                return Ok((found, None));
            }
        }
    }

    /// What the line of the list alone decides.
    fn admits(&self, run: &Listed) -> bool {
        let cost = run.metrics.as_ref().and_then(|metrics| metrics.openwop_cost.usd);
        self.min_cost.is_none_or(|least| cost.is_some_and(|cost| cost >= least))
            && self.source.as_ref().is_none_or(|wanted| run.trigger_source.as_ref() == Some(wanted))
    }

    /// Whether the text is in the names of a run, its variables or its failure, as its reader may see them.
    async fn holds(
        &self,
        host: &Host,
        caller: &Caller,
        run: &Listed,
        left: &mut Allowance,
    ) -> Result<bool, Problem> {
        let Some(text) = &self.text else { return Ok(true) };
        let member = run.roster_id.as_ref().map(|member| member.as_str());
        let names = [run.run_id.as_str(), run.workflow_id.as_str()].into_iter().chain(member);
        let mut names = names.chain(run.tags.iter().map(String::as_str));
        if names.any(|name| name.to_lowercase().contains(text)) {
            return Ok(true);
        }
        let seen = match host.app.engine.snapshot(&caller.scope, &run.run_id).await {
            Ok(seen) => seen,
            Err(error @ EngineError::Store(_)) => return Err(error.into()),
            // One that cannot be read hides no other.
            Err(_) => None,
        };
        let Some(seen) = seen else { return Ok(false) };
        left.runs -= 1;
        left.bytes = left.bytes.saturating_sub(seen.json.len());
        let shown: Value = serde_json::from_str(&seen.json).unwrap_or_default();
        Ok(["variables", "inputs", "error"].iter().any(|part| is_in(text, &shown[*part])))
    }
}

/// Whether a text is in a value or below it. Values are as deep as what was stored, which is bounded.
fn is_in(text: &str, value: &Value) -> bool {
    match value {
        Value::String(own) => own.to_lowercase().contains(text),
        Value::Array(items) => items.iter().any(|item| is_in(text, item)),
        Value::Object(fields) => fields.values().any(|value| is_in(text, value)),
        Value::Number(number) => number.to_string().contains(text),
        Value::Null | Value::Bool(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use callboard_engine::{Listed, Rest};
    use callboard_protocol::{RunCost, RunMetrics, RunStatus, Timestamp};
    use serde_json::json;

    use super::{Search, is_in};

    fn listed(usd: Option<f64>, source: &str) -> Listed {
        let openwop_cost = RunCost { usd, ..RunCost::default() };
        Listed {
            run_id: "run_1".into(),
            workflow_id: "w".into(),
            status: RunStatus::Completed,
            created_at: Timestamp::default(),
            updated_at: Timestamp::default(),
            roster_id: None,
            trigger_source: Some(source.to_owned()),
            tags: Vec::new(),
            metrics: Some(RunMetrics { openwop_cost }),
            priority: "normal",
            wait: None,
            rest: Rest::default(),
        }
    }

    #[test]
    fn cost_and_source_are_judged_together() {
        let search =
            Search { source: Some("queue".to_owned()), min_cost: Some(0.5), ..Search::default() };
        assert!(search.admits(&listed(Some(0.5), "queue")));
        assert!(!search.admits(&listed(Some(0.49), "queue")), "too cheap");
        assert!(!search.admits(&listed(None, "queue")), "what is unknown is not found");
        assert!(!search.admits(&listed(Some(2.0), "webhook")), "fired by something else");
        assert!(Search::default().admits(&listed(None, "webhook")));
    }

    #[test]
    fn a_text_is_found_however_deep_and_however_written() {
        let value = json!({ "a": [{ "b": "The LIFT\nhas stopped" }, 4711], "lift": true });
        assert!(is_in("lift\nhas", &value) && is_in("471", &value));
        assert!(!is_in("true", &value) && !is_in("\"b\"", &value), "names and shapes are no text");
    }
}
