//! One call of a tool: starts a run, tells how it goes, asks whoever sits at the client, and gives its result or a handle.

use std::collections::BTreeSet;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ElicitRequest, ElicitRequestParams,
    ElicitationAction, ElicitationSchema, InputRequest, InputRequests, InputRequiredResult,
    InputResponses, JsonObject, ProgressNotificationParam, ProtocolVersion,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::Value;
use tokio::time::Instant;

use super::handles::Handles;
use super::{fault, result, tools};
use crate::api::ApiError;
use crate::caller::{Caller, text};
use crate::offer;
use crate::question::Question;
use crate::run::{Follow, Standing, line};

/// How long a call waits for its run. Clients give up after a minute unless they are told otherwise.
const PATIENCE: Duration = Duration::from_secs(45);
/// Between two questions to a host that does not answer.
const PAUSE: Duration = Duration::from_secs(1);
/// How long a person at the client is waited for; then the question stays open and the call says where.
const ELICITATION: Duration = Duration::from_secs(240);
/// The longest id of a run that is looked for.
const LONGEST_RUN: usize = 128;

/// The name under which a client that does not want to spend an argument on it names a call.
const META_KEY: &str = "callboard/key";

pub(super) struct Visit<'v> {
    pub(super) caller: &'v Caller,
    pub(super) context: &'v RequestContext<RoleServer>,
    pub(super) handles: &'v Handles,
}

/// What came of asking.
enum Asked {
    Answered,
    /// The call ends with the question.
    Over(Box<CallToolResponse>),
}

impl Visit<'_> {
    pub(super) async fn call(
        &self,
        request: CallToolRequestParams,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut arguments = request.arguments.unwrap_or_default();
        let mut asked = BTreeSet::new();
        let name = request.name.into_owned();
        let run = match (name.as_str(), request.request_state) {
            (tools::CANCEL, _) => return self.cancel(&arguments).await,
            (_, Some(run)) => {
                let run = run_id(&run)?;
                self.respond(&run, request.input_responses.unwrap_or_default(), &mut asked).await?;
                run
            }
            (tools::WAIT, None) => run_id(text_of(&arguments, "run"))?,
            (tools::ANSWER, None) => match self.answer(&mut arguments).await? {
                Ok(run) => run,
                Err(refused) => return Ok(refused.into()),
            },
            (name, None) => match self.start(name, arguments).await? {
                Ok(run) => run,
                Err(refused) => return Ok(refused.into()),
            },
        };
        // Whoever gives up waiting for a run that was there before leaves it alone.
        let is_own = ![tools::WAIT, tools::ANSWER].contains(&name.as_str());
        if is_own && self.handles.runs(&self.context.id, self.caller, &run) {
            // Cancelled while it was being started.
            self.caller.cancel(&run).await.map_err(fault)?;
        }
        self.wait(run, asked).await
    }

    /// Inner: what the host refused about the arguments, which the model can mend.
    async fn start(
        &self,
        name: &str,
        mut arguments: JsonObject,
    ) -> Result<Result<String, CallToolResult>, ErrorData> {
        let named =
            arguments.remove(tools::KEY).or_else(|| self.context.meta.0.0.get(META_KEY).cloned());
        let key = match named {
            None => None,
            Some(Value::String(key)) if (1..=200).contains(&key.len()) => Some(key),
            Some(_) => return Err(invalid("callboard_key must be a text of 1 to 200 bytes")),
        };
        let offers = offer::list(self.caller).await.map_err(fault)?;
        let unknown = || invalid(format!("no tool is called {:?}", crate::run::cut(name, 80)));
        let offer = offers.get(name).ok_or_else(unknown)?;
        let order = offer.order(&Value::Object(arguments));
        mendable(self.caller.start(order, key).await)
    }

    async fn answer(
        &self,
        arguments: &mut JsonObject,
    ) -> Result<Result<String, CallToolResult>, ErrorData> {
        let run = run_id(text_of(arguments, "run"))?;
        let node = text_of(arguments, "node").to_owned();
        let open = self.open(&run).await.map_err(fault)?;
        let question = open.iter().find(|question| question.node == node);
        let question = question.ok_or_else(|| invalid("the run asks nothing at this step"))?;
        if question.is_for_people() {
            return Ok(Err(result::for_people(self.caller, &run, question)));
        }
        let answer = arguments.remove("answer").unwrap_or_default();
        mendable(self.caller.answer(&run, &node, answer).await.map(|_| run))
    }

    async fn cancel(&self, arguments: &JsonObject) -> Result<CallToolResponse, ErrorData> {
        let run = run_id(text_of(arguments, "run"))?;
        let cancelled = mendable(self.caller.cancel(&run).await)?;
        Ok(cancelled.map_or_else(Into::into, |_| result::cancelled(self.caller, &run).into()))
    }

    async fn open(&self, run: &str) -> Result<Vec<Question>, ApiError> {
        let open = self.caller.questions(run).await?;
        Ok(open.into_iter().filter_map(Question::read).collect())
    }

    async fn wait(
        &self,
        run: String,
        mut asked: BTreeSet<String>,
    ) -> Result<CallToolResponse, ErrorData> {
        let mut deadline = Instant::now() + PATIENCE;
        let mut follow = Follow::new(self.caller.clone(), run);
        let mut news = 0_u32;
        let response = loop {
            // Losing a poll is fine: the log is read again by whoever asks next.
            let (events, standing) = tokio::select! {
                next = follow.next(deadline) => match next {
                    // A host that restarts goes on with the run, and so does whoever waits for it.
                    Err(error) if error.may_pass() && Instant::now() < deadline => {
                        tokio::time::sleep(PAUSE).await;
                        continue;
                    }
                    next => next.map_err(fault)?,
                },
                () = self.context.ct.cancelled() => {
                    // Whoever cancelled the call looks its run up; whoever went away may come back for it.
                    return Ok(result::goes_on(self.caller, &follow.run).into());
                }
            };
            for message in events.iter().filter_map(line) {
                news += 1;
                self.tell(news, message).await;
            }
            match standing {
                Standing::Ended(end) => break result::ended(self.caller, &follow.run, &end).into(),
                Standing::Asks(open) => match self.ask(&follow.run, &open, &mut asked).await? {
                    Asked::Answered => deadline = Instant::now() + PATIENCE,
                    Asked::Over(response) => break *response,
                },
                Standing::Goes if Instant::now() >= deadline => {
                    break result::goes_on(self.caller, &follow.run).into();
                }
                Standing::Goes | Standing::Behind => {}
            }
        };
        self.handles.forget(&self.context.id);
        Ok(response)
    }

    /// A client that does not listen any more is told nothing.
    async fn tell(&self, news: u32, message: String) {
        let Some(token) = self.context.meta.get_progress_token() else { return };
        let progress = ProgressNotificationParam::new(token, f64::from(news)).with_message(message);
        if let Err(error) = self.context.peer.notify_progress(progress).await {
            tracing::debug!(%error, "progress not told");
        }
    }

    /// Asks the person at the client, if it can be asked there.
    async fn ask(
        &self,
        run: &str,
        open: &[Question],
        asked: &mut BTreeSet<String>,
    ) -> Result<Asked, ErrorData> {
        let over = |response: CallToolResponse| Ok(Asked::Over(Box::new(response)));
        let there = || over(result::asks(self.caller, run, open).into());
        let may_ask = |question: &&Question| question.may_decide && !asked.contains(&question.id);
        let found =
            open.iter().filter(may_ask).find_map(|question| Some((question, form(question)?)));
        let Some((question, form)) = found.filter(|_| self.can_ask()) else { return there() };
        asked.insert(question.id.clone());
        if self.is_modern() {
            let request = InputRequest::Elicitation(ElicitRequest::new(form));
            let requests = InputRequests::from([(question.id.clone(), request)]);
            return over(InputRequiredResult::new(Some(requests), Some(run.to_owned())).into());
        }
        let peer = &self.context.peer;
        let told = peer.create_elicitation_with_timeout(form, Some(ELICITATION)).await;
        match told {
            Ok(told) if told.action == ElicitationAction::Accept => {
                let filled = told.content.unwrap_or_default();
                match mendable(self.resolve(run, question, filled).await)? {
                    Ok(()) => Ok(Asked::Answered),
                    Err(refused) => over(refused.into()),
                }
            }
            Ok(_) => there(),
            Err(error) => {
                tracing::debug!(%error, "a question was not answered at the client");
                there()
            }
        }
    }

    /// The answers that a client brings to the questions that its last call ended with.
    async fn respond(
        &self,
        run: &str,
        responses: InputResponses,
        asked: &mut BTreeSet<String>,
    ) -> Result<(), ErrorData> {
        let open = self.open(run).await.map_err(fault)?;
        for (id, mut response) in responses {
            let question = open.iter().find(|question| question.id == id);
            if let (Some(question), "accept") = (question, text(&response, "action")) {
                let filled = response["content"].take();
                self.resolve(run, question, filled).await.map_err(fault)?;
            }
            // Whether it was answered, declined or not enough: it is not asked in this call again.
            asked.insert(id);
        }
        Ok(())
    }

    async fn resolve(&self, run: &str, question: &Question, filled: Value) -> Result<(), ApiError> {
        self.caller.answer(run, &question.node, question.answer(filled)).await.map(drop)
    }

    fn can_ask(&self) -> bool {
        let capability = self.context.client_capabilities().and_then(|all| all.elicitation);
        // A client that says no more than that it can be asked can be asked with a form.
        capability.is_some_and(|it| it.form.is_some() || it.url.is_none())
    }

    /// Whether questions are part of a result, because the server may ask nothing by itself.
    fn is_modern(&self) -> bool {
        let version = self.context.protocol_version();
        version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
    }
}

/// What a client is asked. The words of the run are told apart from ours.
fn form(question: &Question) -> Option<ElicitRequestParams> {
    let schema: ElicitationSchema = serde_json::from_value(question.form()?).ok()?;
    let message = format!("A run asks (its own words): {}", question.headline());
    Some(ElicitRequestParams::FormElicitationParams {
        meta: None,
        message,
        requested_schema: schema,
    })
}

/// What is wrong with a request is the model's to mend; all else is an error.
fn mendable<T>(answer: Result<T, ApiError>) -> Result<Result<T, CallToolResult>, ErrorData> {
    match answer {
        Ok(value) => Ok(Ok(value)),
        Err(ApiError::Refused(refused)) if refused.status.is_client_error() => {
            Ok(Err(result::refused(&refused)))
        }
        Err(error) => Err(fault(error)),
    }
}

fn text_of<'a>(arguments: &'a JsonObject, name: &str) -> &'a str {
    arguments.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn run_id(text: &str) -> Result<String, ErrorData> {
    let fits = (1..=LONGEST_RUN).contains(&text.len());
    fits.then(|| text.to_owned()).ok_or_else(|| invalid("run must be the id of a run"))
}

fn invalid(message: impl Into<String>) -> ErrorData {
    ErrorData::invalid_params(message.into(), None)
}
