//! Spans of calls: what models were asked and tools did, below the attempt that asked for it.

use std::sync::Arc;

use callboard_core::{
    AgentFact, AgentPin, Birth, Command, Content, Fact, Invoked, Run, Span, SpanCode, TaskSource,
    ToolCalled, ToolReturned, spans_with,
};
use callboard_protocol::{Failure, InvocationSource, ModelFallback, ToolStatus};
use serde_json::{Value, json};

use crate::given::{Given, at, given};

fn birth(flow: &Given) -> Birth {
    let pin = AgentPin {
        agent_id: "core.test.live".into(),
        version: "1.0.0".into(),
        integrity: None,
        channel: None,
        task: TaskSource::Ports,
        source: InvocationSource::RunApi,
        persona: None,
    };
    Birth { agents: [("a".into(), pin)].into(), ..flow.birth() }
}

/// `name < parent's name`, in order.
fn tree(spans: &[Span]) -> Vec<String> {
    let name_of =
        |id: &String| spans.iter().find(|span| span.span_id == *id).map(|span| &span.name);
    let line = |span: &Span| match span.parent_span_id.as_ref().and_then(name_of) {
        Some(parent) => format!("{} < {parent}", span.name),
        None => span.name.clone(),
    };
    spans.iter().map(line).collect()
}

/// A model answers, a tool is called, the model fails over: a span for each, with times of the log.
#[test]
fn calls_of_models_and_tools_are_spans_below_their_attempt() {
    let flow = given("a:ai");
    let seen = calls(&flow, Content::Hidden);
    let node = "openwop.node.core.ai.callPrompt";
    let attempt = format!("{node}.attempt");
    assert_eq!(
        tree(&seen)[2..],
        [
            format!("{attempt} < {node}"),
            format!("chat m-1 < {attempt}"),
            format!("execute_tool mcp:files.read < {attempt}"),
            format!("execute_tool mcp:files.write < {attempt}"),
            format!("chat m-1 < {attempt}"),
            format!("chat m-2 < {attempt}"),
        ]
    );
    let told = |place: usize, names: &[&str]| -> Value {
        names.iter().map(|name| seen[place].attributes[*name].clone()).collect()
    };
    let answer = [
        "gen_ai.operation.name",
        "gen_ai.provider.name",
        "gen_ai.request.model",
        "gen_ai.response.model",
        "gen_ai.usage.input_tokens",
        "gen_ai.usage.output_tokens",
    ];
    assert_eq!(told(3, &answer), json!(["chat", "gcp.gemini", "m-1", "m-1", 12, 3]));
    assert_eq!(told(7, &answer), json!(["chat", "anthropic", "m-2", "m-2", 5, 1]));
    let tool = ["gen_ai.operation.name", "gen_ai.tool.name", "gen_ai.tool.call.id"];
    assert_eq!(told(4, &tool), json!(["execute_tool", "mcp:files.read", "c1"]));
    assert_eq!(told(5, &["error.type"]), json!(["tool_failed"]));
    assert_eq!(told(6, &["error.type", "gen_ai.request.model"]), json!(["rate_limited", "m-1"]));
    let times: Vec<_> = seen[3..].iter().map(|span| (span.started_at, span.ended_at)).collect();
    let between = |from, to| (at(from), Some(at(to)));
    assert_eq!(
        times,
        [between(0, 40), between(40, 55), between(60, 70), between(70, 80), between(80, 95)]
    );
    let codes: Vec<SpanCode> = seen[3..].iter().map(|span| span.status.code).collect();
    assert_eq!(codes, [SpanCode::Ok, SpanCode::Ok, SpanCode::Error, SpanCode::Error, SpanCode::Ok]);
    assert!(!json!(seen).to_string().contains("a secret text"), "{seen:?}");
    let ids: std::collections::BTreeSet<_> = seen.iter().map(|span| &span.span_id).collect();
    assert_eq!(ids.len(), seen.len());
}

#[test]
fn what_tools_were_told_is_shown_where_that_is_asked_for() {
    let shown = calls(&given("a:ai"), Content::Shown);
    let said = &shown[4].attributes;
    assert_eq!(said["gen_ai.tool.call.arguments"], r#"{"path":"a secret text"}"#);
    assert_eq!(said["gen_ai.tool.call.result"], "key=[REDACTED]");
    let sensitive = given("a:ai").top(json!({ "metadata": { "complianceClass": "pii" } }));
    let hidden = calls(&sensitive, Content::Shown);
    assert!(!json!(hidden).to_string().contains("a secret text"), "{hidden:?}");
}

fn used(provider: &str, model: &str, input: u64, output: u64) -> AgentFact {
    let usage = json!({
        "provider": provider, "model": model, "inputTokens": input, "outputTokens": output,
    });
    AgentFact::Used(serde_json::from_value(usage).expect("usage"))
}

fn called(call_id: &str, tool: &str) -> AgentFact {
    AgentFact::ToolCalled(ToolCalled {
        tool: tool.to_owned(),
        call_id: call_id.to_owned(),
        args_hash: None,
        inputs: Some(json!({ "path": "a secret text" })),
        principal: None,
        transport: "mcp".to_owned(),
    })
}

fn returned(call_id: &str, tool: &str, result: Result<Value, Failure>) -> AgentFact {
    let (status, duration_ms) = match &result {
        Ok(_) => (ToolStatus::Ok, Some(15)),
        Err(_) => (ToolStatus::Error, None),
    };
    let (tool, call_id) = (tool.to_owned(), call_id.to_owned());
    AgentFact::ToolReturned(ToolReturned { tool, call_id, result, status, duration_ms })
}

fn invoked() -> AgentFact {
    AgentFact::Invoked(Invoked {
        model: None,
        model_class: "general".to_owned(),
        source: InvocationSource::RunApi,
        version: "1".to_owned(),
        channel: None,
        tools: 2,
        memory: false,
    })
}

fn fell_back() -> AgentFact {
    AgentFact::FellBack(ModelFallback {
        node_id: "a".into(),
        model_class: "general".to_owned(),
        original_provider: "gemini".to_owned(),
        original_model: "m-1".to_owned(),
        fallback_provider: "anthropic".to_owned(),
        fallback_model: "m-2".to_owned(),
        reason: "rate_limited".to_owned(),
    })
}

/// What a model that calls two tools and then fails over leaves in the log.
fn calls(flow: &Given, content: Content) -> Vec<Span> {
    let birth = birth(flow);
    let plan = flow.plan().expect("a plan");
    let mut run = Run::new(Arc::new(birth.clone()), Arc::new(plan));
    let mut log = run.decide(&Command::Start, at(0)).expect("a start");
    let attempt = run.tasks().next().expect("an attempt").attempt;
    let key = format!("key=sk-{}", "0123456789abcdef0123");
    let failed = Err(Failure::new("tool_failed", "m"));
    let facts = [
        (0, invoked(), 0),
        (40, used("gemini", "m-1", 12, 3), 0),
        (40, called("c1", "mcp:files.read"), 0),
        (60, returned("c1", "mcp:files.read", Ok(json!(key))), 0),
        (60, called("c2", "mcp:files.write"), 1),
        (70, returned("c2", "mcp:files.write", failed), 1),
        (80, fell_back(), 0),
        (95, used("anthropic", "m-2", 5, 1), 1),
    ];
    for (when, fact, place) in facts {
        let facts = vec![Fact::Agent { place, fact }];
        let tell = Command::RecordFacts { attempt: attempt.clone(), facts };
        log.extend(run.decide(&tell, at(when)).expect("current"));
    }
    spans_with(&birth, run.plan(), &log, &[], content)
}
