//! Answering what a watched run asks, beside its stream: a person at the terminal, or the lines of standard input.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufRead, IsTerminal};
use std::pin::Pin;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use callboard_protocol::RunId;

use crate::client::Client;
use crate::exit::{CommandError, Exit};
use crate::prompt;
use crate::question::Question;

/// Lines read ahead. Nobody waits for a second answer before the first was sent.
const LINES_AHEAD: usize = 1;

/// Who answers.
#[derive(Debug)]
pub(crate) enum Answers {
    /// Nobody here, and nobody here needs to know.
    Elsewhere,
    /// Nobody here, who is therefore told how it is done.
    Unattended,
    /// The person who watches.
    Person,
    /// Whatever is piped in, one line for each question. Nothing is read before something is asked.
    Lines(Option<Lines>),
}

pub(crate) type Lines = mpsc::Receiver<String>;

impl Answers {
    /// For a command whose input may be a terminal or a pipe.
    pub(crate) fn of_this_process() -> Self {
        if prompt::is_possible() {
            Self::Person
        } else if io::stdin().is_terminal() {
            Self::Unattended
        } else {
            Self::Lines(None)
        }
    }
}

/// A thread of its own, since a read from standard input cannot be given up. It ends with the input or the process.
pub(crate) fn read_lines() -> Lines {
    let (sender, lines) = mpsc::channel(LINES_AHEAD);
    std::thread::spawn(move || {
        let all = io::stdin().lock().lines().map_while(Result::ok);
        for line in all.filter(|line| !line.trim().is_empty()) {
            if sender.blocking_send(line).is_err() {
                break;
            }
        }
    });
    lines
}

/// What a watcher should know next.
#[derive(Debug)]
pub(crate) enum Turn {
    /// A form is about to be drawn on the terminal.
    Begins,
    /// The form is done.
    Ends,
    /// An answer was not taken; the question stands.
    Refused(String),
    /// Nobody here answers this one.
    Unanswered(Question),
}

type Request<T> = Pin<Box<dyn Future<Output = Result<T, CommandError>>>>;

/// Asks and answers for one run.
pub(crate) struct Answering {
    client: Client,
    run: RunId,
    answers: Answers,
    stage: Stage,
    /// Something was asked or settled while something else was under way.
    look_again: bool,
    /// Questions that nobody here answers.
    aside: BTreeSet<String>,
}

enum Stage {
    Idle,
    Looking(Request<Vec<Question>>),
    /// A person is about to be asked.
    Ready(Question),
    /// A person is being asked.
    Asking(Question, JoinHandle<io::Result<Option<Value>>>),
    /// The next line is the answer.
    Waiting(Question),
    Sending(Request<Value>),
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").field("run", &self.run).finish_non_exhaustive()
    }
}

impl Answering {
    pub(crate) fn new(client: &Client, run: &RunId, answers: Answers) -> Self {
        Self {
            client: client.clone(),
            run: run.clone(),
            answers,
            stage: Stage::Idle,
            look_again: false,
            aside: BTreeSet::new(),
        }
    }

    /// Whether a form is on the terminal, so that nothing else should be drawn there.
    pub(crate) fn is_drawing(&self) -> bool {
        matches!(self.stage, Stage::Asking(..))
    }

    /// Something was asked or settled: what is open now?
    pub(crate) fn look(&mut self) {
        if matches!(self.answers, Answers::Elsewhere) {
            return;
        }
        match self.stage {
            Stage::Idle | Stage::Waiting(_) => {
                let (client, run) = (self.client.clone(), self.run.clone());
                self.stage =
                    Stage::Looking(Box::pin(async move { client.questions(run.as_str()).await }));
            }
            Stage::Looking(_) | Stage::Ready(_) | Stage::Asking(..) | Stage::Sending(_) => {
                self.look_again = true;
            }
        }
    }

    /// Goes on until something is worth saying. Cancel-safe: whatever is under way is kept.
    pub(crate) async fn next(&mut self) -> Turn {
        loop {
            match &mut self.stage {
                Stage::Idle => std::future::pending().await,
                Stage::Looking(request) => {
                    let open = request.await;
                    if let Some(turn) = self.choose(open) {
                        return turn;
                    }
                }
                Stage::Ready(question) => {
                    let (question, asked) = (question.clone(), question.clone());
                    let form = tokio::task::spawn_blocking(move || prompt::ask(&asked));
                    self.stage = Stage::Asking(question, form);
                }
                Stage::Asking(question, form) => {
                    let told = form.await;
                    let question = question.clone();
                    match told {
                        Ok(Ok(Some(value))) => self.send(&question, value),
                        // Put off, or the form could not be drawn.
                        Ok(Ok(None) | Err(_)) | Err(_) => return self.put_aside(question),
                    }
                    return Turn::Ends;
                }
                Stage::Waiting(question) => {
                    let question = question.clone();
                    if let Some(turn) = self.take_line(question).await {
                        return turn;
                    }
                }
                Stage::Sending(request) => {
                    let sent = request.await;
                    self.rest();
                    self.look();
                    if let Err(error) = sent {
                        return Turn::Refused(error.what);
                    }
                }
            }
        }
    }

    /// Turns to the first open question that was not put aside.
    fn choose(&mut self, open: Result<Vec<Question>, CommandError>) -> Option<Turn> {
        self.rest();
        let open = match open {
            Ok(open) => open,
            Err(error) if error.exit == Exit::Refused => {
                // A key that may not answer may still watch.
                self.answers = Answers::Elsewhere;
                return Some(Turn::Refused(error.what));
            }
            // The stream says when the host is back.
            Err(_) => return None,
        };
        let question = open.into_iter().find(|asked| !self.aside.contains(&asked.interrupt_id))?;
        match self.answers {
            Answers::Elsewhere => None,
            Answers::Unattended => Some(self.put_aside(question)),
            Answers::Person => {
                self.stage = Stage::Ready(question);
                Some(Turn::Begins)
            }
            Answers::Lines(_) => {
                self.stage = Stage::Waiting(question);
                None
            }
        }
    }

    /// Cancel-safe: a line that nobody took is kept.
    async fn take_line(&mut self, question: Question) -> Option<Turn> {
        let Answers::Lines(lines) = &mut self.answers else { return None };
        let Some(line) = lines.get_or_insert_with(read_lines).recv().await else {
            return Some(self.put_aside(question));
        };
        match question.read(&line) {
            Ok(value) => {
                self.send(&question, value);
                None
            }
            // The next line may fit.
            Err(why) => Some(Turn::Refused(why)),
        }
    }

    fn send(&mut self, question: &Question, value: Value) {
        let (client, run, node) = (self.client.clone(), self.run.clone(), question.node_id.clone());
        self.stage = Stage::Sending(Box::pin(async move {
            client.answer(run.as_str(), node.as_str(), &value).await
        }));
    }

    fn put_aside(&mut self, question: Question) -> Turn {
        self.aside.insert(question.interrupt_id.clone());
        self.rest();
        self.look();
        Turn::Unanswered(question)
    }

    fn rest(&mut self) {
        self.stage = Stage::Idle;
        if std::mem::take(&mut self.look_again) {
            self.look();
        }
    }
}
