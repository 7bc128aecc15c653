//! What a test was told by the host, and whether the host still stands by it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use callboard_protocol::{Event, RunEvent, Timestamp};

use crate::api::Api;

/// One request for a run, and the answer if one came.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) key: String,
    pub(crate) workflow: &'static str,
    pub(crate) body: Value,
    /// What is done to the run right after its creation.
    pub(crate) then: Option<&'static str>,
    pub(crate) after_ms: u64,
    pub(crate) run: Option<String>,
}

/// A time without a host: from the last moment of one to the first of the next.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outage {
    from: Timestamp,
    until: Option<Timestamp>,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    orders: Vec<Order>,
    outages: Vec<Outage>,
    /// Logs of runs that had ended, byte for byte.
    ended: BTreeMap<String, String>,
}

impl Ledger {
    pub(crate) fn add(&mut self, orders: Vec<Order>) {
        self.orders.extend(orders);
    }

    pub(crate) fn begin_outage(&mut self, from: Timestamp) {
        self.outages.push(Outage { from, until: None });
    }

    pub(crate) fn end_outage(&mut self, at: Timestamp) {
        if let Some(outage) = self.outages.last_mut() {
            outage.until = Some(at);
        }
    }

    /// How many ended runs are on record.
    pub(crate) fn kept(&self) -> usize {
        self.ended.len()
    }

    /// Takes down the logs of those runs that have ended by now.
    pub(crate) async fn keep_ended(&mut self, api: &Api) -> Result<()> {
        for run in self.orders.iter().filter_map(|order| order.run.as_ref()) {
            if matches!(api.status(run).await?.as_str(), "completed" | "failed" | "cancelled") {
                self.ended.insert(run.clone(), api.log(run).await?);
            }
        }
        Ok(())
    }

    /// A run that has ended never changes again.
    pub(crate) async fn compare(&self, api: &Api) -> Result<()> {
        for (run, before) in &self.ended {
            let after = api.log(run).await?;
            ensure!(*before == after, "the log of {run} changed:\n{before}\n{after}");
        }
        Ok(())
    }

    /// Sends every request again: whoever was told of a run is told of the same one, and the others get theirs.
    pub(crate) async fn repeat_every_request(&mut self, api: &Api) -> Result<()> {
        for order in &mut self.orders {
            let again = api.create(&order.body, &order.key).await?;
            let first = order.run.get_or_insert_with(|| again.clone());
            ensure!(*first == again, "{} came to {first} and then to {again}", order.key);
            ensure!(
                *first == api.create(&order.body, &order.key).await?,
                "{} comes to one run",
                order.key
            );
        }
        Ok(())
    }

    pub(crate) async fn finish_all(&self, api: &Api) -> Result<()> {
        for order in &self.orders {
            let run = order.run.as_ref().context("an order without a run")?;
            let status = api.finish(run).await?;
            let expected = if order.workflow == "flaky" { "failed" } else { "completed" };
            let is_expected =
                status == expected || (status == "cancelled" && order.then == Some("/cancel"));
            ensure!(is_expected, "{} ended as {status}: {}", order.workflow, api.log(run).await?);
        }
        Ok(())
    }

    /// Every run is listed, and none twice.
    pub(crate) async fn check_list(&self, api: &Api) -> Result<()> {
        let mut listed = BTreeSet::new();
        for run in all_runs(api).await? {
            ensure!(listed.insert(run.clone()), "{run} is listed twice");
        }
        let known: BTreeSet<String> =
            self.orders.iter().filter_map(|order| order.run.clone()).collect();
        ensure!(
            listed == known,
            "listed but unknown, or known but not listed: {:?}",
            listed.symmetric_difference(&known)
        );
        Ok(())
    }

    pub(crate) async fn check_logs(&self, api: &Api) -> Result<()> {
        let mut taken_over = 0;
        for order in &self.orders {
            let run = order.run.as_ref().context("an order without a run")?;
            let text = api.log(run).await?;
            let events = read_log(&text)?;
            let checked = check_shape(&events).and_then(|()| check_story(order, &events));
            taken_over += checked
                .and_then(|()| self.count_takeovers(&events))
                .with_context(|| format!("the log of {run}, {}: {text}", order.workflow))?;
        }
        ensure!(taken_over > 0, "no kill hit a run: choose another seed");
        Ok(())
    }

    /// A run that was going on when its host died says so before it goes on.
    fn count_takeovers(&self, events: &[RunEvent]) -> Result<usize> {
        let mut found = 0;
        for pair in events.windows(2) {
            let [before, after] = pair else { continue };
            let is_across = |outage: &Outage| {
                before.timestamp <= outage.from
                    && outage.until.is_some_and(|until| after.timestamp >= until)
            };
            if self.outages.iter().any(is_across) {
                ensure!(
                    after.kind == "run.resumed",
                    "{} follows {} across a kill",
                    after.kind,
                    before.kind
                );
                found += 1;
            }
        }
        Ok(found)
    }
}

/// The ids of every run on the host.
pub(crate) async fn all_runs(api: &Api) -> Result<Vec<String>> {
    let mut runs = Vec::new();
    let mut path = "/v1/host/callboard/runs?limit=100".to_owned();
    loop {
        let page: Value = serde_json::from_str(&api.get(&path).await?)?;
        for run in page["runs"].as_array().context("a list of runs")? {
            runs.push(run["runId"].as_str().context("a run id")?.to_owned());
        }
        match page["nextCursor"].as_str() {
            Some(cursor) => path = format!("/v1/host/callboard/runs?limit=100&cursor={cursor}"),
            None => return Ok(runs),
        }
    }
}

fn read_log(text: &str) -> Result<Vec<RunEvent>> {
    let mut page: Value = serde_json::from_str(text)?;
    Ok(serde_json::from_value(page["events"].take())?)
}

/// What holds for every log that has ended.
fn check_shape(events: &[RunEvent]) -> Result<()> {
    for (expected, event) in (0..).zip(events) {
        ensure!(event.sequence == expected, "sequence {} where {expected} belongs", event.sequence);
    }
    ensure!(
        events.first().is_some_and(|event| event.kind == "run.started"),
        "it begins with run.started"
    );
    let terminal = events.iter().filter(|event| Event::is_terminal(&event.kind)).count();
    ensure!(terminal == 1, "{terminal} terminal events");
    ensure!(
        events.last().is_some_and(|event| Event::is_terminal(&event.kind)),
        "it ends with the terminal event"
    );
    let starts = events.iter().filter(|event| event.kind == "run.started").count();
    ensure!(starts == 1, "{starts} starts");
    ensure!(events.is_sorted_by_key(|event| event.timestamp), "time goes on");
    check_visits(events)
}

/// A finished visit of a node is never finished again.
fn check_visits(events: &[RunEvent]) -> Result<()> {
    let mut visit_of = BTreeMap::new();
    let mut completed = BTreeSet::new();
    for event in events {
        match Event::read(&event.kind, event.node_id.clone(), event.payload.clone()) {
            Event::NodeStarted(started) => {
                visit_of.insert(started.node_id, started.visit);
            }
            Event::NodeCompleted(done) => {
                let Some(visit) = visit_of.get(&done.node_id) else {
                    bail!("{} ends before it starts", done.node_id)
                };
                ensure!(
                    completed.insert((done.node_id.clone(), *visit)),
                    "{} visit {visit} ends twice",
                    done.node_id
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// What holds for a run of one workflow that nobody stopped.
fn check_story(order: &Order, events: &[RunEvent]) -> Result<()> {
    let count = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
    if events.last().is_some_and(|event| event.kind == "run.cancelled") {
        return Ok(());
    }
    let (completed, expected) = match order.workflow {
        "noop" | "delay" | "speech" => (count("node.completed"), 1),
        "chain" => (count("node.completed"), 10),
        "rounds" => (count("node.completed"), 7),
        "branches" => (count("channel.written"), 2),
        "flaky" => (count("node.retried"), 1),
        other => bail!("no story of {other}"),
    };
    ensure!(completed == expected, "{completed} where {expected} were due");
    if order.workflow == "speech" {
        let said: String =
            events.iter().filter_map(|event| event.payload["chunk"].as_str()).collect();
        ensure!(said == "one two three", "it said {said:?}");
    }
    Ok(())
}

pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}
