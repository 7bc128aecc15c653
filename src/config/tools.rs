//! `[tools]`: how often tools may be used.

use callboard_agents::RatePolicy;

use super::source::{Source, Value};
use crate::exit::CommandError;

/// The section as it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tools {
    pub(crate) rate: RatePolicy,
}

const KEYS: [&str; 1] = ["calls_per_minute"];
/// More than a model could ever ask for.
const MOST: u32 = 1_000_000;

impl Source<'_> {
    pub(super) fn tools(&self, value: &Value<'_>) -> Result<Tools, CommandError> {
        let table = self.section(value, "tools")?;
        let mut tools = Tools::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = format!("tools.{name}");
            if name != "calls_per_minute" {
                return Err(self.unknown(key.span().start, &path, name, &KEYS));
            }
            let calls = self.whole(value, &path, 0..=u64::from(MOST))?;
            tools.rate.calls_per_minute = u32::try_from(calls).unwrap_or(MOST);
        }
        Ok(tools)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    #[test]
    fn the_rate_is_read_and_mistakes_name_their_line() {
        let read = |text: &str| {
            let config = Config::parse("c.toml", text);
            config.map(|config| config.tools.rate.calls_per_minute).map_err(|error| error.what)
        };
        assert_eq!(read(""), Ok(600));
        assert_eq!(read("[tools]\ncalls_per_minute = 0"), Ok(0));
        let wrong = "c.toml:2: tools.calls_per_minute must be 0 to 1000000, not -1";
        assert_eq!(read("[tools]\ncalls_per_minute = -1"), Err(wrong.to_owned()));
        let unknown = "c.toml:2: unknown key tools.calls".to_owned();
        assert_eq!(read("[tools]\ncalls = 1"), Err(unknown));
    }
}
