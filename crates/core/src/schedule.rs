//! When a schedule fires: cron patterns and single instants in a time zone, as arithmetic.

use std::time::Duration;

use croner::Cron as Pattern;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Zoned;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use callboard_protocol::Timestamp;

/// How far ahead a fire may lie: five years, so that a leap day is within reach.
pub const HORIZON: Duration = Duration::from_hours(1_826 * 24);
/// The same as the protocol writes it.
pub const HORIZON_TEXT: &str = "P1826D";

/// What a description says of the days of work.
const WEEK: &str = "on Monday, Tuesday, Wednesday, Thursday, and Friday";
/// The lengths that the published trigger node allows.
const LONGEST_PATTERN: usize = 256;

/// A pattern in a time zone. Reading one twice gives the same instants on every machine: the zones are built in.
#[derive(Debug, Clone)]
pub struct Cron {
    text: String,
    pattern: Pattern,
    zone: TimeZone,
    pace: Pace,
}

/// What a clock that is put forward or back does to a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// It names hours: a missing one fires at the first valid minute, a repeated one the first time.
    Hours,
    /// Any hour will do: it goes on as time does.
    Steady,
}

/// Why there is no such schedule.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    #[error("{0}")]
    Pattern(String),
    #[error("no time zone is called {0:?}; use a name such as Europe/Berlin")]
    TimeZone(String),
    /// Its next fire is further away than a host remembers.
    #[error("it would fire later than {HORIZON_TEXT} from now")]
    BeyondHorizon,
    #[error("it never fires")]
    Never,
}

impl Cron {
    /// Five fields, or six with seconds first.
    pub fn read(text: &str, zone: &str) -> Result<Self, ScheduleError> {
        let text = text.trim();
        if text.len() > LONGEST_PATTERN {
            return Err(ScheduleError::Pattern("must have at most 256 characters".to_owned()));
        }
        let fields: Vec<&str> = text.split_whitespace().collect();
        let hours = match fields.as_slice() {
            [_, hours, _, _, _] | [_, _, hours, _, _, _] => *hours,
            _ => {
                let message = format!(
                    "must have five fields, as in \"0 9 * * MON-FRI\", or six with seconds first; this has {}",
                    fields.len()
                );
                return Err(ScheduleError::Pattern(message));
            }
        };
        let pace = if hours.starts_with('*') { Pace::Steady } else { Pace::Hours };
        let parser = CronParser::builder().seconds(Seconds::Optional).year(Year::Disallowed);
        let pattern = parser.build().parse(text).map_err(|error| {
            ScheduleError::Pattern(format!("is no cron pattern: {}", plain(&error)))
        })?;
        let known = TimeZoneDatabase::bundled().get(zone);
        let zone = known.map_err(|_| ScheduleError::TimeZone(zone.to_owned()))?;
        Ok(Self { text: text.to_owned(), pattern, zone, pace })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// The first fire after an instant; none if there is none in the calendar.
    pub fn next_after(&self, instant: Timestamp) -> Option<Timestamp> {
        let at = jiff::Timestamp::from_millisecond(instant.as_millis()).ok()?;
        let start = at.to_zoned(self.zone.clone());
        match self.pace {
            Pace::Steady => {
                let next: Zoned = self.pattern.find_next_occurrence(&start, false).ok()?;
                Some(Timestamp::from_millis(next.timestamp().as_millisecond()))
            }
            Pace::Hours => {
                let mut civil = start.datetime();
                loop {
                    civil = self.pattern.find_next_occurrence(&civil, false).ok()?;
                    // The second half of a repeated hour reads like the first, which is over.
                    let next = self.instant_of(civil)?;
                    if next > instant {
                        return Some(next);
                    }
                }
            }
        }
    }

    /// The fires after an instant, in order.
    pub fn fires(&self, after: Timestamp) -> impl Iterator<Item = Timestamp> + '_ {
        std::iter::successors(self.next_after(after), |last| self.next_after(*last))
    }

    /// The last of the fires from `slot`, which is one, up to `until`, and the first after them.
    pub fn catch_up(&self, slot: Timestamp, until: Timestamp) -> (Timestamp, Option<Timestamp>) {
        let next = self.next_after(until.max(slot));
        let last = self.last_before(next, until);
        (last.filter(|last| *last > slot).unwrap_or(slot), next)
    }

    /// The pattern in plain English.
    pub fn describe(&self) -> String {
        let described = self.pattern.describe();
        let described = described.trim_end_matches('.').replace(WEEK, "Monday to Friday");
        let described = described
            .strip_prefix("At every")
            .map_or_else(|| described.clone(), |rest| format!("Every{rest}"));
        let zone = self.zone.iana_name().unwrap_or("UTC");
        format!("{described} ({zone})")
    }

    /// The fire at or before `until` that lies nearest to it. Every fire is a start for the next, so a search that
    /// begins early enough ends there; it begins further back until it has found one.
    fn last_before(&self, next: Option<Timestamp>, until: Timestamp) -> Option<Timestamp> {
        let mut back = Duration::from_secs(64);
        while back <= HORIZON {
            let from = Timestamp::from_millis(until.as_millis() - millis(back));
            let within = self.fires(from).take_while(|fire| Some(*fire) != next && *fire <= until);
            if let Some(last) = within.last() {
                return Some(last);
            }
            back *= 8;
        }
        None
    }

    /// When a clock in the zone first shows this, or would have.
    fn instant_of(&self, civil: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(civil);
        let at = match ambiguous.offset() {
            AmbiguousOffset::Unambiguous { offset } => offset.to_timestamp(civil).ok()?,
            AmbiguousOffset::Fold { before, .. } => before.to_timestamp(civil).ok()?,
            AmbiguousOffset::Gap { after, .. } => {
                // Read with the later offset, a missing time lies just before the clock was put forward.
                let earlier = after.to_timestamp(civil).ok()?;
                self.zone.following(earlier).next()?.timestamp()
            }
        };
        Some(Timestamp::from_millis(at.as_millisecond()))
    }
}

/// Checks that a fire is near enough to be remembered.
pub fn within_horizon(next: Option<Timestamp>, now: Timestamp) -> Result<Timestamp, ScheduleError> {
    let next = next.ok_or(ScheduleError::Never)?;
    if next > now.plus(HORIZON) { Err(ScheduleError::BeyondHorizon) } else { Ok(next) }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// The library's words without its own names for things.
fn plain(error: &croner::errors::CronError) -> String {
    let text = error.to_string();
    let text = text
        .trim_start_matches("Component error: ")
        .trim_start_matches("Invalid pattern: ")
        .trim_start_matches("Pattern contains illegal characters: ");
    text.trim_end_matches('.').to_owned()
}
