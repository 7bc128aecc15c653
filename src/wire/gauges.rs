//! What the host's graphs show of its database: counted again and again, and the same after a restart.
//!
//! Hosts of one database show the same numbers, each of them all.

use std::sync::Arc;
use std::time::Duration;

use metrics::{counter, gauge};
use tokio_util::sync::CancellationToken;

use callboard_engine::{
    Census, Engine, Kind, Spending, Store, StoreError, SystemClock, Usage, WaitReason, Waiting,
};
use callboard_engine::{Clock as _, DrivingLoad, Elsewhere};
use callboard_protocol::{InterruptKind, Timestamp};

use super::database::Database;

/// Between two counts, where counting takes no time.
const SHORTEST_REST: Duration = Duration::from_secs(5);
/// Where it takes longer, it gets a twentieth of the time.
const RESTS: u32 = 20;

/// Why runs wait, as a graph names it. A retry counts as a timer.
const REASONS: [(WaitReason, &str); 9] = [
    (WaitReason::NoFreePlace, "no-free-place"),
    (WaitReason::ConcurrencyLimit, "concurrency-limit"),
    (WaitReason::Priority, "priority"),
    (WaitReason::ProviderLimit, "provider-limit"),
    (WaitReason::Question, "question"),
    (WaitReason::Budget, "budget"),
    (WaitReason::Child, "child"),
    (WaitReason::Timer, "timer"),
    (WaitReason::Paused, "paused"),
];

#[derive(Debug)]
pub(super) struct Gauges {
    database: Database,
    engine: Engine,
    spending: Spending,
    /// Whether the last count went wrong: a database that is away is reported once.
    is_failing: bool,
}

impl Gauges {
    pub(super) fn of(database: Database, engine: Engine, store: Arc<dyn Store>) -> Self {
        describe();
        Self { database, engine, spending: Spending::new(store), is_failing: false }
    }

    /// Counts and rests until told to stop.
    pub(super) async fn keep(mut self, stop: CancellationToken) {
        loop {
            let began = SystemClock.counted();
            if stop.run_until_cancelled(self.tick()).await.is_none() {
                return;
            }
            let took = SystemClock.counted().since(began);
            let rest = SHORTEST_REST.max(took.saturating_mul(RESTS));
            if stop.run_until_cancelled(tokio::time::sleep(rest)).await.is_none() {
                return;
            }
        }
    }

    async fn tick(&mut self) {
        show_load(self.engine.driving_load());
        match self.count().await {
            Ok(()) => self.is_failing = false,
            Err(error) => {
                counter!("callboard_database_count_failures_total").increment(1);
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::warn!(%error, "the database is not counted; its graphs stand still");
                }
            }
        }
    }

    async fn count(&self) -> Result<(), StoreError> {
        let (quotas, now) = (self.engine.quotas(), self.engine.clock().now());
        if !quotas.is_empty() {
            quotas.counted(self.database.stored_runs().await?, now);
        }
        let census = self.database.census().await?;
        show(&census, self.engine.waiting(), self.engine.clock().now());
        for ((provider, model), used) in self.spending.of_models().await? {
            show_usage(provider, model, used);
        }
        let hosts = match &self.database {
            Database::Embedded(_) => 1,
            Database::Shared(store) => {
                store.hosts().await?.into_iter().filter(|host| !host.is_gone).count()
            }
        };
        gauge!("callboard_database_hosts").set(number(hosts as u64));
        Ok(())
    }
}

fn describe() {
    metrics::describe_gauge!("callboard_runs_waiting", "Runs that wait, by reason");
    metrics::describe_gauge!(
        "callboard_runs_waiting_oldest_seconds",
        "The longest wait, by reason"
    );
    metrics::describe_gauge!("callboard_runs_held", "Runs that hosts of the database hold");
    metrics::describe_gauge!(
        "callboard_claims_held",
        "Places for runs that this process has taken"
    );
    metrics::describe_gauge!("callboard_claims_limit", "Places for runs that this process has");
    metrics::describe_gauge!("callboard_claims_bytes", "What the runs of this process hold");
    metrics::describe_counter!("callboard_claims_lost_total", "Claims lost while runs were driven");
    metrics::describe_gauge!("callboard_questions_open", "Questions without an answer, by kind");
    metrics::describe_gauge!("callboard_questions_oldest_seconds", "The oldest question, by kind");
    metrics::describe_gauge!(
        "callboard_deliveries_waiting",
        "Deliveries on their way out, by kind"
    );
    metrics::describe_gauge!("callboard_dead_letters", "Deliveries that were given up, by kind");
    metrics::describe_gauge!("callboard_work_waiting", "Work items before their members");
    metrics::describe_gauge!("callboard_database_bytes", "What the database takes on its disk");
    metrics::describe_gauge!("callboard_database_hosts", "Hosts on this database");
    metrics::describe_counter!(
        "callboard_database_count_failures_total",
        "Counts of the database that came to nothing"
    );
    metrics::describe_counter!("callboard_schedule_slots_total", "Slots of schedules, by outcome");
    metrics::describe_counter!(
        "callboard_webhook_attempts_total",
        "Attempts at deliveries, by outcome"
    );
    metrics::describe_counter!("callboard_model_calls_total", "Calls of models, of all time");
    metrics::describe_counter!(
        "callboard_model_unpriced_calls_total",
        "Those without a known price"
    );
    metrics::describe_counter!("callboard_model_tokens_total", "Tokens, of all time");
    metrics::describe_gauge!("callboard_model_cost_usd", "Estimated dollars, of all time");
    // A rise from nothing is seen only where there was a nought before.
    counter!("callboard_claims_lost_total").absolute(0);
    counter!("callboard_database_count_failures_total").absolute(0);
    for outcome in ["fired", "skipped", "failed"] {
        counter!("callboard_schedule_slots_total", "outcome" => outcome).absolute(0);
    }
    for outcome in ["delivered", "moot", "failed"] {
        counter!("callboard_webhook_attempts_total", "outcome" => outcome).absolute(0);
    }
}

fn show_load(load: DrivingLoad) {
    gauge!("callboard_claims_held").set(number(load.runs as u64));
    gauge!("callboard_claims_limit").set(number(load.most_runs as u64));
    gauge!("callboard_claims_bytes").set(number(load.bytes as u64));
}

fn show(census: &Census, known: &Waiting, now: Timestamp) {
    let age = |since: Option<Timestamp>| since.map_or(0.0, |since| now.since(since).as_secs_f64());
    for (reason, name) in REASONS {
        let (runs, since) = census.waiting(reason, known);
        gauge!("callboard_runs_waiting", "reason" => name).set(number(runs));
        gauge!("callboard_runs_waiting_oldest_seconds", "reason" => name).set(age(since));
    }
    gauge!("callboard_runs_held").set(number(census.held()));
    for kind in InterruptKind::ALL {
        let open = census.questions.iter().find(|(known, ..)| *known == kind);
        let (count, since) = open.map_or((0, None), |(_, count, since)| (*count, Some(*since)));
        let name = kind.as_str();
        gauge!("callboard_questions_open", "interrupt_kind" => name).set(number(count));
        gauge!("callboard_questions_oldest_seconds", "interrupt_kind" => name).set(age(since));
    }
    for (kind, name) in [(Kind::WebhookDelivery, "webhook"), (Kind::Callback, "callback")] {
        let waiting = number(census.records_of(kind));
        gauge!("callboard_deliveries_waiting", "kind" => name).set(waiting);
    }
    for (kind, name) in [(Kind::WebhookDeadLetter, "webhook"), (Kind::InboundDeadLetter, "trigger")]
    {
        gauge!("callboard_dead_letters", "kind" => name).set(number(census.records_of(kind)));
    }
    gauge!("callboard_work_waiting").set(number(census.records_of(Kind::WaitingWork)));
    gauge!("callboard_database_bytes").set(number(census.bytes));
}

fn show_usage(provider: String, model: String, used: Usage) {
    let labels = [("provider", provider), ("model", model)];
    counter!("callboard_model_calls_total", &labels).absolute(used.calls);
    counter!("callboard_model_unpriced_calls_total", &labels).absolute(used.unpriced_calls);
    gauge!("callboard_model_cost_usd", &labels).set(used.cost_usd);
    let [provider, model] = labels;
    for (kind, tokens) in [
        ("input", used.input_tokens),
        ("output", used.output_tokens),
        ("cached", used.cached_tokens),
    ] {
        let labels = [provider.clone(), model.clone(), ("kind", kind.to_owned())];
        counter!("callboard_model_tokens_total", &labels).absolute(tokens);
    }
}

#[expect(clippy::cast_precision_loss, reason = "graphs need no exact number")]
fn number(count: u64) -> f64 {
    count as f64
}
