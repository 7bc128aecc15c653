//! A host as a process: its log, and its signals to stop.

use std::io;
use std::sync::OnceLock;

use clap::ValueEnum;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use callboard_core::Redactor;

use crate::exit::CommandError;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

impl LogFormat {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::value_variants().iter().copied().find(|format| format.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
        }
    }
}

/// The operator's log goes to standard error; standard output has the one line that scripts wait for.
pub(crate) fn start_logging(filter: &str, format: LogFormat) -> Result<(), CommandError> {
    // Migrations speak through our own lines; those of the library under them are for who asks.
    let filter = EnvFilter::try_new(format!("refinery_core=warn,{filter}")).map_err(|error| {
        CommandError::usage(format!("--log {filter}: {error}"))
            .hint("write it as info, debug or callboard_engine=trace")
    })?;
    let colours = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Cleaned(std::io::stderr()))
        .with_ansi(colours);
    let quiet = filter_fn(|metadata| may_be_logged(metadata.target()));
    let started = match format {
        LogFormat::Text => builder.finish().with(quiet).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).finish().with(quiet).try_init(),
    };
    started.map_err(|error| CommandError::failed(format!("cannot start logging: {error}")))
}

/// What the log leaves out, once the host knows what that is.
static KNOWN: OnceLock<Redactor> = OnceLock::new();

/// From here on no line of the log holds one of these.
pub(crate) fn clean_log(known: Redactor) {
    // A process is one host; a second one would know the same.
    let _ = KNOWN.set(known);
}

/// A line of the log comes in one piece, so that a secret does.
struct Cleaned<W>(W);

impl<W: io::Write> io::Write for Cleaned<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match KNOWN.get() {
            Some(known) => {
                let mut line = String::from_utf8_lossy(bytes).into_owned();
                known.redact_text(&mut line);
                self.0.write_all(line.as_bytes())?;
            }
            None => self.0.write_all(bytes)?,
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// The library that speaks to model providers logs prompts and answers; whatever filter is set, those stay out.
fn may_be_logged(target: &str) -> bool {
    let krate = target.split("::").next().unwrap_or_default();
    !["genai", "rmcp"].contains(&krate)
}

/// Files that a host needs beside its connections: the database, children and their pipes, calls of its own.
const OTHER_FILES: u64 = 256;

/// How many connections there may be: as many as the operator says, if the system lets this process open so many. It is
/// asked for all that it gives first, because what shells set by default is little.
pub(crate) fn connections(wanted: u64) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    let files = match setrlimit(Resource::Nofile, raised) {
        Ok(()) => limit.maximum,
        Err(_) => limit.current,
    };
    let most = files.map_or(wanted, |files| files.saturating_sub(OTHER_FILES).max(files / 4));
    if most < wanted {
        tracing::warn!(most, wanted, "the system lets this process have fewer connections");
    }
    usize::try_from(most.min(wanted)).unwrap_or(usize::MAX)
}

/// SIGXFSZ, wherever we run.
const FILE_TOO_LARGE: i32 = 25;

/// SIGTERM from a supervisor, SIGINT from a person.
#[derive(Debug)]
pub(crate) struct Stop {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
    on_hangup: OnHangup,
}

/// What SIGHUP means, which comes when a terminal closes, and from those who take it for "read your files again".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnHangup {
    /// A host that serves outlives the terminal that it was started from, and looks at its files.
    Reload,
    Stop,
}

/// What somebody wants of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    Stop,
    Hangup,
}

impl Stop {
    pub(crate) fn listen(on_hangup: OnHangup) -> Result<Self, CommandError> {
        let listen = |kind| {
            signal(kind).map_err(|error| {
                CommandError::failed(format!("cannot listen for signals: {error}"))
            })
        };
        // These listeners themselves are not needed: the signals' usual answer is to end the process, and having listened
        // once is enough to make a file past its limit a failed write, and the others nothing. A reader that goes away
        // (SIGPIPE) is a failed write from the start.
        let harmless = [SignalKind::user_defined1(), SignalKind::user_defined2()];
        for kind in harmless.into_iter().chain([SignalKind::from_raw(FILE_TOO_LARGE)]) {
            drop(listen(kind)?);
        }
        Ok(Self {
            terminate: listen(SignalKind::terminate())?,
            interrupt: listen(SignalKind::interrupt())?,
            hangup: listen(SignalKind::hangup())?,
            on_hangup,
        })
    }

    /// Waits until somebody wants the end.
    pub(crate) async fn asked(&mut self) {
        while self.heard().await != Heard::Stop {}
    }

    /// Cancel-safe: a signal that comes while no one waits is kept.
    pub(crate) async fn heard(&mut self) -> Heard {
        tokio::select! {
            _ = self.terminate.recv() => Heard::Stop,
            _ = self.interrupt.recv() => Heard::Stop,
            _ = self.hangup.recv() => match self.on_hangup {
                OnHangup::Stop => Heard::Stop,
                OnHangup::Reload => Heard::Hangup,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::may_be_logged;

    #[test]
    fn prompts_stay_out_of_the_log_whatever_filter_is_set() {
        for (target, expected) in [
            ("genai", false),
            ("genai::adapter::adapters::openai::streamer", false),
            ("callboard_engine::drive", true),
            ("genaiish", true),
            ("rmcp::service", false),
        ] {
            assert_eq!(may_be_logged(target), expected, "{target}");
        }
    }
}
