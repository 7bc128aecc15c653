//! `[tools]`: how often tools may be used.

use toml::Spanned;
use toml::de::DeValue;

use callboard_agents::RatePolicy;

use super::Source;
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
    pub(super) fn tools(&self, value: &Spanned<DeValue<'_>>) -> Result<Tools, CommandError> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self.wrong(value, "tools", "a section"));
        };
        let mut tools = Tools::default();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let path = format!("tools.{name}");
            if name != "calls_per_minute" {
                return Err(self.unknown(key.span().start, &path, name, &KEYS));
            }
            let number = value.get_ref().as_integer().and_then(|number| {
                u32::from_str_radix(&number.as_str().replace('_', ""), number.radix()).ok()
            });
            let wanted = format!("a whole number up to {MOST}");
            tools.rate.calls_per_minute = number
                .filter(|number| *number <= MOST)
                .ok_or_else(|| self.wrong(value, &path, &wanted))?;
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
        let wrong =
            "c.toml:2: tools.calls_per_minute must be a whole number up to 1000000, not an integer";
        assert_eq!(read("[tools]\ncalls_per_minute = -1"), Err(wrong.to_owned()));
        let unknown = "c.toml:2: unknown key tools.calls".to_owned();
        assert_eq!(read("[tools]\ncalls = 1"), Err(unknown));
    }
}
