//! All logs at once, in memory.

use super::{Tables, index};
use crate::logs::{LogPosition, Logged, Window};
use crate::records::Within;
use crate::store::Scope;

impl Tables {
    pub(super) fn read_all(&self, within: &Within, after: LogPosition, most: u64) -> Window {
        let newest = self.log.len() as u64;
        let until = after.0.saturating_add(most).min(newest).max(after.0);
        // Positions begin at one, so a position is the index of what comes after it.
        let places = self.log.iter().enumerate().take(index(until)).skip(index(after.0));
        let events = places.filter_map(|(place, (run, sequence))| {
            let run = self.runs.get(run)?;
            let row = run.rows.get(index(*sequence))?;
            let logged = Logged {
                position: LogPosition(place as u64 + 1),
                place: Scope::of(&run.birth),
                tags: run.birth.tags.clone(),
                is_replay: run.birth.is_replay(),
                event: run.recorded(index(*sequence), row),
            };
            within.includes(&logged.place).then_some(logged)
        });
        Window { events: events.collect(), until: LogPosition(until) }
    }
}
