//! `[retention]`: how long ended runs are kept.

use std::time::Duration;

use callboard_engine::Sweeper;

use super::source::{Source, Value};
use crate::exit::CommandError;

const DAY: u64 = 86_400;
/// A hundred years: whoever means for ever leaves the section out.
const MOST_DAYS: u64 = 36_500;

/// The section as it was read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Retention {
    /// How long a run is kept after its end; none for ever.
    pub(crate) runs: Option<Duration>,
}

impl Retention {
    /// The same in whole days, as discovery says it.
    pub(crate) fn days(&self) -> Option<u32> {
        self.runs.and_then(|runs| u32::try_from(runs.as_secs() / DAY).ok())
    }

    const KEYS: [&str; 1] = ["runs_days"];
}

impl Source<'_> {
    pub(super) fn retention(&self, value: &Value<'_>) -> Result<Retention, CommandError> {
        let table = self.section(value, "retention")?;
        let mut retention = Retention::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "runs_days" => retention.runs = Some(self.days(value)?),
                name => {
                    let path = format!("retention.{name}");
                    return Err(self.unknown(key.span().start, &path, name, &Retention::KEYS));
                }
            }
        }
        Ok(retention)
    }

    fn days(&self, value: &Value<'_>) -> Result<Duration, CommandError> {
        let path = "retention.runs_days";
        let least = Sweeper::SHORTEST.as_secs() / DAY;
        let days = self.whole(value, path, least..=MOST_DAYS).map_err(|error| {
            error.hint("leave it out to keep runs until somebody removes the data folder")
        })?;
        Ok(Duration::from_secs(days * DAY))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    fn read(text: &str) -> Result<Option<Duration>, String> {
        let config = Config::parse("c.toml", text);
        config.map(|config| config.retention.runs).map_err(|error| error.what)
    }

    #[test]
    fn runs_are_kept_for_ever_or_for_a_week_at_least() {
        assert_eq!(read(""), Ok(None));
        let week = Some(Duration::from_secs(7 * DAY));
        assert_eq!(read("[retention]\nruns_days = 7"), Ok(week));
        for (text, expected) in [
            (
                "[retention]\nruns_days = 6",
                "c.toml:2: retention.runs_days must be 7 to 36500, not 6",
            ),
            (
                "[retention]\nruns_days = \"7\"",
                "c.toml:2: retention.runs_days must be a whole number, not a string",
            ),
            ("[retention]\ndays = 7", "c.toml:2: unknown key retention.days"),
            ("retention = 7", "c.toml:1: retention must be a section, not an integer"),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
    }
}
