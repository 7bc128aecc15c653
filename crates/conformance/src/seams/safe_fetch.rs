//! One fetch through the guard, as the suite asks for it: by an agent that may fetch, within a run of its own.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use callboard_agents::ToolSurface;
use callboard_engine::{Order, Target};
use callboard_protocol::{Object, RunId};
use callboard_server::extend::{Answer, Caller, Host, Problem, Shaped};
use serde::Deserialize;
use serde_json::{Value, json};

use super::stage::settled;

const FETCH: &str = "openwop:core.openwop.http.fetch";

/// The agent that fetches for whoever asks at a door.
const FETCHER: &str = "core.conformance.fetcher.agent";

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Asked {
    url: String,
    #[serde(default)]
    init: Object,
    /// Where the name is pretended to lead by the time somebody connects.
    simulate_rebind_to: Option<String>,
}

pub(super) async fn safe_fetch(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(asked): Shaped<Asked>,
) -> Result<Answer, Problem> {
    let fetched = fetch(&host, &caller, &asked).await?;
    let mut shown = json!({ "outcome": fetched.outcome });
    let told = [
        ("status", fetched.returned["outcome"]["status"].clone()),
        ("blocked", fetched.blocked.into()),
        ("toolCalled", fetched.called),
        ("toolReturned", fetched.returned),
    ];
    for (name, value) in told.into_iter().filter(|(_, value)| !value.is_null()) {
        shown[name] = value;
    }
    Ok(Answer::of(StatusCode::OK, &shown))
}

/// The same, for whoever reads the log of the run.
pub(super) async fn safe_fetch_run(
    State(host): State<Arc<Host>>,
    caller: Caller,
    Shaped(asked): Shaped<Asked>,
) -> Result<Answer, Problem> {
    let fetched = fetch(&host, &caller, &asked).await?;
    let shown = json!({ "runId": fetched.run, "outcome": fetched.outcome });
    Ok(Answer::of(StatusCode::OK, &shown))
}

/// What came of a fetch, as the log of its run tells it.
struct Fetched {
    run: RunId,
    outcome: &'static str,
    blocked: Option<&'static str>,
    called: Value,
    returned: Value,
}

async fn fetch(host: &Host, caller: &Caller, asked: &Asked) -> Result<Fetched, Problem> {
    let mut arguments = asked.init.clone();
    arguments.insert("url".to_owned(), resolved(asked)?.into());
    let (run, events) = fetch_by_agent(host, caller, &arguments).await?;
    let told = |kind: &str| {
        let event = events.iter().find(|event| event["type"] == kind);
        event.map(|event| event["payload"].clone()).unwrap_or_default()
    };
    let (called, returned) = (told("agent.toolCalled"), told("agent.toolReturned"));
    let (outcome, blocked) = match returned["error"]["code"].as_str() {
        // A header that the tool does not take, so there was no call.
        _ if called.is_null() && asks_for_upgrade(&asked.init) => ("blocked", Some("upgrade")),
        _ if called.is_null() => {
            return Err(Problem::invalid_at("init", "has something that no fetch here takes"));
        }
        None => ("fetched", None),
        Some("tool_refused") => ("blocked", Some("ssrf")),
        Some(_) => ("failed", None),
    };
    Ok(Fetched { run, outcome, blocked, called, returned })
}

/// Has the suite's agent fetch once, and returns the run with its log.
pub(super) async fn fetch_by_agent(
    host: &Host,
    caller: &Caller,
    arguments: &Object,
) -> Result<(RunId, Vec<Value>), Problem> {
    let toolbox = &*host.app.tools.toolbox;
    let surface = ToolSurface::assemble(toolbox, &caller.scope, &[FETCH.to_owned()]).await;
    let name = surface.offers().next().map(|offer| offer.name.to_owned());
    let name = name.ok_or_else(|| Problem::no_such("tool"))?;
    let arguments = Value::Object(arguments.clone()).to_string();
    if arguments.contains("]]") {
        return Err(Problem::invalid(
            "brackets that follow each other cannot be told to the agent",
        ));
    }
    let task = json!({ "text": format!("[[scripted: tool {name} {arguments}]]") });
    let ai = json!({ "provider": "scripted" });
    let order = Order {
        inputs: task.as_object().cloned().unwrap_or_default(),
        configurable: Object::from_iter([("ai".to_owned(), ai)]),
        ..Order::new(Target::Agent(FETCHER.to_owned()), caller.owner(), caller.scope.mode)
    };
    let run = host.app.engine.create(order, None).await?.run;
    let events = settled(host, caller, &run).await?;
    Ok((run, events))
}

/// The guard judges an address in a URL as it judges one that a name led to.
fn resolved(asked: &Asked) -> Result<String, Problem> {
    let Some(address) = &asked.simulate_rebind_to else { return Ok(asked.url.clone()) };
    let wrong = || Problem::invalid_at("url", "must be an address with a host");
    let uri: Uri = asked.url.parse().map_err(|_| wrong())?;
    let host = uri.host().ok_or_else(wrong)?;
    let address = if address.contains(':') { format!("[{address}]") } else { address.clone() };
    Ok(asked.url.replacen(host, &address, 1))
}

fn asks_for_upgrade(init: &Object) -> bool {
    let headers = init.get("headers").and_then(Value::as_object);
    headers.into_iter().flatten().any(|(name, value)| {
        let says_upgrade = |text: &str| text.to_ascii_lowercase().contains("upgrade");
        name.eq_ignore_ascii_case("upgrade")
            || name.eq_ignore_ascii_case("connection") && value.as_str().is_some_and(says_upgrade)
    })
}
