//! Answering what a watched run asks, beside its stream: a person at the terminal, or the lines of standard input.

use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufRead, IsTerminal};
use std::pin::Pin;
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Sleep;

use callboard_protocol::RunId;

use crate::client::Client;
use crate::exit::CommandError;
use crate::watch::prompt;
use crate::watch::question::Question;

/// Lines read ahead. Nobody waits for a second answer before the first was sent.
const LINES_AHEAD: usize = 1;
/// A busy host answers so for about a second.
const PAUSE: Duration = Duration::from_secs(1);

/// Who answers.
#[derive(Debug)]
pub(crate) enum Answers {
    /// Questions are not shown.
    Elsewhere,
    /// Questions are shown with the command that answers them.
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
    /// A request was not taken; the question stands.
    Refused(String),
    /// Nobody here answers this one.
    Unanswered(Question),
}

pub(crate) type Request<T> = Pin<Box<dyn Future<Output = Result<T, CommandError>>>>;

/// Where the questions of one run are found, and its answers are left.
pub(crate) trait Inbox {
    fn questions(&self) -> Request<Vec<Question>>;
    fn answer(&self, question: &Question, value: Value) -> Request<Value>;
}

/// The inbox of a host.
#[derive(Debug)]
pub(crate) struct HostInbox {
    client: Client,
    run: RunId,
}

impl HostInbox {
    pub(crate) fn new(client: &Client, run: &RunId) -> Self {
        Self { client: client.clone(), run: run.clone() }
    }
}

impl Inbox for HostInbox {
    fn questions(&self) -> Request<Vec<Question>> {
        let (client, run) = (self.client.clone(), self.run.clone());
        Box::pin(async move { client.questions(run.as_str()).await })
    }

    fn answer(&self, question: &Question, value: Value) -> Request<Value> {
        let (client, run, node) = (self.client.clone(), self.run.clone(), question.node_id.clone());
        Box::pin(async move { client.answer(run.as_str(), node.as_str(), &value).await })
    }
}

/// Asks and answers for one run.
pub(crate) struct Answering<I> {
    inbox: I,
    answers: Answers,
    stage: Stage,
    pause: Duration,
    /// Something was asked or settled while something else was under way.
    look_again: bool,
    /// Questions that are not answered here.
    aside: BTreeSet<String>,
    /// An answer that the host was too busy to take. It is sent again if the same question is still open, since a
    /// node may ask the next one.
    unsent: Option<(String, Value)>,
    /// Whether the watcher knows that the host is busy.
    is_busy: bool,
}

enum Stage {
    Idle,
    Looking(Request<Vec<Question>>),
    /// The host was busy.
    Pausing(Pin<Box<Sleep>>),
    /// A person is about to be asked.
    Ready(Question),
    /// A person is being asked.
    Asking(Question, JoinHandle<io::Result<Option<Value>>>),
    /// The next line is the answer.
    Waiting(Question),
    Sending(Question, Value, Request<Value>),
}

impl<I> fmt::Debug for Answering<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Answering").field("answers", &self.answers).finish_non_exhaustive()
    }
}

impl<I: Inbox> Answering<I> {
    pub(crate) fn new(inbox: I, answers: Answers) -> Self {
        Self {
            inbox,
            answers,
            stage: Stage::Idle,
            pause: PAUSE,
            look_again: false,
            aside: BTreeSet::new(),
            unsent: None,
            is_busy: false,
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
                self.stage = Stage::Looking(self.inbox.questions());
            }
            // Looks at its end.
            Stage::Pausing(_) => {}
            Stage::Looking(_) | Stage::Ready(_) | Stage::Asking(..) | Stage::Sending(..) => {
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
                Stage::Pausing(pause) => {
                    pause.await;
                    self.rest();
                    self.look();
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
                        Ok(Ok(Some(value))) => self.send(question, value),
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
                Stage::Sending(question, value, request) => {
                    let sent = request.await;
                    let kept = (question.interrupt_id.clone(), std::mem::take(value));
                    self.rest();
                    match sent {
                        Err(error) if error.is_passing() => {
                            self.unsent = Some(kept);
                            if let Some(turn) = self.come_back(error) {
                                return turn;
                            }
                        }
                        Err(error) => {
                            self.look();
                            return Turn::Refused(error.what);
                        }
                        Ok(_) => {
                            self.is_busy = false;
                            self.look();
                        }
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
            Err(error) if error.is_passing() => return self.come_back(error),
            Err(error) => {
                // A key that may not answer may still watch.
                self.answers = Answers::Elsewhere;
                return Some(Turn::Refused(error.what));
            }
        };
        let unsent = self.unsent.take();
        self.is_busy &= unsent.is_some();
        let question = open.into_iter().find(|asked| !self.aside.contains(&asked.interrupt_id))?;
        if let Some((_, value)) = unsent.filter(|(asked, _)| *asked == question.interrupt_id) {
            self.send(question, value);
            return None;
        }
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

    /// Cancel-safe: a line that was not taken is kept.
    async fn take_line(&mut self, question: Question) -> Option<Turn> {
        let Answers::Lines(lines) = &mut self.answers else { return None };
        let Some(line) = lines.get_or_insert_with(read_lines).recv().await else {
            return Some(self.put_aside(question));
        };
        match question.read(&line) {
            Ok(value) => {
                self.send(question, value);
                None
            }
            // The next line may fit.
            Err(why) => Some(Turn::Refused(why)),
        }
    }

    fn send(&mut self, question: Question, value: Value) {
        let request = self.inbox.answer(&question, value.clone());
        self.stage = Stage::Sending(question, value, request);
    }

    /// Looks again in a while, since the stream of a host that is only busy goes on as if nothing had happened. One
    /// word about it is enough.
    fn come_back(&mut self, error: CommandError) -> Option<Turn> {
        self.stage = Stage::Pausing(Box::pin(tokio::time::sleep(self.pause)));
        let is_new = !std::mem::replace(&mut self.is_busy, true);
        is_new.then_some(Turn::Refused(error.what))
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    use serde_json::json;

    use super::*;
    use crate::exit::Exit;

    type Said<T> = Rc<RefCell<VecDeque<Result<T, CommandError>>>>;

    /// What a host says next to each request; it asks nothing once that is used up.
    #[derive(Default, Clone)]
    struct Script {
        looks: Said<Vec<Question>>,
        sends: Said<Value>,
        answered: Rc<RefCell<Vec<(String, Value)>>>,
    }

    impl Inbox for Script {
        fn questions(&self) -> Request<Vec<Question>> {
            let next = self.looks.borrow_mut().pop_front().unwrap_or(Ok(Vec::new()));
            Box::pin(async { next })
        }

        fn answer(&self, question: &Question, value: Value) -> Request<Value> {
            self.answered.borrow_mut().push((question.interrupt_id.clone(), value));
            let next = self.sends.borrow_mut().pop_front().unwrap_or(Ok(Value::Null));
            Box::pin(async { next })
        }
    }

    fn question(id: &str) -> Question {
        serde_json::from_value(json!({
            "runId": "run_1", "workflowId": "release", "nodeId": "gate", "interruptId": id,
            "kind": "approval", "data": { "actions": ["accept", "reject"] },
            "requestedAt": "2026-01-31T08:00:00Z",
        }))
        .unwrap()
    }

    fn busy() -> CommandError {
        let code = Some("rate_limited".to_owned());
        CommandError { code, ..CommandError::failed("slower") }
    }

    /// Answers with the lines until the host asks nothing more or nobody is left to answer.
    async fn answer(script: &Script, lines: &[&str]) -> (Vec<String>, Vec<(String, Value)>) {
        let (sender, piped) = mpsc::channel(lines.len().max(1));
        for line in lines {
            sender.send((*line).to_owned()).await.unwrap();
        }
        drop(sender);
        let inbox = script.clone();
        let answers = Answers::Lines(Some(piped));
        let mut answering = Answering { pause: Duration::ZERO, ..Answering::new(inbox, answers) };
        answering.look();
        let mut told = Vec::new();
        while !matches!(answering.stage, Stage::Idle) {
            tokio::select! {
                biased;
                turn = answering.next() => match turn {
                    Turn::Refused(why) => told.push(why),
                    Turn::Unanswered(question) => told.push(format!("{} waits", question.node_id)),
                    Turn::Begins | Turn::Ends => {}
                },
                // The driver of timers gets its turn; a machine at rest is seen in the condition above.
                () = tokio::task::yield_now() => {}
            }
        }
        (told, script.answered.take())
    }

    #[tokio::test]
    async fn a_busy_host_is_asked_again_for_its_questions() {
        let script = Script::default();
        script.looks.borrow_mut().extend([Err(busy()), Err(busy()), Ok(vec![question("a")])]);
        let (told, answered) = answer(&script, &["accept"]).await;
        assert_eq!(told, ["slower"], "once is enough");
        assert_eq!(answered, [("a".to_owned(), json!({ "action": "accept" }))]);
    }

    #[tokio::test]
    async fn an_answer_that_a_busy_host_did_not_take_is_sent_again() {
        let script = Script::default();
        script.looks.borrow_mut().extend([Ok(vec![question("a")]), Ok(vec![question("a")])]);
        script.sends.borrow_mut().push_back(Err(busy()));
        let (told, answered) = answer(&script, &["accept"]).await;
        let accepted = ("a".to_owned(), json!({ "action": "accept" }));
        assert_eq!((told, answered), (vec!["slower".to_owned()], vec![accepted.clone(), accepted]));
    }

    #[tokio::test]
    async fn an_answer_is_never_given_to_the_next_question() {
        let script = Script::default();
        script.looks.borrow_mut().extend([Ok(vec![question("a")]), Ok(vec![question("b")])]);
        script.sends.borrow_mut().push_back(Err(busy()));
        let (_, answered) = answer(&script, &["accept", "reject"]).await;
        let second = ("b".to_owned(), json!({ "action": "reject" }));
        assert_eq!(answered.last(), Some(&second));
        assert_eq!(answered.len(), 2);
    }

    #[tokio::test]
    async fn who_may_not_answer_is_told_once() {
        let script = Script::default();
        let refused = CommandError::new(Exit::Refused, "not with this key");
        script.looks.borrow_mut().push_back(Err(refused));
        assert_eq!(answer(&script, &["accept"]).await.0, ["not with this key"]);
    }
}
