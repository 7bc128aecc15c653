//! Live dispatch (RFC 0077): an agent of a pack works on a task with a model and tools.
//!
//! The steps run in the order of the protocol: the task is checked, a model is chosen, the prompt and the tools are put
//! together, the model is asked and its tools are called until it answers, the answer is checked, doubt is escalated,
//! the bracket is closed. Every outward call is made once: an attempt that starts afresh walks through the recorded
//! ones and records nothing twice.

mod coding;
mod contract;
mod conversation;
mod converse;
mod kept;
mod memory;
mod permission;
mod settings;
mod tools;
mod watch;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_core::{
    AgentFact, AgentPin, Confidence, Invoked, Outcome, Question, RetryClass, escalation_threshold,
    falls_short,
};
use callboard_engine::{Activity, Call, OnceError, PastTask, Realm, Scope};
use callboard_protocol::{
    Failure, InterruptKind, InvocationOutcome, ModelClass, Object, SecretName,
};

use crate::ask::{Asker, End, Exchange, Repairs};
use crate::coding::{Admitted, CODING_PROVIDER, CodingAgents, CodingError};
use crate::inventory::{AgentRegistry, InstalledAgent};
use crate::memory::{AgentMemory, bind};
use crate::model::{
    CallOptions, Message, Model, ModelRequest, ModelTable, PriceTable, RequestBasis, ResolvedModel,
};
use crate::prompt::PromptResolver;
use crate::setup::Setup;
use crate::tool::{Grants, ToolHooks, ToolSurface, Toolbox, declared_tools, untrusted};

use contract::Contract;
use conversation::Conversation;

pub use contract::Contracts;
pub use settings::LiveSettings;

/// Performs nodes that an agent is pinned to.
#[derive(Debug)]
pub struct LiveAgents {
    pub registry: Arc<AgentRegistry>,
    pub models: Arc<dyn Model>,
    pub coders: Arc<dyn CodingAgents>,
    pub table: ModelTable,
    pub prices: PriceTable,
    pub toolbox: Arc<dyn Toolbox>,
    pub hooks: Arc<ToolHooks>,
    pub grants: Arc<dyn Grants>,
    pub prompt_resolver: PromptResolver,
    pub settings: LiveSettings,
    pub contracts: Contracts,
}

/// The result of an invocation.
#[derive(Debug)]
struct Answer {
    result: Value,
    confidence: Option<Confidence>,
    schema_validated: Option<bool>,
}

/// One attempt at an invocation, with all that its steps share.
struct Work<'a> {
    host: &'a LiveAgents,
    call: &'a Call,
    agent: &'a InstalledAgent,
    contract: Arc<Contract>,
    asker: Asker<'a>,
    /// What an earlier attempt recorded, if there was one.
    setup: Option<Setup>,
    surface: ToolSurface,
    /// What a coding agent may use, where one does the work.
    coder: Option<Result<Admitted, CodingError>>,
    /// What the agent remembers from run to run, if its manifest asks for that.
    memory: Option<AgentMemory>,
    /// What the agent and the run said to each other before, if its manifest asks for that.
    conversation: Option<Conversation>,
    /// What the suite wants in place of the model's answer.
    forced: Option<Value>,
}

#[async_trait]
impl Activity for LiveAgents {
    async fn perform(&self, call: Call) -> Outcome {
        let Some(pin) = &call.agent else {
            return failed(Failure::new("internal_error", "no agent is pinned to this node"));
        };
        let Some(agent) = self.find(&call.scope().realm(), pin) else {
            let message = format!("agent {} {} is not installed", pin.agent_id, pin.version);
            return failed(Failure::new("agent_not_installed", message));
        };
        match self.invoke(&call, pin, &agent).await {
            Ok(outcome) => outcome,
            // Nobody listens to an attempt that no longer counts.
            Err(OnceError::Superseded) => Outcome::Done { outputs: Object::new() },
            Err(OnceError::Ended(outcome)) => outcome,
        }
    }

    async fn prompts(&self, past: PastTask<'_>) -> Option<Vec<AgentFact>> {
        let agent = self.find(&Scope::of(past.birth).realm(), past.task.agent.as_ref()?)?;
        self.prompt_resolver.rehearse(past, Some(&agent)).await
    }
}

impl LiveAgents {
    fn asker<'a>(&'a self, call: &'a Call, model_class: ModelClass) -> Asker<'a> {
        Asker {
            model_class,
            is_streamed: true,
            retry_pause: self.settings.retry_pause,
            // The invocation has ended then, and a retry starts another.
            trouble_is: RetryClass::Final,
            ..Asker::new(call, &*self.models, &self.prices)
        }
    }

    fn find(&self, realm: &Realm, pin: &AgentPin) -> Option<InstalledAgent> {
        self.registry.snapshot().find_kept(realm, pin).cloned()
    }

    async fn invoke(
        &self,
        call: &Call,
        pin: &AgentPin,
        agent: &InstalledAgent,
    ) -> Result<Outcome, OnceError> {
        let read = (self.settings.read_task)(&pin.agent_id, &call.inputs);
        let class = agent.agent.manifest.model_class;
        let model = self.table.resolve(class, &call.configurable);
        let model = model.map(|resolved| kept::keeping(resolved, class, &call.models));
        let declared = declared_tools(&call.config);
        let allowed = allowed(agent.agent.tools(), declared.as_ref().ok().and_then(Option::as_ref));
        let coder = model.as_ref().ok().filter(|it| it.model.provider == CODING_PROVIDER);
        let coder = coder.map(|it| self.coders.admit(&it.model.model, &allowed));
        let setup = Setup::recorded(call).await?;
        let surface = match &coder {
            // It has tools of its own and none of ours.
            Some(_) => ToolSurface::default(),
            None => match &setup {
                Some(setup) => setup.surface(&*self.toolbox, &call.scope()).await?,
                None => ToolSurface::assemble(&*self.toolbox, &call.scope(), &allowed).await,
            },
        };
        let tools = tool_count(coder.as_ref(), &surface);
        let mut work = Work {
            host: self,
            call,
            agent,
            contract: self.contracts.of(pin, agent.agent.result.as_ref()),
            asker: self.asker(call, class),
            setup,
            surface,
            coder,
            memory: bind(call, &agent.agent.manifest),
            conversation: Conversation::bind(call, &agent.agent.manifest),
            forced: read.result,
        };
        let invoked = Invoked {
            source: pin.source,
            model_class: class.as_str().to_owned(),
            model: model.as_ref().ok().map(|it| {
                let model = it.model.clone();
                (model.provider, model.model)
            }),
            version: pin.version.clone(),
            channel: pin.channel.clone(),
            tools,
            memory: work.memory.is_some() || work.conversation.is_some(),
        };
        work.asker.facts.push(AgentFact::Invoked(invoked.clone()));
        let answered = match (model, declared) {
            (Ok(model), Ok(_)) => work.answer(model, read.task).await,
            (Ok(_), Err(refused)) => Err(End::Failed(refused)),
            (Err(none), _) => {
                Err(End::Failed(Failure::new("no_model_available", none.to_string())))
            }
        };
        work.end(answered, invoked).await
    }
}

impl Work<'_> {
    /// Steps 2 to 6: from a checked task to a checked result.
    async fn answer(&mut self, model: ResolvedModel, task: Object) -> Result<Answer, End> {
        let task = Value::Object(task);
        if let Some(schema) = &self.agent.agent.task {
            check(&schema.violations(&task), "handoff_task_schema_violation", "task")?;
        }
        self.asker.credential = model.credential_ref.as_deref().map(SecretName::from);
        self.asker.fallbacks = model.fallbacks.iter().cloned().collect();
        let remembered = self.remembered().await?;
        let exchange = self.exchange(model, &task, remembered).await?;
        let said = match self.coder.take() {
            Some(Ok(admitted)) => {
                self.unresolved(&exchange.request.model.model, &admitted.unknown);
                self.delegate(exchange, &admitted).await?
            }
            Some(Err(refused)) => return Err(End::Failed(refused.failure())),
            None => {
                let unresolved = self.surface.unresolved().to_vec();
                self.unresolved("this host", &unresolved);
                self.converse(exchange).await?
            }
        };
        let said = self.forced.take().unwrap_or(said);
        let (result, confidence) = self.contract.take_apart(said);
        let schema = self.agent.agent.result.as_ref();
        if let Some(schema) = schema {
            check(&schema.violations(&result), "handoff_return_schema_violation", "result")?;
        }
        Ok(Answer { result, confidence, schema_validated: schema.map(|_| true) })
    }

    fn unresolved(&mut self, whoever: &str, names: &[String]) {
        for name in names {
            let fields = [
                ("code".to_owned(), "tool_unresolvable".into()),
                ("tool".to_owned(), name.as_str().into()),
            ];
            self.asker.facts.push(AgentFact::Noted {
                level: "warn".to_owned(),
                message: format!("{whoever} has no tool {name}"),
                fields: fields.into_iter().collect(),
            });
        }
    }

    /// Step 2: which prompt applies, and everything that the model gets in the first turn.
    async fn exchange(
        &mut self,
        model: ResolvedModel,
        task: &Value,
        remembered: Option<String>,
    ) -> Result<Exchange, End> {
        let pinned = self.setup.as_ref().map(|setup| &setup.templates);
        let prepared = self.host.prompt_resolver.prepare_agent(self.call, self.agent, pinned).await;
        let mut prepared = prepared?;
        if self.setup.is_none() {
            let templates = std::mem::take(&mut prepared.templates);
            Setup::record(self.call, &self.surface, templates).await?;
        }
        let parts = [prepared.system(), remembered].into_iter().flatten();
        let system = parts.collect::<Vec<_>>().join("\n\n");
        let sources = json!({ "prompts": prepared.references(), "task": task });
        let mut task = task.to_string();
        if self.call.from_outside {
            task = untrusted(&task);
        }
        let text = prepared.user().map_or(task.clone(), |words| format!("{words}\n\n{task}"));
        let mut messages = self.said_before(&text).await?;
        messages.push(Message::User { text });
        prepared.facts.into_iter().for_each(|fact| self.asker.facts.push(fact));
        let (options, settings) = (CallOptions::of(&self.call.configurable), &self.host.settings);
        let request = ModelRequest {
            model: model.model,
            system: (!system.is_empty()).then_some(system),
            messages,
            tools: tools::specs(&self.surface),
            response_schema: self.contract.asked.clone(),
            max_output_tokens: options.budget(settings.max_output_tokens, settings.output_ceiling),
            temperature: options.temperature,
            seed: None,
            idempotency_key: String::new(),
            key: None,
            call_prefix: String::new(),
            run: None,
        };
        Ok(Exchange {
            basis: RequestBasis::new(sources, &request),
            request,
            repair: None,
            schema: self.contract.judged.clone(),
            repairs: Repairs::Once,
            has_tools: true,
            made: 0,
            rounds: settings.schema_rounds,
            ceiling: options.ceiling(settings.output_ceiling),
        })
    }

    /// Steps 7 and 8, or what stands in their place.
    async fn end(
        self,
        answered: Result<Answer, End>,
        invoked: Invoked,
    ) -> Result<Outcome, OnceError> {
        match answered {
            Ok(answer) => self.conclude(answer, invoked).await,
            Err(End::Once(error)) => self.give_up(error).await,
            Err(End::Later(outcome)) => Ok(outcome),
            Err(End::Failed(failure)) => self.fail(InvocationOutcome::Failed, failure).await,
            Err(End::Refused) => {
                let failure = Failure::new("envelope_refusal", "the model declined to answer");
                self.fail(InvocationOutcome::Refused, failure).await
            }
        }
    }

    /// Doubt is escalated, anything else is the node's result.
    async fn conclude(mut self, answer: Answer, invoked: Invoked) -> Result<Outcome, OnceError> {
        let Answer { result, confidence, schema_validated } = answer;
        self.decided(&result, confidence);
        let manifest = &self.agent.agent.manifest;
        let wanted = manifest.confidence.as_ref().and_then(|it| it.default_threshold);
        let threshold =
            escalation_threshold(&self.call.configurable, wanted.and_then(Confidence::of));
        let Some(observed) = confidence.filter(|_| falls_short(confidence, threshold)) else {
            self.remember(&result).await?;
            self.close(InvocationOutcome::Completed, schema_validated, confidence);
            self.asker.facts.flush().await?;
            return Ok(Outcome::Done { outputs: outputs(result) });
        };
        self.close(InvocationOutcome::Escalated, schema_validated, confidence);
        let answered = self.call.answer.as_ref();
        let Some(answered) = answered.filter(|it| it.kind == InterruptKind::LowConfidence) else {
            self.asker.facts.flush().await?;
            let agent_id = manifest.agent_id.as_str();
            let question = Question::low_confidence(agent_id, threshold, observed, Some(result));
            return Ok(Outcome::Suspend(question));
        };
        let ratified = answered.result();
        self.asker.facts.push(AgentFact::Invoked(invoked));
        self.repeat_prompt();
        match ratified.and_then(|ratified| self.admit_ratified(ratified)) {
            Ok(ratified) => {
                self.asker.facts.reasoned("A person decided on what was proposed.".to_owned());
                self.decided(&ratified, None);
                self.remember(&ratified).await?;
                self.close(InvocationOutcome::Completed, schema_validated, None);
                self.asker.facts.flush().await?;
                Ok(Outcome::Done { outputs: outputs(ratified) })
            }
            Err(failure) => self.fail(InvocationOutcome::Failed, failure).await,
        }
    }

    /// What a person puts in place of a result must match what the agent promised.
    fn admit_ratified(&self, ratified: Value) -> Result<Value, Failure> {
        let schema = self.agent.agent.result.as_ref();
        let violations = schema.map(|it| it.violations(&ratified)).unwrap_or_default();
        complaint(&violations, "handoff_return_schema_violation", "answer")
            .map_or(Ok(ratified), Err)
    }

    /// The prompt of a ratified invocation is the one that was resolved before.
    fn repeat_prompt(&mut self) {
        if let Some(resolved) = self.asker.facts.prompt_resolved() {
            self.asker.facts.push(resolved);
        }
    }

    fn decided(&mut self, result: &Value, confidence: Option<Confidence>) {
        let confidence = confidence.map(Confidence::get);
        self.asker.facts.push(AgentFact::Decided { decision: result.clone(), confidence });
    }

    fn close(
        &mut self,
        outcome: InvocationOutcome,
        schema_validated: Option<bool>,
        confidence: Option<Confidence>,
    ) {
        let confidence = confidence.map(Confidence::get);
        self.asker.facts.push(AgentFact::Concluded { outcome, schema_validated, confidence });
    }

    async fn fail(
        mut self,
        outcome: InvocationOutcome,
        failure: Failure,
    ) -> Result<Outcome, OnceError> {
        let promised = self.agent.agent.result.is_some();
        self.close(outcome, promised.then_some(false), None);
        self.asker.facts.flush().await?;
        Ok(failed(failure))
    }

    /// A recorded failure ends the invocation too; a question or a store that cannot write leaves it open.
    async fn give_up(self, error: OnceError) -> Result<Outcome, OnceError> {
        match error {
            OnceError::Ended(Outcome::Failed { failure, class: RetryClass::Final }) => {
                self.fail(InvocationOutcome::Failed, failure).await
            }
            other => Err(other),
        }
    }
}

fn tool_count(coder: Option<&Result<Admitted, CodingError>>, surface: &ToolSurface) -> usize {
    coder.map_or(surface.len(), |coder| coder.as_ref().map_or(0, |it| it.tools.len()))
}

/// What a node declares for its agent can only be less than what the agent may use.
fn allowed(allowlist: &[String], declared: Option<&Vec<String>>) -> Vec<String> {
    let is_declared = |name: &&String| declared.is_none_or(|declared| declared.contains(name));
    allowlist.iter().filter(is_declared).cloned().collect()
}

/// Refuses what its schema does not admit; the complaint names places and rules, never values.
fn check(violations: &[String], code: &str, of: &str) -> Result<(), End> {
    complaint(violations, code, of).map_or(Ok(()), |failure| Err(End::Failed(failure)))
}

fn complaint(violations: &[String], code: &str, of: &str) -> Option<Failure> {
    let message = || format!("the {of} does not match its schema: {}", violations.join("; "));
    (!violations.is_empty()).then(|| Failure::new(code, message()))
}

/// A result's keys are the node's outputs; one that has none stands under `result`.
fn outputs(result: Value) -> Object {
    match result {
        Value::Object(fields) => fields,
        other => Object::from_iter([("result".to_owned(), other)]),
    }
}

fn failed(failure: Failure) -> Outcome {
    Outcome::Failed { failure, class: RetryClass::Final }
}
