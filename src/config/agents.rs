//! `[agents]`: whether agents of packs ask models.

use callboard_agents::{ModelRef, ModelTable};

use super::source::{Source, Value};
use crate::exit::CommandError;

/// The section as it was read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Agents {
    live: Live,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Live {
    /// Where somebody named a model, be it the scripted one.
    #[default]
    Auto,
    On,
    Off,
}

impl Agents {
    /// Models are asked, be it the scripted one.
    pub(crate) const LIVE: Self = Self { live: Live::On };
    const KEYS: [&str; 1] = ["live"];

    /// Whether agents are live with these models. Whoever asks for test seams wants to see them live.
    pub(crate) fn is_live(self, table: &ModelTable, test_seams: bool) -> bool {
        let is_named = table.default.is_some() || !table.classes.is_empty();
        let asks =
            || ModelTable::CLASSES.iter().any(|class| table.of(*class) != ModelRef::scripted());
        match self.live {
            Live::Auto => test_seams || is_named || asks(),
            Live::On => true,
            Live::Off => false,
        }
    }
}

impl Source<'_> {
    pub(super) fn agents(&self, value: &Value<'_>) -> Result<Agents, CommandError> {
        let table = self.section(value, "agents")?;
        let mut agents = Agents::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "live" => {
                    agents.live = match value.get_ref().as_str() {
                        Some("auto") => Live::Auto,
                        Some("on") => Live::On,
                        Some("off") => Live::Off,
                        _ => return Err(self.wrong(value, "agents.live", "auto, on or off")),
                    };
                }
                name => {
                    let path = format!("agents.{name}");
                    return Err(self.unknown(key.span().start, &path, name, &Agents::KEYS));
                }
            }
        }
        Ok(agents)
    }
}
