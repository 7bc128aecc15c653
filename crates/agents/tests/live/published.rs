//! The published types that ask a model: what it is asked, and what its answer comes to under their packs' schemas.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};

use callboard_agents::{
    AgentRegistry, DeltaSink, Message, Model, ModelError, ModelRef, ModelRequest, ModelTable,
    Observability, Policy, PriceTable, PromptLibrary, PromptResolver, PublishedAi, Schema,
    StructuredOutput, Turn, built_in_prompts,
};
use callboard_core::published_type;
use callboard_engine::{Activities, InMemoryStore, Store};
use callboard_protocol::Object;

use crate::given::{calls, says};
use crate::sim::{Fate, SimClock, doomed_store, ended, host_with, order};

type Says = fn(&ModelRequest) -> Turn;

/// A model that answers by its script and remembers what it was asked.
struct Scripted {
    script: Says,
    asked: Mutex<Vec<ModelRequest>>,
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

#[async_trait]
impl Model for Scripted {
    async fn turn(
        &self,
        request: &ModelRequest,
        _: &mut dyn DeltaSink,
    ) -> Result<Turn, ModelError> {
        self.asked.lock().unwrap().push(request.clone());
        Ok((self.script)(request))
    }
}

/// A host's models: one of its own, and another provider.
async fn asks(store: &Arc<InMemoryStore>, model: Arc<Scripted>) -> StructuredOutput {
    let store = Arc::clone(store) as Arc<dyn Store>;
    let opened = AgentRegistry::open(Arc::clone(&store), Policy::default(), Vec::new()).await;
    let usual = ModelRef { provider: "house".to_owned(), model: "small".to_owned() };
    let table = ModelTable {
        default: Some(usual),
        providers: ["house".to_owned(), "other".to_owned()].into(),
        ..ModelTable::default()
    };
    StructuredOutput {
        models: model,
        table,
        prices: PriceTable::default(),
        prompt_resolver: PromptResolver {
            library: PromptLibrary::new(store, built_in_prompts()),
            agents: Arc::new(opened.unwrap().0),
            observability: Observability::default(),
        },
        required: Vec::new(),
    }
}

/// What one node came to, and what the model was asked.
async fn run(
    type_id: &str,
    config: Value,
    inputs: Value,
    script: Says,
) -> (Value, Vec<ModelRequest>) {
    let (outcome, asked, _) = under(Fate::Live, type_id, &config, &inputs, script).await;
    if outcome.get("failed").is_none() {
        let published = published_type(type_id).unwrap();
        for (schema, value) in [
            (&published.config, &config),
            (&published.inputs, &inputs),
            (&published.outputs, &outcome),
        ] {
            let schema = Schema::compile(schema.to_string().as_bytes()).unwrap();
            assert_eq!(schema.violations(value), Vec::<String>::new(), "{type_id}: {value}");
        }
    }
    (outcome, asked)
}

/// The same with a host that meets its fate, and another that comes after it; and how often the first wrote.
async fn under(
    fate: Fate,
    type_id: &str,
    config: &Value,
    inputs: &Value,
    script: Says,
) -> (Value, Vec<ModelRequest>, u64) {
    let shared = Arc::new(InMemoryStore::new());
    let model = Arc::new(Scripted { script, asked: Mutex::default() });
    let ports: Object = inputs
        .as_object()
        .unwrap()
        .iter()
        .map(|(port, value)| (port.clone(), json!({ "type": "static", "value": value })))
        .collect();
    let node = json!({ "id": "n", "typeId": type_id, "name": "n", "position": { "x": 0, "y": 0 },
        "config": config, "inputs": ports });
    let definition = json!({ "id": "w", "name": "w", "version": "1.0", "nodes": [node], "edges": [],
        "triggers": [], "variables": [], "metadata": {}, "settings": {} });
    let clock = SimClock::new();
    let host = async |name: &str, fate| {
        let store = doomed_store(shared.clone(), fate);
        let asks = asks(&shared, model.clone()).await;
        let activities = Activities::default().with(type_id, Arc::new(PublishedAi { asks }));
        let (shared, clock) = (shared.clone(), Arc::clone(&clock));
        let definitions = [definition.to_string()];
        (host_with(name, store.clone(), shared, clock, &definitions, activities), store)
    };
    let (first, doomed) = host("first", fate).await;
    let run = first.create(order("w", Object::new(), Object::new()), None).await.unwrap().run;
    tokio::select! {
        () = doomed.died.notified() => {}
        _ = ended(&shared, &run) => {}
    }
    first.kill();
    let (second, _) = host("second", Fate::Live).await;
    let log = ended(&shared, &run).await;
    second.kill();
    let told = |kind: &str| {
        let event = log.iter().find(|event| event.kind == kind)?;
        serde_json::from_str::<Value>(&event.payload).ok()
    };
    let outcome = match told("node.completed") {
        Some(completed) => completed["outputs"].clone(),
        None => json!({ "failed": told("node.failed").unwrap()["error"] }),
    };
    let asked = model.asked.lock().unwrap().clone();
    (outcome, asked, doomed.appends())
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_asks_a_model_at_most_once_more() {
    let config = json!({ "provider": "house", "model": "small" });
    let inputs = json!({ "messages": [{ "role": "user", "content": "Hi" }] });
    let fate = async |fate| under(fate, CHAT, &config, &inputs, |_| says("Hello")).await;
    let (whole, asked, writes) = fate(Fate::Live).await;
    assert!(asked.len() == 1 && writes >= 3 && whole.get("failed").is_none(), "{writes} {whole}");
    let mut repeated = 0;
    for at in 1..=writes {
        for death in [Fate::DieBefore(at), Fate::DieAfter(at)] {
            let (outcome, asked, _) = fate(death).await;
            assert_eq!(outcome, whole, "{death:?}");
            assert!((1..=2).contains(&asked.len()), "{death:?}: asked {} times", asked.len());
            assert!(asked.iter().all(|request| said(request) == said(&asked[0])), "{death:?}");
            repeated += asked.len() - 1;
        }
    }
    assert!(repeated > 0, "nobody died while the model was asked");
}

fn said(request: &ModelRequest) -> &str {
    match &request.messages[0] {
        Message::User { text } => text,
        _ => panic!("the first message is the user's"),
    }
}

const CHAT: &str = "core.ai.chatCompletion";
const TOOLS: &str = "core.ai.toolCalling";

#[tokio::test(start_paused = true)]
async fn a_conversation_is_continued_with_the_model_that_is_named() {
    let config = json!({ "provider": "other", "model": "large", "systemPrompt": "Be brief.", "stopSequences": ["STOP"] });
    let messages = json!([{ "role": "user", "content": "Hello?" }]);
    let (outputs, asked) =
        run(CHAT, config, json!({ "messages": messages }), |_| says("Hi. STOP not this")).await;
    assert_eq!((&outputs["content"], &outputs["finishReason"]), (&json!("Hi. "), &json!("stop")));
    assert_eq!(
        outputs["usage"],
        json!({ "inputTokens": 10, "outputTokens": 5, "totalTokens": 15 })
    );
    assert_eq!(outputs["model"], "large");
    assert_eq!((asked.len(), asked[0].model.provider.as_str()), (1, "other"));
    assert_eq!(asked[0].system.as_deref(), Some("Be brief."));
    assert!(asked[0].response_schema.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_tools_that_a_model_wants_are_told_and_not_called() {
    let tool = json!({ "name": "weather", "inputSchema": { "type": "object" } });
    let config =
        json!({ "provider": "house", "model": "small", "tools": [tool], "toolChoice": "required" });
    let messages = json!([{ "role": "user", "content": "Rain?" }, { "role": "tool", "content": "it may rain" }]);
    let inputs = json!({ "messages": messages });
    let script: Says = |request| calls(request, &[("weather", json!({ "city": "Oslo" }))]);
    let (outputs, asked) = run(TOOLS, config.clone(), inputs.clone(), script).await;
    assert_eq!(outputs["toolCalls"][0]["name"], "weather");
    assert_eq!(outputs["toolCalls"][0]["arguments"], json!({ "city": "Oslo" }));
    assert_eq!((&outputs["finishReason"], asked[0].tools.len()), (&json!("tool-call"), 1));
    let (outputs, _) = run(TOOLS, config, inputs, |_| says("It rains.")).await;
    assert_eq!(outputs["failed"]["code"], "tool_not_called");
}

#[tokio::test(start_paused = true)]
async fn a_text_is_classified_into_one_of_the_labels() {
    let config = json!({ "labels": ["billing", "support"], "model": "other/large" });
    let inputs = json!({ "text": "My bill is wrong" });
    let script: Says = |_| says(r#"{"label":"billing","confidence":0.9}"#);
    let (outputs, asked) =
        run("core.openwop.ai.classify", config.clone(), inputs.clone(), script).await;
    assert_eq!((&outputs["label"], &outputs["confidence"]), (&json!("billing"), &json!(0.9)));
    assert_eq!(
        (asked[0].model.provider.as_str(), asked[0].model.model.as_str()),
        ("other", "large")
    );
    assert!(said(&asked[0]).contains("UNTRUSTED"), "what is judged is quoted: {}", said(&asked[0]));
    // A label that is not among them is asked for again, and then refused.
    let (outputs, asked) =
        run("core.openwop.ai.classify", config, inputs, |_| says(r#"{"label":"x"}"#)).await;
    assert!(outputs["failed"]["code"].is_string() && asked.len() > 1, "{outputs}");
}

#[tokio::test(start_paused = true)]
async fn values_are_extracted_checked_and_transformed() {
    let schema = json!({ "type": "object", "required": ["city"], "properties": { "city": { "type": "string" } } });
    let (outputs, _) = run(
        "core.openwop.ai.extract",
        json!({ "schema": schema }),
        json!({ "text": "I live in Oslo" }),
        |_| says(r#"{"value":{"city":"Oslo"}}"#),
    )
    .await;
    assert_eq!(outputs, json!({ "value": { "city": "Oslo" } }));
    let guard = async |script: Says| {
        run(
            "core.openwop.ai.guardrails",
            json!({ "checks": ["pii"] }),
            json!({ "text": "x" }),
            script,
        )
        .await
        .0
    };
    assert_eq!(guard(|_| says(r#"{"violations":[]}"#)).await["passed"], true);
    let broken = guard(|_| says(r#"{"violations":[{"check":"pii","reason":"a name"}]}"#)).await;
    assert_eq!(
        (&broken["passed"], &broken["violations"][0]["check"]),
        (&json!(false), &json!("pii"))
    );
    let (outputs, asked) = run(
        "core.openwop.ai.transform",
        json!({ "examples": [{ "a": 1 }] }),
        json!({ "value": { "name": "ann" }, "instruction": "Write names in capitals." }),
        |_| says(r#"{"result":{"name":"ANN"}}"#),
    )
    .await;
    assert_eq!(outputs, json!({ "result": { "name": "ANN" } }));
    assert!(asked[0].system.as_ref().is_some_and(|it| it.contains("Write names in capitals.")));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_asked_is_refused_before_any_call() {
    let cases = [
        (CHAT, json!({ "provider": "house", "model": "small" }), json!({ "messages": [] })),
        (CHAT, json!({ "provider": "house", "model": "small" }), json!({ "messages": "x" })),
        ("core.openwop.ai.classify", json!({ "labels": [] }), json!({ "text": "x" })),
        ("core.openwop.ai.extract", json!({ "schema": {} }), json!({ "text": 7 })),
        ("core.openwop.ai.guardrails", json!({ "checks": [] }), json!({ "text": "x" })),
        ("core.openwop.ai.transform", json!({}), json!({ "value": 1, "instruction": 7 })),
    ];
    for (type_id, config, inputs) in cases {
        let (outputs, asked) = run(type_id, config, inputs, |_| says("never")).await;
        assert_eq!(
            (&outputs["failed"]["code"], asked.len()),
            (&json!("validation_error"), 0),
            "{type_id}: {outputs}"
        );
    }
}
