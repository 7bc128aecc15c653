//! `[orchestration]`: how sure supervisors must be to be followed without asking.

use callboard_core::{Confidence, EXECUTION_MODEL, WIDEST_WINDOW};

use super::source::{Source, Value};
use crate::exit::CommandError;

/// Memory and the confidence floor belong to every run here, so that an older model cannot be followed.
const OLDEST_MODEL: u32 = 2;

/// The section as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Orchestration {
    /// Never below the protocol's own; a stricter one is advertised.
    pub(crate) confidence_floor: Confidence,
    /// The protocol's execution model that is advertised and followed.
    pub(crate) execution_model: u32,
    /// How many entries of its earlier turns an agent is shown.
    pub(crate) transcript_window: u64,
}

impl Default for Orchestration {
    fn default() -> Self {
        Self {
            confidence_floor: Confidence::FLOOR,
            execution_model: EXECUTION_MODEL,
            transcript_window: WIDEST_WINDOW,
        }
    }
}

impl Orchestration {
    const KEYS: [&str; 3] = ["confidence_floor", "execution_model", "transcript_window"];
}

impl Source<'_> {
    pub(super) fn orchestration(&self, value: &Value<'_>) -> Result<Orchestration, CommandError> {
        let table = self.section(value, "orchestration")?;
        let mut orchestration = Orchestration::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "confidence_floor" => orchestration.confidence_floor = self.floor(value)?,
                "execution_model" => orchestration.execution_model = self.model(value)?,
                "transcript_window" => {
                    let path = "orchestration.transcript_window";
                    orchestration.transcript_window = self.whole(value, path, 1..=WIDEST_WINDOW)?;
                }
                name => {
                    let path = format!("orchestration.{name}");
                    return Err(self.unknown(key.span().start, &path, name, &Orchestration::KEYS));
                }
            }
        }
        Ok(orchestration)
    }

    /// Suites of older protocols take no newer version than they know.
    fn model(&self, value: &Value<'_>) -> Result<u32, CommandError> {
        let known = u64::from(OLDEST_MODEL)..=u64::from(EXECUTION_MODEL);
        let model = self.whole(value, "orchestration.execution_model", known)?;
        Ok(u32::try_from(model).unwrap_or(EXECUTION_MODEL))
    }

    fn floor(&self, value: &Value<'_>) -> Result<Confidence, CommandError> {
        let path = "orchestration.confidence_floor";
        let admit = |number| Confidence::of(number).filter(|floor| *floor >= Confidence::FLOOR);
        self.number(value, path, "0.5 to 1", admit).map_err(|error| {
            error.hint("the protocol allows hosts to be stricter than 0.5, and not more lenient")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Config;

    fn read(text: &str) -> Result<f64, String> {
        let config = Config::parse("c.toml", text);
        let floor = config.map(|config| config.orchestration.confidence_floor.get());
        floor.map_err(|error| error.what)
    }

    #[test]
    fn the_floor_is_read() {
        assert_eq!(read(""), Ok(0.5));
        assert_eq!(read("[orchestration]\nconfidence_floor = 0.75"), Ok(0.75));
        assert_eq!(read("[orchestration]\nconfidence_floor = 1"), Ok(1.0));
    }

    #[test]
    fn a_model_that_is_not_whole_cannot_be_promised() {
        let read = |text: &str| {
            let text = format!("[orchestration]\nexecution_model = {text}");
            let config = Config::parse("c.toml", &text);
            config.map(|config| config.orchestration.execution_model).map_err(|error| error.what)
        };
        assert_eq!(read("2"), Ok(2));
        for wrong in ["1", "6", "-3"] {
            assert!(read(wrong).is_err_and(|why| why.contains("must be 2 to")), "{wrong}");
        }
        assert!(read("3.0").is_err_and(|why| why.contains("a whole number")));
    }

    #[test]
    fn a_window_shows_something_and_no_more_than_is_kept() {
        let read = |text: &str| {
            let text = format!("[orchestration]\ntranscript_window = {text}");
            let config = Config::parse("c.toml", &text);
            config.map(|config| config.orchestration.transcript_window).map_err(|error| error.what)
        };
        assert_eq!(
            Config::parse("c.toml", "").map(|it| it.orchestration.transcript_window),
            Ok(1_000)
        );
        assert_eq!((read("1"), read("1_000")), (Ok(1), Ok(1_000)));
        for wrong in ["0", "1001", "-1"] {
            assert!(read(wrong).is_err_and(|why| why.contains("must be 1 to 1000")), "{wrong}");
        }
        assert!(read("true").is_err_and(|why| why.contains("a whole number")));
    }

    /// M-34.
    #[test]
    fn m34_a_floor_below_the_protocols_is_refused() {
        for (text, expected) in [
            ("orchestration = 1", "c.toml:1: orchestration must be a section, not an integer"),
            ("[orchestration]\nfloor = 0.5", "c.toml:2: unknown key orchestration.floor"),
            (
                "[orchestration]\nconfidence_floor = 0.49",
                "c.toml:2: orchestration.confidence_floor must be 0.5 to 1, not 0.49",
            ),
            (
                "[orchestration]\nconfidence_floor = nan",
                "c.toml:2: orchestration.confidence_floor must be 0.5 to 1, not nan",
            ),
            (
                "[orchestration]\nconfidence_floor = \"high\"",
                "c.toml:2: orchestration.confidence_floor must be a number, not a string",
            ),
        ] {
            assert_eq!(read(text), Err(expected.to_owned()), "{text}");
        }
    }
}
