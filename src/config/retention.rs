//! `[retention]`: how long ended runs are kept, for all of them and by rules.

use std::time::Duration;

use serde::Deserialize;
use serde::de::Deserializer;

use callboard_engine::{EndedRuns, RetentionPolicy, RetentionRule, Sweeper};
use callboard_protocol::{RunStatus, Tenant, WorkflowId};

use super::values::checked;

const DAY: u64 = 86_400;
/// A hundred years: to keep runs for ever, leave the section out.
const MOST_DAYS: u64 = 36_500;

/// How long ended runs are kept.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Retention {
    /// How long a run is kept after its end that no rule is about; none for ever.
    #[serde(rename = "runs_days", deserialize_with = "days")]
    pub(crate) runs: Option<Duration>,
    /// The first that fits a run decides.
    rules: Vec<Rule>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "Written")]
struct Rule(RetentionRule);

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Written {
    tenant: Option<Tenant>,
    workflow: Option<WorkflowId>,
    agent: Option<String>,
    status: Option<Ended>,
    #[serde(deserialize_with = "days")]
    days: Option<Duration>,
    keep: bool,
}

/// How a run can end.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Ended {
    Completed,
    Failed,
    Cancelled,
}

impl TryFrom<Written> for Rule {
    type Error = &'static str;

    fn try_from(written: Written) -> Result<Self, &'static str> {
        let Written { tenant, workflow, agent, status, days, keep } = written;
        if days.is_some() == keep {
            return Err("must say either days or keep = true\n\
                 a rule keeps the runs that it is about for some days after their end, or for ever");
        }
        let status = status.map(|status| match status {
            Ended::Completed => RunStatus::Completed,
            Ended::Failed => RunStatus::Failed,
            Ended::Cancelled => RunStatus::Cancelled,
        });
        let of = EndedRuns { tenant, workflow, agent, status };
        Ok(Self(RetentionRule { of, keep: days }))
    }
}

impl Retention {
    /// The rules in their order, the one for all runs last.
    pub(crate) fn policy(&self) -> RetentionPolicy {
        let rules = self.rules.iter().map(|rule| rule.0.clone());
        let rest = RetentionRule { of: EndedRuns::default(), keep: self.runs };
        RetentionPolicy(rules.chain([rest]).collect())
    }

    /// After how many whole days the first run may go, as discovery says it.
    pub(crate) fn days(&self) -> Option<u32> {
        let shortest = self.policy().0.iter().filter_map(|rule| rule.keep).min()?;
        u32::try_from(shortest.as_secs() / DAY).ok()
    }
}

fn days<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let least = Sweeper::SHORTEST.as_secs() / DAY;
    let wanted = format!("{least} to {MOST_DAYS}\nleave it out to keep runs for ever");
    checked(deserializer, &wanted, |days: i128| {
        let days = u64::try_from(days).ok().filter(|it| (least..=MOST_DAYS).contains(it))?;
        Some(Some(Duration::from_secs(days * DAY)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_stand_in_their_order_before_the_days_of_all_runs() {
        let text = r#"
            runs_days = 90
            rules = [
                { tenant = "law", keep = true },
                { tenant = "acme", agent = "clerk", workflow = "w", status = "failed", days = 7 },
            ]"#;
        let retention: Retention = toml::from_str(text).unwrap();
        let kept = |days: u64| Some(Duration::from_secs(days * DAY));
        let RetentionPolicy(rules) = retention.policy();
        assert_eq!(
            rules.iter().map(|rule| rule.keep).collect::<Vec<_>>(),
            [None, kept(7), kept(90)]
        );
        assert_eq!(
            rules[1].of,
            EndedRuns {
                tenant: Some("acme".into()),
                workflow: Some("w".into()),
                agent: Some("clerk".into()),
                status: Some(RunStatus::Failed),
            }
        );
        assert_eq!(rules[2].of, EndedRuns::default());
        assert_eq!(retention.days(), Some(7));
        assert!(!Retention::default().policy().removes());
    }

    #[test]
    fn a_rule_says_one_thing() {
        for wrong in [
            "rules = [{ tenant = \"a\" }]",
            "rules = [{ days = 9, keep = true }]",
            "rules = [{ days = 3 }]",
            "rules = [{ days = 9, status = \"running\" }]",
            "rules = [{ days = 9, tennant = \"a\" }]",
        ] {
            assert!(toml::from_str::<Retention>(wrong).is_err(), "{wrong}");
        }
    }
}
