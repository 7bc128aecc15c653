//! `[budgets]`: what no run, no member and no tenant may use more of.

use callboard_protocol::EffectiveBudget;

use super::source::{Source, Value};
use crate::exit::CommandError;

/// The section as it was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Budgets {
    /// For every run.
    pub(crate) run: EffectiveBudget,
    /// For a day of each member that has no budget of its own.
    pub(crate) member_day: EffectiveBudget,
    /// For a day of each tenant.
    pub(crate) tenant_day: EffectiveBudget,
}

impl Budgets {
    const KEYS: [&str; 6] = [
        "run_tokens",
        "run_cost_usd",
        "member_daily_tokens",
        "member_daily_cost_usd",
        "tenant_daily_tokens",
        "tenant_daily_cost_usd",
    ];
}

impl Source<'_> {
    pub(super) fn budgets(&self, value: &Value<'_>) -> Result<Budgets, CommandError> {
        let table = self.section(value, "budgets")?;
        let mut budgets = Budgets::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = format!("budgets.{name}");
            match name {
                "run_tokens" => budgets.run.max_tokens = Some(self.count(value, &path)?),
                "run_cost_usd" => budgets.run.max_cost_usd = Some(self.dollars(value, &path)?),
                "member_daily_tokens" => {
                    budgets.member_day.max_tokens = Some(self.count(value, &path)?);
                }
                "member_daily_cost_usd" => {
                    budgets.member_day.max_cost_usd = Some(self.dollars(value, &path)?);
                }
                "tenant_daily_tokens" => {
                    budgets.tenant_day.max_tokens = Some(self.count(value, &path)?);
                }
                "tenant_daily_cost_usd" => {
                    budgets.tenant_day.max_cost_usd = Some(self.dollars(value, &path)?);
                }
                _ => return Err(self.unknown(key.span().start, &path, name, &Budgets::KEYS)),
            }
        }
        Ok(budgets)
    }

    fn count(&self, value: &Value<'_>, path: &str) -> Result<u64, CommandError> {
        self.whole(value, path, 1..=u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(text: &str) -> Result<Budgets, String> {
        Config::parse("c.toml", text).map(|config| config.budgets).map_err(|error| error.what)
    }

    #[test]
    fn ceilings_are_read() {
        let budgets = read(
            "[budgets]\nrun_tokens = 200_000\nmember_daily_cost_usd = 2.5\ntenant_daily_tokens = 9\n",
        );
        let budgets = budgets.unwrap();
        assert_eq!(budgets.run.max_tokens, Some(200_000));
        assert_eq!(budgets.run.max_cost_usd, None);
        assert_eq!(budgets.member_day.max_cost_usd, Some(2.5));
        assert_eq!(budgets.tenant_day.max_tokens, Some(9));
        assert_eq!(read(""), Ok(Budgets::default()));
    }

    #[test]
    fn mistakes_name_their_line() {
        for (text, what) in [
            ("budgets = 1", "c.toml:1: budgets must be a section, not an integer"),
            ("[budgets]\nrun_token = 1", "c.toml:2: unknown key budgets.run_token"),
            ("[budgets]\nrun_tokens = 0", "c.toml:2: budgets.run_tokens must be at least 1, not 0"),
            (
                "[budgets]\nrun_cost_usd = -1",
                "c.toml:2: budgets.run_cost_usd must be at least 0, not -1",
            ),
        ] {
            assert_eq!(read(text), Err(what.to_owned()), "{text}");
        }
    }
}
