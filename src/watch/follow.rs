//! Watching a run live: lines and streamed text for people, one JSON document per line for machines.

use std::time::Duration;

use indicatif::ProgressBar;
use owo_colors::OwoColorize;
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use callboard_protocol::{Event, NodeId, OutputChunk, RunEvent, RunId, RunSnapshot, RunStatus};

use crate::client::Client;
use crate::exit::CommandError;
use crate::screen::{output, progress, words};
use crate::watch::answers::{Answering, Answers, HostInbox, Turn};
use crate::watch::prompt;
use crate::watch::stream::{EventStream, Frame, Heard};
use crate::watch::timeline::Timeline;

/// The margin in front of streamed text, as wide as the column of times.
const MARGIN: &str = "         ";
/// A node that ends sooner than this is shown in one line, its end; a slower one gets a line for its start too.
const HOLD_BACK: Duration = Duration::from_millis(500);
/// Bookkeeping of the run that most readers do not need; `runs events` shows it.
const BOOKKEEPING: [&str; 2] = ["variable.changed", "version.pinned"];
/// Events after which other questions may be open than before.
const CHANGES_QUESTIONS: [&str; 6] = [
    // A branch, or a new holder, asks what was asked before.
    "run.resumed",
    "interrupt.requested",
    "interrupt.resolved",
    "approval.received",
    "clarification.resolved",
    "node.cancelled",
];

/// The audience of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Audience {
    /// For people: transitions, writes to channels, streamed text.
    People,
    /// Every event that the mode sends, as a line.
    Experts,
    /// Every event that the mode sends, as JSON.
    Machines,
}

/// Why watching stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    Completed,
    /// Failed or cancelled, with the code of what broke it, if something did.
    Broken(Option<String>),
    /// Ctrl-C; the run goes on without us.
    Left,
}

/// Shows the run until it ends or the watcher leaves. `definition` gives the nodes their names, `answers` says who
/// is asked when the run asks something.
pub(crate) async fn follow(
    client: &Client,
    run: &RunId,
    mode: &str,
    audience: Audience,
    definition: Option<&str>,
    answers: Answers,
) -> Result<Ending, CommandError> {
    // Registered before the first line is shown: a reader of it may already press Ctrl-C.
    let mut leave = signal(SignalKind::interrupt())
        .map_err(|error| CommandError::failed(format!("cannot listen for signals: {error}")))?;
    let mut stream = EventStream::open(client, run, mode).await?;
    let mut screen = Screen::new(audience, Timeline::of(definition));
    let mut answering = Answering::new(HostInbox::new(client, run), answers);
    loop {
        let is_drawing = answering.is_drawing();
        let heard = tokio::select! {
            heard = stream.next() => heard?,
            turn = answering.next() => {
                screen.take_turn(turn)?;
                continue;
            }
            // Losing the wait is fine: the next round of the loop begins a new one.
            () = tokio::time::sleep(HOLD_BACK), if !screen.held_back.is_empty() && !is_drawing => {
                screen.release()?;
                continue;
            }
            _ = leave.recv() => {
                screen.close()?;
                return Ok(Ending::Left);
            }
        };
        match heard {
            Heard::Frame(frame) => {
                if CHANGES_QUESTIONS.contains(&frame.event.as_str()) {
                    answering.look();
                }
                screen.show(frame)?;
            }
            Heard::Lost => screen.aside("the host is away; waiting for it to come back")?,
            Heard::Back => {
                answering.look();
                screen.aside("the host is back; nothing was missed")?;
            }
            Heard::End => break,
        }
    }
    screen.close()?;
    // A key that may watch a run may read it; a host that went away meanwhile has already sent the end.
    let read = client.run(run.as_str()).await.map(|(_, snapshot)| snapshot);
    if let Ok(run) = &read {
        screen.show_cost(run)?;
    }
    let (status, code) = match screen.ended {
        Some(status) => (status, screen.broken_by),
        None => {
            let run = read?;
            (run.status, run.error.map(|error| error.code))
        }
    };
    Ok(match status {
        RunStatus::Completed => Ending::Completed,
        _ => Ending::Broken(code),
    })
}

/// Prints events that were read at once.
pub(crate) fn show_all(
    events: &[RunEvent],
    audience: Audience,
    definition: Option<&str>,
) -> Result<(), CommandError> {
    let mut screen = Screen::new(audience, Timeline::of(definition));
    screen.is_live = false;
    for event in events {
        screen.show_event(event)?;
    }
    screen.close()
}

/// What is on the screen, and what may be drawn next.
#[derive(Debug)]
struct Screen {
    audience: Audience,
    timeline: Timeline,
    /// Whether a spinner may stand below the lines, where nothing else is being written.
    is_live: bool,
    spinner: Option<ProgressBar>,
    /// Starts that are not shown yet.
    held_back: Vec<(Option<NodeId>, String)>,
    /// The node whose text stands on the current, unfinished line.
    speaking: Option<NodeId>,
    /// What came while a form is on the terminal; as much as one run has to say while one person thinks.
    kept: Option<Vec<Frame>>,
    ended: Option<RunStatus>,
    /// The code of what ended the run.
    broken_by: Option<String>,
}

impl Screen {
    fn new(audience: Audience, timeline: Timeline) -> Self {
        let is_live = audience != Audience::Machines && output::is_watched();
        Self {
            audience,
            timeline,
            is_live,
            spinner: None,
            held_back: Vec::new(),
            speaking: None,
            kept: None,
            ended: None,
            broken_by: None,
        }
    }

    /// Shows a frame, or keeps it while a form is on the terminal.
    fn show(&mut self, frame: Frame) -> Result<(), CommandError> {
        match &mut self.kept {
            Some(kept) => kept.push(frame),
            None => self.show_frame(&frame)?,
        }
        Ok(())
    }

    fn take_turn(&mut self, turn: Turn) -> Result<(), CommandError> {
        match turn {
            Turn::Begins => {
                self.release()?;
                self.end_speech()?;
                self.hush();
                self.kept = Some(Vec::new());
            }
            Turn::Ends => self.show_kept()?,
            Turn::Refused(why) => {
                self.show_kept()?;
                self.aside(&why)?;
            }
            Turn::Unanswered(question) => {
                self.show_kept()?;
                self.aside(&format!("{} waits: {}", question.node_id, question.headline()))?;
                let hint = format!("{} answers it", question.how_to_answer());
                self.beside(|| output::hint(&hint))?;
            }
        }
        Ok(())
    }

    /// Shows the events that came while a form was on the terminal.
    fn show_kept(&mut self) -> Result<(), CommandError> {
        for frame in self.kept.take().unwrap_or_default() {
            self.show_frame(&frame)?;
        }
        Ok(())
    }

    fn show_frame(&mut self, frame: &Frame) -> Result<(), CommandError> {
        if self.audience == Audience::Machines {
            self.ended = end_of(&frame.event).or(self.ended);
            return output::json_line(&frame.json());
        }
        match (frame.run_event(), frame.event.as_str()) {
            (Some(event), _) => self.show_event(&event),
            (None, "ai.message.chunk") => match serde_json::from_value::<OutputChunk>(frame.json())
            {
                Ok(chunk) => self.speak(&chunk),
                Err(_) => Ok(()),
            },
            (None, "state.snapshot") => self.show_snapshot(&frame.json()),
            (None, other) => self.print(&format!(
                "{MARGIN}· {} {}",
                words::plain(other),
                words::preview(&frame.json())
            )),
        }
    }

    fn show_event(&mut self, event: &RunEvent) -> Result<(), CommandError> {
        self.ended = end_of(&event.kind).or(self.ended);
        if self.ended.is_some() {
            let code = event.payload.pointer("/error/code").and_then(Value::as_str);
            self.broken_by = code.map(ToOwned::to_owned);
            self.hush();
        }
        if self.audience == Audience::Machines {
            return output::json_line(event);
        }
        if let Event::OutputChunk(chunk) =
            Event::read(&event.kind, event.node_id.clone(), event.payload.clone())
        {
            return self.speak(&chunk);
        }
        let line = self.timeline.line(event);
        self.held_back.retain(|(node, _)| *node != event.node_id);
        match (line, event.kind.as_str()) {
            (None, _) => {}
            (Some(_), kind) if self.audience == Audience::People && BOOKKEEPING.contains(&kind) => {
            }
            // The spinner says what has started; a line for it would only double the line for its end.
            (Some(_), "node.started") if self.is_live => {}
            (Some(line), "node.started") if self.audience == Audience::People => {
                self.held_back.push((event.node_id.clone(), line));
            }
            // Whoever reads a log may want to fork from an event of it.
            (Some(line), _) if self.audience == Audience::Experts => {
                let number = format!("{:>4}", event.sequence);
                self.print(&format!("{} {line}", number.dimmed()))?;
            }
            (Some(line), _) => self.print(&line)?,
        }
        if let Some(outputs) =
            event.payload.get("outputs").filter(|_| event.kind == "run.completed")
        {
            self.show_outputs(outputs)?;
        }
        self.spin();
        Ok(())
    }

    fn show_outputs(&mut self, outputs: &Value) -> Result<(), CommandError> {
        if outputs.as_object().is_none_or(serde_json::Map::is_empty) {
            return Ok(());
        }
        let text = words::pretty(outputs);
        self.print(&format!("{MARGIN}{}", text.replace('\n', &format!("\n{MARGIN}"))))
    }

    /// The totals of the run, below its last line.
    fn show_cost(&mut self, run: &RunSnapshot) -> Result<(), CommandError> {
        let Some(metrics) = &run.metrics else { return Ok(()) };
        if self.audience == Audience::Machines {
            return Ok(());
        }
        let beside =
            if run.child_runs.is_empty() { "" } else { ", beside the runs that it started" };
        let cost = words::cost(&metrics.openwop_cost);
        self.print(&format!("{MARGIN}{} {cost}{beside}", "cost".bold()))
    }

    fn show_snapshot(&mut self, snapshot: &Value) -> Result<(), CommandError> {
        let status = snapshot.get("status").and_then(Value::as_str).unwrap_or_default();
        self.ended =
            RunStatus::from_name(status).filter(|status| status.is_terminal()).or(self.ended);
        let variables = snapshot.get("variables").cloned().unwrap_or_default();
        let status = words::plain(status);
        self.print(&format!("{MARGIN}· {status:<22} {}", words::preview(&variables)))
    }

    /// Text as it arrives, on a line that stays open until another event is shown.
    fn speak(&mut self, chunk: &OutputChunk) -> Result<(), CommandError> {
        let bar = "│".blue().to_string();
        self.held_back.retain(|(node, _)| node.as_ref() != Some(&chunk.node_id));
        if self.speaking.as_ref() != Some(&chunk.node_id) {
            let name = words::plain(&self.timeline.name(&chunk.node_id));
            self.print(&format!("{MARGIN}{} {}", "❯".blue().bold(), name.bold()))?;
            self.hush();
            output::text(&format!("{MARGIN}{bar} "))?;
            self.speaking = Some(chunk.node_id.clone());
        }
        output::text(&words::plain(&chunk.chunk).replace('\n', &format!("\n{MARGIN}{bar} ")))?;
        if !chunk.is_last {
            return Ok(());
        }
        self.end_speech()?;
        self.spin();
        Ok(())
    }

    fn end_speech(&mut self) -> Result<(), CommandError> {
        if self.speaking.take().is_some() {
            output::line("")?;
        }
        Ok(())
    }

    /// Shows the starts that turned out to be worth a line.
    fn release(&mut self) -> Result<(), CommandError> {
        for (_, line) in std::mem::take(&mut self.held_back) {
            self.print(&line)?;
        }
        Ok(())
    }

    fn print(&mut self, line: &str) -> Result<(), CommandError> {
        self.end_speech()?;
        match &self.spinner {
            Some(spinner) => spinner.suspend(|| output::line(line)),
            None => output::line(line),
        }
    }

    /// A word about the connection, beside the events.
    fn aside(&mut self, text: &str) -> Result<(), CommandError> {
        let text = words::plain(text).yellow().to_string();
        self.beside(|| output::note(&text))
    }

    fn beside(&mut self, say: impl FnOnce()) -> Result<(), CommandError> {
        self.end_speech()?;
        match &self.spinner {
            Some(spinner) => spinner.suspend(say),
            None => say(),
        }
        Ok(())
    }

    /// Lets the spinner say what is going on.
    fn spin(&mut self) {
        if self.is_live && self.speaking.is_none() && self.ended.is_none() {
            self.spinner
                .get_or_insert_with(|| progress::below(MARGIN))
                .set_message(self.timeline.now());
        }
    }

    fn hush(&mut self) {
        if let Some(spinner) = self.spinner.take() {
            spinner.finish_and_clear();
        }
    }

    fn close(&mut self) -> Result<(), CommandError> {
        if self.kept.is_some() {
            // The run went on without the person who was being asked.
            prompt::tidy_up();
            self.show_kept()?;
        }
        self.hush();
        self.end_speech()
    }
}

fn end_of(kind: &str) -> Option<RunStatus> {
    kind.strip_prefix("run.").and_then(RunStatus::from_name).filter(|status| status.is_terminal())
}
