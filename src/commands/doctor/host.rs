//! The checks of the host at the other end: is it there, does it know us, what time does it think it is.

use std::time::Duration;

use serde_json::Value;

use callboard_engine::{Clock, SystemClock};
use callboard_protocol::Timestamp;

use super::{Check, State};
use crate::client::{Client, Kind};
use crate::exit::{CommandError, Exit};
use crate::screen::words;

/// Leases and schedules compare clocks; two machines may not differ by more than this.
const MOST_SKEW: Duration = Duration::from_secs(5);

pub(super) async fn check(client: &Client) -> Vec<Check> {
    let (document, date) = match client.discover().await {
        Ok(found) => found,
        Err(error) => {
            let skipped = |name| Check::new(name, State::Skipped, "no host to ask");
            return vec![absent(error), skipped("key"), skipped("clock")];
        }
    };
    vec![host(client, &document).await, key(client).await, clock(date.as_deref())]
}

/// Before the first start there is no problem to report.
fn absent(error: CommandError) -> Check {
    let state = if error.exit == Exit::Unreachable { State::Skipped } else { State::Failed };
    Check { state, ..Check::of("host", &error) }
}

async fn host(client: &Client, document: &Value) -> Check {
    let part = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or("unknown");
    let (name, version) = (part("/implementation/name"), part("/implementation/version"));
    let found =
        format!("{name} {version} at {}, protocol {}", client.base(), part("/protocolVersion"));
    match client.ready().await {
        Ok(()) => Check::new("host", State::Ok, found),
        Err(error) => {
            Check::new("host", State::Failed, format!("{found}, but not ready: {}", error.what))
                .hint("see the host's log: its database cannot be reached")
        }
    }
}

async fn key(client: &Client) -> Check {
    let name = "key";
    if !client.has_key() {
        return Check::new(name, State::Warning, "none given")
            .hint("set CALLBOARD_API_KEY or pass --api-key");
    }
    match client.list(&Kind::LISTED_RUN, &[("limit", "1".to_owned())]).await {
        Ok(_) => Check::new(name, State::Ok, "accepted"),
        // The key is valid, but lacks this scope; that may be intended.
        Err(error) if error.code.as_deref() == Some("forbidden") => {
            Check::new(name, State::Ok, "accepted; it may not list runs")
        }
        Err(error) => Check::of(name, &error),
    }
}

fn clock(date: Option<&str>) -> Check {
    let name = "clock";
    let Some(theirs) = date.and_then(parse_http_date) else {
        return Check::new(name, State::Skipped, "the host does not say what time it is");
    };
    let ours = SystemClock.now();
    let skew = theirs.since(ours).max(ours.since(theirs));
    // The header has whole seconds.
    if skew <= MOST_SKEW + Duration::from_secs(1) {
        return Check::new(name, State::Ok, "this machine and the host agree");
    }
    Check::new(
        name,
        State::Failed,
        format!("this machine and the host are {} apart", words::duration(skew)),
    )
    .hint("synchronise both clocks (chrony, systemd-timesyncd)")
}

fn parse_http_date(text: &str) -> Option<Timestamp> {
    let at = jiff::fmt::rfc2822::DateTimeParser::new().parse_timestamp(text).ok()?;
    Some(Timestamp::from_millis(at.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_whose_clock_is_off_is_reported() {
        assert_eq!(clock(Some("Sun, 06 Nov 1994 08:49:37 GMT")).state, State::Failed);
        assert_eq!(clock(Some("noon")).state, State::Skipped);
        assert_eq!(
            parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT").map(Timestamp::as_millis),
            Some(784_111_777_000)
        );
    }
}
