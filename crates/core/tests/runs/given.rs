//! Workflows in a few words, and what can be done to a run of one.

use std::sync::Arc;

use callboard_core::{Birth, Confidence, Plan, PlanError, Run, RunLimits};
use callboard_protocol::{
    DrainPolicy, ENGINE_VERSION, Object, Owner, RosterRunInitiated, Timestamp,
};
use serde_json::{Value, json};

/// When every run of these tests is created; steps count milliseconds from here.
pub(crate) const BIRTH: i64 = 1_700_000_000_000;

/// A definition in the making.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    pub(crate) definition: Value,
    inputs: Value,
    options: Value,
    limits: RunLimits,
    attribution: Option<RosterRunInitiated>,
}

/// `"a:noop b:core.ai.callPrompt"`: ids and types, `core.` understood where no dot stands.
pub(crate) fn given(nodes: &str) -> Given {
    let nodes: Vec<Value> = nodes
        .split_whitespace()
        .map(|node| {
            let (id, kind) = node.split_once(':').expect("id:type");
            json!({ "id": id, "typeId": type_id(kind), "name": id,
                "position": { "x": 0, "y": 0 }, "config": {}, "inputs": {} })
        })
        .collect();
    let definition = json!({
        "id": "w", "name": "w", "version": "1.0", "nodes": nodes, "edges": [],
        "triggers": [{ "id": "manual", "type": "manual" }], "variables": [],
        "metadata": {}, "settings": {},
    });
    let limits = RunLimits {
        node_executions: 1_000,
        duration_ms: 3_600_000,
        loop_iterations: 100,
        confidence_floor: Confidence::FLOOR,
        execution_model: 3,
        transcript_window: 100,
    };
    Given { definition, inputs: json!({}), options: json!({}), limits, attribution: None }
}

fn type_id(kind: &str) -> String {
    match kind {
        "ai" => "core.ai.callPrompt".to_owned(),
        _ if kind.contains('.') => kind.to_owned(),
        _ => format!("core.{kind}"),
    }
}

impl Given {
    /// `"a>b b>c:any_failed"`: edges are numbered in this order.
    pub(crate) fn edges(mut self, edges: &str) -> Self {
        for edge in edges.split_whitespace() {
            let (ends, rule) = edge.split_once(':').unwrap_or((edge, "all_success"));
            let (from, to) = ends.split_once('>').expect("from>to");
            let list = self.definition["edges"].as_array_mut().expect("edges");
            let id = format!("e{:02}", list.len());
            list.push(json!({ "id": id, "sourceNodeId": from, "targetNodeId": to,
                "triggerRule": rule }));
        }
        self
    }

    /// Fields of the edge with this place.
    pub(crate) fn edge(mut self, place: usize, fields: Value) -> Self {
        extend(&mut self.definition["edges"][place], fields);
        self
    }

    /// Fields of a node.
    pub(crate) fn node(mut self, id: &str, fields: Value) -> Self {
        let nodes = self.definition["nodes"].as_array_mut().expect("nodes");
        let node = nodes.iter_mut().find(|node| node["id"] == id).expect("a node of this id");
        extend(node, fields);
        self
    }

    pub(crate) fn config(self, id: &str, config: Value) -> Self {
        self.node(id, json!({ "config": config }))
    }

    pub(crate) fn ports(self, id: &str, inputs: Value) -> Self {
        self.node(id, json!({ "inputs": inputs }))
    }

    /// Fields of the definition itself.
    pub(crate) fn top(mut self, fields: Value) -> Self {
        extend(&mut self.definition, fields);
        self
    }

    pub(crate) fn inputs(mut self, inputs: Value) -> Self {
        self.inputs = inputs;
        self
    }

    /// The run is a standing member's.
    pub(crate) fn made_for(mut self, attribution: RosterRunInitiated) -> Self {
        self.attribution = Some(attribution);
        self
    }

    pub(crate) fn options(mut self, options: Value) -> Self {
        self.options = options;
        self
    }

    /// One more node, beside the others.
    pub(crate) fn extra(mut self, fields: Value) -> Self {
        let mut node = json!({ "name": fields["id"], "position": { "x": 0, "y": 0 },
            "config": {}, "inputs": {} });
        extend(&mut node, fields);
        self.definition["nodes"].as_array_mut().expect("nodes").push(node);
        self
    }

    pub(crate) fn most_turns(mut self, limit: u64) -> Self {
        self.limits.loop_iterations = limit;
        self
    }

    pub(crate) fn model(mut self, version: u32) -> Self {
        self.limits.execution_model = version;
        self
    }

    pub(crate) fn floor(mut self, floor: f64) -> Self {
        self.limits.confidence_floor = Confidence::of(floor).expect("a share");
        self
    }

    pub(crate) fn most_executions(mut self, limit: u64) -> Self {
        self.limits.node_executions = limit;
        self
    }

    pub(crate) fn most_millis(mut self, limit: u64) -> Self {
        self.limits.duration_ms = limit;
        self
    }

    pub(crate) fn plan(&self) -> Result<Plan, PlanError> {
        Plan::parse(self.definition.to_string().as_bytes())
    }

    pub(crate) fn birth(&self) -> Birth {
        Birth {
            principal_scope: None,
            files: Vec::new(),
            stamp: None,
            delivery: None,
            from_outside: false,
            budget: None,
            charged_to: None,
            run_id: "run-1".into(),
            workflow_id: "w".into(),
            definition: "digest".into(),
            owner: Owner { tenant: "t".into(), workspace: None, principal: None },
            test: false,
            inputs: object(self.inputs.clone()),
            configurable: object(self.options.clone()),
            tags: Vec::new(),
            metadata: None,
            scope_id: None,
            callback_url: None,
            created_at: at(0),
            engine_version: ENGINE_VERSION,
            forced_engine_version: None,
            limits: self.limits,
            parent: None,
            unset: Vec::new(),
            fork: None,
            agents: std::collections::BTreeMap::new(),
            memory: callboard_core::MemoryBirth::default(),
            attribution: self.attribution.clone(),
            trace: None,
        }
    }

    /// A run of a definition that was accepted, perhaps by an older build.
    pub(crate) fn run(&self) -> Run {
        let plan = Plan::reopen(self.definition.to_string().as_bytes());
        Run::new(Arc::new(self.birth()), Arc::new(plan.expect("a definition that runs")))
    }
}

/// What happens to a run. Attempts are named by their node: the one that is owed at that moment.
#[derive(Debug, Clone)]
pub(crate) enum Do {
    Start,
    Adopt,
    Continue,
    Done(&'static str, Value),
    Failed(&'static str, &'static str),
    FailedForGood(&'static str, &'static str),
    /// Chunks with these indices; the text is `c<index>`.
    Chunks(&'static str, &'static [u32]),
    Pins(&'static str, &'static [(&'static str, i64)]),
    Cancel,
    Pause(DrainPolicy),
    Resume,
    Answer(&'static str, Value),
    /// Into a channel, from outside, by this run if it is another's.
    Write(&'static str, Value, Option<&'static str>),
    SetVariables(Value),
}

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(BIRTH + millis)
}

pub(crate) fn object(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        other => panic!("{other} is not an object"),
    }
}

fn extend(target: &mut Value, fields: Value) {
    let target = target.as_object_mut().expect("an object");
    for (key, value) in object(fields) {
        match (target.get_mut(&key), value) {
            (Some(Value::Object(old)), Value::Object(new)) => old.extend(new),
            (_, value) => {
                target.insert(key, value);
            }
        }
    }
}
