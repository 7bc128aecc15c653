//! Which events each stream mode shows.

use callboard_protocol::{Event, StreamTier};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamMode {
    Updates,
    Values,
    Messages,
    Debug,
}

impl StreamMode {
    pub const NAMES: [&'static str; 4] = ["updates", "values", "messages", "debug"];

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "updates" => Some(Self::Updates),
            "values" => Some(Self::Values),
            "messages" => Some(Self::Messages),
            "debug" => Some(Self::Debug),
            _ => None,
        }
    }

    fn admits(self, tier: StreamTier) -> bool {
        match self {
            Self::Updates => tier == StreamTier::Update,
            Self::Values => matches!(tier, StreamTier::Update | StreamTier::Value),
            Self::Messages => tier == StreamTier::Message,
            Self::Debug => true,
        }
    }
}

/// One mode, or several whose events are shown together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamModes(Vec<StreamMode>);

/// A mode that does not exist, or a mixture that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "unsupported stream mode {0:?}; supported are updates, values, messages, debug, and mixtures without values"
)]
pub struct UnsupportedMode(pub String);

impl StreamModes {
    /// Reads `updates`, or `updates,messages`. `values` cannot be mixed: its frames are not events.
    pub fn parse(text: &str) -> Result<Self, UnsupportedMode> {
        let unsupported = || UnsupportedMode(text.to_owned());
        let mut modes = Vec::new();
        for name in text.split(',') {
            let mode = StreamMode::from_name(name.trim()).ok_or_else(unsupported)?;
            if !modes.contains(&mode) {
                modes.push(mode);
            }
        }
        if modes.len() > 1 && modes.contains(&StreamMode::Values) {
            return Err(unsupported());
        }
        Ok(Self(modes))
    }

    pub fn admits(&self, kind: &str) -> bool {
        let tier = Event::tier_of(kind);
        self.0.iter().any(|mode| mode.admits(tier))
    }

    pub fn is_values(&self) -> bool {
        self.0 == [StreamMode::Values]
    }

    /// Whether frames carry chunks alone, without their envelope.
    pub fn is_messages(&self) -> bool {
        self.0 == [StreamMode::Messages]
    }
}

impl Default for StreamModes {
    fn default() -> Self {
        Self(vec![StreamMode::Updates])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mixture_shows_the_union_and_values_stand_alone() {
        let mixed = StreamModes::parse("updates, messages");
        let shown = |kind: &str| mixed.as_ref().map(|modes| modes.admits(kind));
        assert_eq!(shown("run.completed"), Ok(true));
        assert_eq!(shown("output.chunk"), Ok(true));
        assert_eq!(shown("node.started"), Ok(false));
        assert!(StreamModes::parse("updates,values").is_err());
        assert!(StreamModes::parse("updates,bogus").is_err());
        assert!(StreamModes::parse("").is_err());
    }

    #[test]
    fn debug_shows_all_that_any_other_mode_shows() {
        let debug = StreamModes(vec![StreamMode::Debug]);
        for kind in Event::KINDS.iter().chain(&["acme.thing.happened"]) {
            assert!(debug.admits(kind), "{kind}");
        }
    }
}
