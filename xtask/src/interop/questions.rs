//! The fixtures that ask: each driven to its end by the answers that the protocol expects.

mod cases;
mod definitions;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::expectations::Observed;
use super::session::Session;
use super::{KEY, READER};
use crate::wire::Request;

const SOON: Duration = Duration::from_secs(5);

/// One run of one fixture that asks.
struct Case {
    fixture: &'static str,
    /// What makes this run of the fixture different from the plain one.
    variant: &'static str,
    node: &'static str,
    /// The status in which it waits.
    waits: &'static str,
    steps: &'static [Step],
    ends: &'static str,
    events: &'static [&'static str],
    also: &'static [(&'static str, Check)],
}

type Check = fn(&Observed) -> Result<()>;

/// What a person does while the run waits.
struct Step {
    by: By,
    answer: fn() -> Value,
    expect: Expect,
}

enum By {
    /// A key with every scope.
    Key,
    /// A key that may only read.
    Reader,
    Nobody,
    /// The link that the snapshot shows.
    Link,
}

enum Expect {
    /// Taken, and the run is then this.
    Now(&'static str),
    /// Refused, and the run waits as before.
    Refused(u16),
    /// Taken, and the run asks once more.
    AsksAgain,
}

/// Every fixture that discovery must therefore list.
pub(crate) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = cases::SHIPPED.iter().map(|case| case.fixture).collect();
    names.dedup();
    names
}

pub(crate) async fn check(session: &mut Session) -> Result<()> {
    for definition in definitions::all() {
        let answer =
            session.ask(Request::post("/v1/host/callboard/workflows", &definition)).await?;
        session.note("workflow-definition", &definition);
        let name = format!("{}: is registered", definition["id"].as_str().unwrap_or_default());
        let outcome = match answer.status {
            200 | 201 => session.settle(),
            _ => Err(anyhow::anyhow!("{}: {}", answer.status, answer.text())),
        };
        session.book.enter(&name, outcome);
    }
    for case in cases::SHIPPED.iter().chain(&cases::WRITTEN) {
        let gap = if case.variant.is_empty() { "" } else { " " };
        let name = format!("{}{gap}{}", case.fixture, case.variant);
        if session.book.wants(&name) {
            match run(session, case).await {
                Ok(observed) => enter(session, case, &name, &observed),
                Err(error) => session.book.enter(&name, Err(error)),
            }
        }
    }
    let outcome = cancelled(session).await;
    session.book.enter("conformance-approval cancelled: its question goes with it", outcome);
    Ok(())
}

fn enter(session: &mut Session, case: &Case, name: &str, observed: &Observed) {
    let ends = || {
        ensure!(observed.snapshot["status"] == case.ends, "ended {}", observed.snapshot["status"]);
        observed.in_order(case.events)
    };
    session.book.enter(&format!("{name}: {} and {}", case.ends, case.events.join(", ")), ends());
    session.book.enter(&format!("{name}: the log is whole and ends once"), observed.is_a_log());
    session.book.enter(&format!("{name}: no link is in the log"), no_link(observed));
    for (what, check) in case.also {
        session.book.enter(&format!("{name}: {what}"), check(observed));
    }
    let settled = session.settle();
    session.book.enter(&format!("{name}: every body matches its schema"), settled);
}

async fn run(session: &mut Session, case: &Case) -> Result<Observed> {
    let run = session.create(&json!({ "workflowId": case.fixture })).await?;
    let mut asked = 1;
    for step in case.steps {
        waits(session, case, &run, asked).await?;
        let request = answer(session, case, &run, step).await?;
        let told = session.send(&request).await?;
        match step.expect {
            Expect::Refused(status) => {
                ensure!(
                    told.status == status,
                    "{} instead of {status}: {}",
                    told.status,
                    told.text()
                );
                waits(session, case, &run, asked).await?;
            }
            Expect::Now(status) => {
                ensure!(told.status == 200, "{}: {}", told.status, told.text());
                let body = told.json()?;
                ensure!(body["status"] == status && body["runId"] == run.as_str(), "{body}");
            }
            Expect::AsksAgain => {
                ensure!(told.status == 200, "{}: {}", told.status, told.text());
                asked += 1;
            }
        }
    }
    session.observe(&run, SOON).await
}

/// The run waits at its node, and the inbox says the same.
async fn waits(session: &mut Session, case: &Case, run: &str, asked: usize) -> Result<()> {
    let times = |page: &Value| {
        let events = page["events"].as_array().into_iter().flatten();
        events.filter(|event| event["type"] == "node.suspended").count()
    };
    let path = format!("/v1/runs/{run}/events/poll?timeout=1");
    let mut tries = 0;
    while times(&session.expect(200, Request::get(path.clone())).await?) < asked {
        tries += 1;
        ensure!(tries < 500, "it does not ask");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let snapshot = session.snapshot(run).await?;
    ensure!(snapshot["status"] == case.waits, "status {}", snapshot["status"]);
    ensure!(snapshot["currentNodeId"] == case.node, "it waits at {}", snapshot["currentNodeId"]);
    let inbox = Request::get(format!("/v1/host/callboard/inbox?runId={run}"));
    let inbox = session.expect(200, inbox).await?;
    let open = inbox["interrupts"].as_array().context("no list of interrupts")?;
    ensure!(open.len() == 1 && open[0]["nodeId"] == case.node, "the inbox says {inbox}");
    Ok(())
}

async fn answer(session: &mut Session, case: &Case, run: &str, step: &Step) -> Result<Request> {
    let body = json!({ "resumeValue": (step.answer)() });
    let keyed = Request::post(format!("/v1/runs/{run}/interrupts/{}", case.node), &body);
    Ok(match step.by {
        By::Key => keyed.bearer(KEY),
        By::Reader => keyed.bearer(READER),
        By::Nobody => keyed,
        By::Link => {
            let snapshot = session.snapshot(run).await?;
            let link = snapshot["interrupt"]["callbackUrl"].as_str().context("no link")?.to_owned();
            let shown = session.send(&Request::get(link.clone())).await?;
            let shown = shown.json()?;
            for key in ["kind", "key", "data", "requestedAt", "expiresAt"] {
                ensure!(shown.get(key).is_some(), "the link shows no {key}: {shown}");
            }
            Request::post(link, &body)
        }
    })
}

async fn cancelled(session: &mut Session) -> Result<()> {
    let run = session.create(&json!({ "workflowId": "conformance-approval" })).await?;
    session.until(&run, "node.suspended").await?;
    session.expect(200, Request::post(format!("/v1/runs/{run}/cancel"), &json!({}))).await?;
    let observed = session.observe(&run, SOON).await?;
    ensure!(observed.snapshot["status"] == "cancelled", "{}", observed.snapshot["status"]);
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let late = Request::post(format!("/v1/runs/{run}/interrupts/gate"), &accept);
    let late = session.expect(409, late).await?;
    ensure!(late["error"] == "run_terminal", "{late}");
    let inbox = Request::get(format!("/v1/host/callboard/inbox?runId={run}"));
    let inbox = session.expect(200, inbox).await?;
    ensure!(inbox["interrupts"] == json!([]), "{inbox}");
    session.settle()
}

fn no_link(run: &Observed) -> Result<()> {
    let log = Value::from(run.events.clone()).to_string();
    ensure!(!log.contains("interruptToken") && !log.contains("/v1/interrupts/"), "there is one");
    Ok(())
}
