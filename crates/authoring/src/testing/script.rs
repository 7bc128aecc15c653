//! A run, and those that it starts, played by core alone: every answer is scripted, and time passes as it is needed.

use std::collections::BTreeMap;
use std::sync::Arc;

use callboard_core::{
    AgentPin, Birth, ChildOrder, ChildUpdate, Command, Entry, HostLimits, MemoryBirth, Outcome,
    Parent, Plan, Resolution, RetryClass, Run, Task, TaskSource, Via, status_for_parent,
};
use callboard_protocol::{
    ENGINE_VERSION, Failure, InterruptKind, InvocationSource, NodeId, Object, Owner, RunSnapshot,
    RunStatus, Timestamp, WorkflowId,
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

/// Where the workflows of other runs are found.
pub(super) type Others<'a> = &'a dyn Fn(&WorkflowId) -> Option<Arc<Plan>>;

/// How deep runs may lie within runs, as on a host.
const DEEPEST: u32 = 16;

/// The runs of a case, on their way: the first is the one that it is about, the others lie below it.
struct Play<'a> {
    script: &'a Script,
    others: Others<'a>,
    limits: HostLimits,
    runs: Vec<Member>,
    now: Timestamp,
    given: BTreeMap<String, Object>,
    /// How many answers of each node were used.
    used: BTreeMap<String, usize>,
}

/// One of the runs.
struct Member {
    run: Run,
    log: Vec<Entry>,
    /// The place of the run that started it.
    above: Option<usize>,
}

impl Member {
    /// How a case names a node of it: by its id, below the first run behind the id of the workflow.
    fn name(&self, node: &str) -> String {
        match self.above {
            None => node.to_owned(),
            Some(_) => format!("{}.{node}", self.run.birth().workflow_id),
        }
    }
}

impl Script {
    pub(super) fn play(
        &self,
        plan: &Arc<Plan>,
        limits: HostLimits,
        others: Others<'_>,
    ) -> Result<Played, String> {
        let admitted = plan.admit(&self.inputs, &self.configurable, limits);
        let admitted = admitted.map_err(|error| format!("the run is refused: {error}"))?;
        let birth = self.birth(plan, admitted);
        let mut play = Play {
            script: self,
            others,
            limits,
            runs: Vec::new(),
            now: Timestamp::from_millis(BEGIN),
            given: BTreeMap::new(),
            used: BTreeMap::new(),
        };
        play.begin(birth, plan, None)?;
        for _ in 0..MOST_STEPS {
            if play.runs[0].run.status().is_terminal() || !play.step()? {
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
    fn begin(
        &mut self,
        birth: Birth,
        plan: &Arc<Plan>,
        above: Option<usize>,
    ) -> Result<(), String> {
        let run = Run::new(Arc::new(birth), Arc::clone(plan));
        self.runs.push(Member { run, log: Vec::new(), above });
        self.decide(self.runs.len() - 1, &Command::Start)
    }

    /// Does the next thing that is owed, in whichever run; answers whether there was any.
    fn step(&mut self) -> Result<bool, String> {
        for place in 0..self.runs.len() {
            if self.work(place)? {
                return Ok(true);
            }
        }
        let asks = |place: usize| {
            let asked = self.runs[place].run.interrupts();
            asked.map(|asked| self.runs[place].name(asked.node.as_str())).collect::<Vec<_>>()
        };
        let open: Vec<String> = self.living().flat_map(asks).collect();
        let is_waited_out = open.is_empty() || open.iter().any(|node| self.waits_out(node));
        let next = self.living().filter_map(|place| self.runs[place].run.wakes_at()).min();
        let Some(at) = next.filter(|_| is_waited_out) else { return Ok(false) };
        self.now = self.now.max(at);
        let due = |place: &usize| self.runs[*place].run.wakes_at().is_some_and(|at| at <= self.now);
        let due: Vec<usize> = self.living().filter(due).collect();
        let mut is_moved = false;
        for place in due {
            let before = self.runs[place].log.len();
            self.decide(place, &Command::Continue)?;
            is_moved |= self.runs[place].log.len() > before;
        }
        Ok(is_moved)
    }

    fn living(&self) -> impl Iterator<Item = usize> {
        (0..self.runs.len()).filter(|place| !self.runs[*place].run.status().is_terminal())
    }

    /// What one run owes now, without waiting.
    fn work(&mut self, place: usize) -> Result<bool, String> {
        let run = &self.runs[place].run;
        if run.status().is_terminal() {
            return Ok(false);
        }
        let task = run.tasks().next();
        if let Some(task) = task {
            return self.answer(place, task).map(|()| true);
        }
        if let Some(order) = run.child_orders().into_iter().next() {
            return self.start_child(place, order).map(|()| true);
        }
        if self.follow_children(place)? {
            return Ok(true);
        }
        let asked = self.runs[place].run.interrupts();
        let open: Vec<_> = asked.map(|asked| (asked.node, asked.kind)).collect();
        for (node, kind) in &open {
            let name = self.runs[place].name(node.as_str());
            if let Some(answer) = self.next_answer(&name) {
                self.resolve(place, node, *kind, answer)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Starts the run that a node asks for, or says why there is none.
    fn start_child(&mut self, place: usize, order: ChildOrder) -> Result<(), String> {
        let (attempt, workflow) = (order.attempt.clone(), order.workflow.clone());
        let name = self.runs[place].name(attempt.node.as_str());
        let scripted = self.next_answer(&name).and_then(|answer| failure_of(&answer));
        let prepared = match scripted {
            Some((failure, _)) => Err(failure),
            None => self.child(place, &order),
        };
        match prepared {
            Err(failure) => self.decide(place, &Command::Undispatch { attempt, workflow, failure }),
            Ok((birth, plan)) => {
                let child = birth.run_id.clone();
                self.decide(place, &Command::Dispatch { attempt, child, workflow })?;
                self.begin(birth, &plan, Some(place))
            }
        }
    }

    fn child(&self, place: usize, order: &ChildOrder) -> Result<(Birth, Arc<Plan>), Failure> {
        let (parent, workflow) = (&self.runs[place].run, &order.workflow);
        let above = parent.birth();
        let depth = above.parent.as_ref().map_or(0, |above| above.depth) + 1;
        if depth > DEEPEST {
            let message = format!("runs lie within runs more than {DEEPEST} deep");
            return Err(Failure::new("recursion_limit_exceeded", message));
        }
        let plan = (self.others)(workflow).ok_or_else(|| {
            let message = format!("there is no workflow {workflow} beside the one that is tried");
            Failure::new("unknown_child_workflow", message)
        })?;
        // Options that a child declares itself are its own; others are its parent's.
        let configurable = match plan.definition().configurable_schema {
            Some(_) => Object::new(),
            None => above.configurable.clone(),
        };
        let inputs = parent.handed_down(order, &plan);
        let limits = plan.admit_child(&inputs, &order.unset, &configurable, self.limits);
        let limits = limits.map_err(|why| Failure::new(why.code, why.to_string()))?;
        let node = &order.attempt.node;
        let cause = parent.plan().cause_of_children(node).cloned();
        let birth = Birth {
            run_id: format!("test-{}", self.runs.len()).into(),
            inputs,
            configurable,
            created_at: self.now,
            parent: Some(Parent {
                run_id: above.run_id.clone(),
                workflow_id: above.workflow_id.clone(),
                node_id: node.clone(),
                depth,
                root: Some(above.root().clone()),
                place: self.runs.len() as u64,
                cause: cause.unwrap_or_else(|| "core.subWorkflow".into()),
            }),
            unset: order.unset.clone(),
            ..self.script.birth(&plan, limits)
        };
        Ok((birth, plan))
    }

    /// Tells a run what became of one of its children, or ends one that must end with it.
    fn follow_children(&mut self, place: usize) -> Result<bool, String> {
        for child in self.runs[place].run.live_children() {
            let is_it = |member: &Member| member.run.birth().run_id == child.run;
            let Some(below) = self.runs.iter().position(is_it) else { continue };
            if child.must_end && !self.runs[below].run.status().is_terminal() {
                let parent = Some(self.runs[place].run.birth().run_id.clone());
                let reason = Some("parent-cancelled".into());
                self.decide(below, &Command::Cancel { reason, by: None, parent })?;
            }
            let (parent, run) = (&self.runs[place].run, &self.runs[below].run);
            let status = status_for_parent(run.status());
            if status == child.status {
                continue;
            }
            let is_done = status == RunStatus::Completed;
            let update = ChildUpdate {
                run: child.run.clone(),
                status,
                outputs: if is_done { parent.harvest(&child.node, run) } else { Object::new() },
                error: run.snapshot().error,
                memory: Vec::new(),
                files: Vec::new(),
                used: if status.is_terminal() { run.consumption() } else { Default::default() },
            };
            self.decide(place, &Command::UpdateChild(update))?;
            return Ok(true);
        }
        Ok(false)
    }

    fn answer(&mut self, place: usize, task: Task) -> Result<(), String> {
        let node = self.runs[place].name(task.attempt.node.as_str());
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
        self.decide(place, &Command::Finish { attempt: task.attempt, outcome })
    }

    fn resolve(
        &mut self,
        place: usize,
        node: &NodeId,
        kind: InterruptKind,
        answer: Value,
    ) -> Result<(), String> {
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
        self.decide(place, &Command::Resolve(resolution))
    }

    /// Whether the case lets a question run out of time.
    fn waits_out(&self, node: &str) -> bool {
        self.script.answers.get(node) == Some(&json!("timeout"))
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

    fn decide(&mut self, place: usize, command: &Command) -> Result<(), String> {
        let member = &mut self.runs[place];
        let decided = member.run.decide(command, self.now);
        member.log.extend(decided.map_err(|refusal| format!("{refusal}"))?);
        Ok(())
    }

    fn end(mut self) -> Played {
        let Member { run, log, .. } = self.runs.swap_remove(0);
        let last = log.last().map_or(self.now, |entry| entry.at);
        Played {
            snapshot: run.snapshot(),
            took_ms: last.as_millis() - BEGIN,
            log,
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
