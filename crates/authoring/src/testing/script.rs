//! A run played by core alone: every answer is scripted, and time passes as it is needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_core::{
    AgentPin, Birth, Command, Entry, HostLimits, MemoryBirth, Outcome, Plan, Resolution,
    RetryClass, Run, Task, TaskSource, Via,
};
use callboard_protocol::{
    ENGINE_VERSION, Failure, InterruptKind, InvocationSource, NodeId, Object, Owner, RunSnapshot,
    Timestamp,
};
use serde_json::{Value, json};

/// When every run of a test begins.
const BEGIN: i64 = 1_700_000_000_000;
/// Commands that one case may take; a workflow that never comes to an end is told of.
const MOST_STEPS: usize = 10_000;

/// What a case says.
#[derive(Debug)]
pub(super) struct Script {
    pub(super) inputs: Object,
    pub(super) configurable: Object,
    pub(super) answers: Object,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Played {
    pub(super) snapshot: RunSnapshot,
    pub(super) log: Vec<Entry>,
    /// What nodes were given that somebody answered for.
    pub(super) given: BTreeMap<String, Object>,
    pub(super) took_ms: i64,
}

/// A run on its way.
struct Play<'a> {
    script: &'a Script,
    run: Run,
    now: Timestamp,
    log: Vec<Entry>,
    given: BTreeMap<String, Object>,
    /// How many answers of each node were used.
    used: BTreeMap<String, usize>,
}

impl Script {
    pub(super) fn play(&self, plan: &Arc<Plan>, limits: HostLimits) -> Result<Played, String> {
        let admitted = plan.admit(&self.inputs, &self.configurable, limits);
        let limits = admitted.map_err(|error| format!("the run is refused: {error}"))?;
        let birth = self.birth(plan, limits);
        let mut play = Play {
            script: self,
            run: Run::new(Arc::new(birth), Arc::clone(plan)),
            now: Timestamp::from_millis(BEGIN),
            log: Vec::new(),
            given: BTreeMap::new(),
            used: BTreeMap::new(),
        };
        play.decide(&Command::Start)?;
        for _ in 0..MOST_STEPS {
            if play.run.status().is_terminal() || !play.step()? {
                return Ok(play.end());
            }
        }
        Err(format!("the run does not come to an end in {MOST_STEPS} steps"))
    }

    fn birth(&self, plan: &Plan, limits: callboard_core::RunLimits) -> Birth {
        let pin = |agent: &str| AgentPin {
            agent_id: agent.to_owned(),
            version: "0.0.0".to_owned(),
            integrity: None,
            channel: None,
            task: TaskSource::Ports,
            persona: None,
            source: InvocationSource::default(),
        };
        let nodes = plan.definition().nodes.iter();
        let agents =
            nodes.filter_map(|node| Some((node.id.clone(), pin(&node.agent.as_ref()?.agent_id))));
        Birth {
            run_id: "test".into(),
            workflow_id: plan.id().clone(),
            definition: "test".into(),
            owner: Owner { tenant: "test".into(), workspace: None, principal: None },
            test: true,
            inputs: self.inputs.clone(),
            configurable: self.configurable.clone(),
            tags: Vec::new(),
            metadata: None,
            scope_id: None,
            callback_url: None,
            created_at: Timestamp::from_millis(BEGIN),
            engine_version: ENGINE_VERSION,
            forced_engine_version: None,
            limits,
            trace: None,
            parent: None,
            unset: Vec::new(),
            fork: None,
            agents: agents.collect(),
            attribution: None,
            delivery: None,
            from_outside: false,
            budget: None,
            charged_to: None,
            principal_scope: None,
            memory: MemoryBirth::default(),
            files: Vec::new(),
            stamp: None,
        }
    }
}

impl Play<'_> {
    /// Does the next thing that is owed; answers whether there was any.
    fn step(&mut self) -> Result<bool, String> {
        let task = self.run.tasks().next();
        if let Some(task) = task {
            return self.answer(task).map(|()| true);
        }
        if let Some(order) = self.run.child_orders().into_iter().next() {
            let message = "runs of other workflows are not started in a test";
            let failure = match self.next_answer(order.attempt.node.as_str()) {
                Some(answer) => failure_of(&answer)
                    .unwrap_or_else(|| (Failure::new("not_supported", message), RetryClass::Final)),
                None => (Failure::new("not_supported", message), RetryClass::Final),
            };
            let (attempt, workflow) = (order.attempt, order.workflow);
            self.decide(&Command::Undispatch { attempt, workflow, failure: failure.0 })?;
            return Ok(true);
        }
        let open: Vec<_> = self.run.interrupts().map(|asked| (asked.node, asked.kind)).collect();
        for (node, kind) in &open {
            if let Some(answer) = self.next_answer(node.as_str()) {
                self.resolve(node, *kind, answer)?;
                return Ok(true);
            }
        }
        let is_waited_out = open.is_empty() || open.iter().any(|(node, _)| self.waits_out(node));
        match self.run.wakes_at() {
            Some(at) if is_waited_out => {
                self.now = self.now.max(at);
                let before = self.log.len();
                self.decide(&Command::Continue)?;
                Ok(self.log.len() > before)
            }
            Some(_) | None => Ok(false),
        }
    }

    fn answer(&mut self, task: Task) -> Result<(), String> {
        let node = task.attempt.node.to_string();
        self.given.insert(node.clone(), task.inputs.clone());
        let Some(answer) = self.next_answer(&node) else {
            let who = task.agent.as_ref().map_or(task.type_id.as_str(), |agent| &agent.agent_id);
            let inputs = Value::Object(task.inputs);
            return Err(format!(
                "node {node} ({who}) was given {inputs} and nobody answers; add `answers: {{ {node}: {{ … }} }}`"
            ));
        };
        let outcome = match failure_of(&answer) {
            Some((failure, class)) => Outcome::Failed { failure, class },
            None => Outcome::Done { outputs: outputs_of(answer) },
        };
        self.decide(&Command::Finish { attempt: task.attempt, outcome })
    }

    fn resolve(&mut self, node: &NodeId, kind: InterruptKind, answer: Value) -> Result<(), String> {
        let value = match (kind, answer) {
            (InterruptKind::Approval | InterruptKind::LowConfidence, Value::String(action)) => {
                json!({ "action": action })
            }
            (InterruptKind::Clarification, Value::Object(answers))
                if !answers.contains_key("answers") =>
            {
                json!({ "answers": answers })
            }
            (_, answer) => answer,
        };
        let resolution = Resolution { node: node.clone(), value, by: None, via: Via::Key };
        self.decide(&Command::Resolve(resolution))
    }

    /// Whether the case lets a question run out of time.
    fn waits_out(&self, node: &NodeId) -> bool {
        self.script.answers.get(node.as_str()) == Some(&json!("timeout"))
    }

    /// The next answer of a node: a list has one for each visit, anything else is for all of them.
    fn next_answer(&mut self, node: &str) -> Option<Value> {
        let answer = self.script.answers.get(node)?;
        if answer == "timeout" {
            return None;
        }
        let Value::Array(listed) = answer else { return Some(answer.clone()) };
        let used = self.used.entry(node.to_owned()).or_default();
        *used += 1;
        listed.get(*used - 1).cloned()
    }

    fn decide(&mut self, command: &Command) -> Result<(), String> {
        let decided = self.run.decide(command, self.now);
        self.log.extend(decided.map_err(|refusal| format!("{refusal}"))?);
        Ok(())
    }

    fn end(self) -> Played {
        let last = self.log.last().map_or(self.now, |entry| entry.at);
        Played {
            snapshot: self.run.snapshot(),
            took_ms: last.as_millis() - BEGIN,
            log: self.log,
            given: self.given,
        }
    }
}

/// `{ fail: CODE }`, or `{ fail: { code, message, retryable } }`.
fn failure_of(answer: &Value) -> Option<(Failure, RetryClass)> {
    let fail = answer.as_object().filter(|fields| fields.len() == 1)?.get("fail")?;
    let text = |key: &str| fail.get(key).and_then(Value::as_str);
    let code = fail.as_str().or_else(|| text("code")).unwrap_or("failed");
    let message = text("message").unwrap_or("as the case says");
    let is_retryable = fail.get("retryable") == Some(&Value::Bool(true));
    let class = if is_retryable { RetryClass::Retryable } else { RetryClass::Final };
    Some((Failure::new(code, message), class))
}

fn outputs_of(answer: Value) -> Object {
    match answer {
        Value::Object(outputs) => outputs,
        other => Object::from_iter([("output".to_owned(), other)]),
    }
}

impl Played {
    /// The run in a few lines, for those who look for what went wrong.
    pub(super) fn story(&self) -> String {
        let lines = self.log.iter().map(|entry| {
            let node = entry.event.node_id().map(|node| format!(" {node}")).unwrap_or_default();
            format!("  {:>6} ms  {}{node}", entry.at.as_millis() - BEGIN, entry.event.kind())
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}
