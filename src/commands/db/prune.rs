//! `callboard db prune`: removes the runs whose time is over by the rules of `[retention]`, or says which those are.

use std::sync::Arc;

use clap::Args;
use comfy_table::Cell;
use serde_json::{Value, json};

use callboard_engine::{
    Clock as _, EndedRuns, Removable, RemovableCount, RetentionPolicy, Store, StoreError,
    SystemClock, Webhooks, remove_runs,
};
use callboard_store::{PostgresStore, SqliteStore};

use super::{DatabaseArgs, Place};
use crate::args::environment;
use crate::config::Config;
use crate::exit::{CommandError, Exit};
use crate::screen::output;
use crate::wire::database::{seal_key, unconnected, unopened};

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  callboard db prune --dry-run
  callboard db prune --data /var/lib/callboard --config /etc/callboard/callboard.toml

The rules are those of [retention] in callboard.toml; the first that fits a run decides. A run that
somebody keeps (`callboard runs keep`), that a fork came from, or whose family still runs stays. A
host that serves does this by itself every minute: without --dry-run, the folder must not be in use.
A definition goes with the last run that began with it. The file becomes smaller over time.")]
pub(super) struct PruneArgs {
    #[command(flatten)]
    database: DatabaseArgs,
    /// Only say what would go, by rule, also while a host serves
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What one rule comes to.
struct Line {
    /// As in the file, from one on; the days of all other runs come last.
    rule: usize,
    of: EndedRuns,
    days: u64,
    count: RemovableCount,
}

pub(super) async fn run(args: PruneArgs) -> Result<Exit, CommandError> {
    let config = Config::load(args.database.config.as_deref())?;
    let policy = config.retention.policy();
    if !policy.removes() {
        return Err(CommandError::usage("no rule removes any run: every run is kept for ever")
            .hint("set runs_days or rules in the section [retention] of callboard.toml"));
    }
    let removable = policy.removable(SystemClock.now());
    let counts = match (args.database.place()?, args.dry_run) {
        (Place::Folder(folder), true) => {
            let meant: Vec<Removable> = removable.iter().map(|(_, it)| it.clone()).collect();
            let counts = SqliteStore::count_removable_in(&folder, &meant);
            counts.map_err(|error| unopened(&folder, &error))?
        }
        (Place::Folder(folder), false) => {
            let store = SqliteStore::open(&folder).map_err(|error| unopened(&folder, &error))?;
            let store = Arc::new(store);
            let counts = async {
                let counts = count(&removable, async |of| store.count_removable(of).await).await?;
                prune(store.clone(), &removable, counts).await
            };
            let counts = counts.await;
            store.shutdown().await;
            counts?
        }
        (Place::Shared(address), is_dry) => {
            let folder = args.database.data_folder()?;
            let store = PostgresStore::connect(&address, seal_key(environment, &folder)).await;
            let store = Arc::new(store.map_err(|error| unconnected(&error))?);
            let counts = async {
                let counts = count(&removable, async |of| store.count_removable(of).await).await?;
                if is_dry { Ok(counts) } else { prune(store.clone(), &removable, counts).await }
            };
            let counts = counts.await;
            store.shutdown().await;
            counts?
        }
    };
    let lines = lines(&policy, &removable, counts);
    if args.json {
        output::document(&document(&lines, args.dry_run))
    } else {
        show(&lines, args.dry_run)
    }
}

async fn count(
    removable: &[(usize, Removable)],
    of: impl AsyncFn(&Removable) -> Result<RemovableCount, StoreError>,
) -> Result<Vec<RemovableCount>, CommandError> {
    let mut counts = Vec::new();
    for (_, removable) in removable {
        counts.push(of(removable).await.map_err(unremoved)?);
    }
    Ok(counts)
}

/// Removes what was counted. No run is of two rules, so it does not matter that all were counted first.
async fn prune(
    store: Arc<dyn Store>,
    removable: &[(usize, Removable)],
    mut counts: Vec<RemovableCount>,
) -> Result<Vec<RemovableCount>, CommandError> {
    let webhooks = Webhooks::new(store.clone());
    for ((_, removable), count) in removable.iter().zip(&mut counts) {
        let gone = remove_runs(store.as_ref(), &webhooks, removable, || false).await;
        count.runs = gone.map_err(unremoved)? as u64;
    }
    Ok(counts)
}

fn unremoved(error: StoreError) -> CommandError {
    CommandError::failed(format!("runs were not removed: {error}"))
}

fn lines(
    policy: &RetentionPolicy,
    removable: &[(usize, Removable)],
    counts: Vec<RemovableCount>,
) -> Vec<Line> {
    let line = |((place, removable), count): (&(usize, Removable), RemovableCount)| {
        let keep = policy.0.get(*place).and_then(|rule| rule.keep).unwrap_or_default();
        Line { rule: place + 1, of: removable.of.clone(), days: keep.as_secs() / 86_400, count }
    };
    removable.iter().zip(counts).map(line).collect()
}

/// What a rule is about, name by name.
fn names(of: &EndedRuns) -> Vec<(&'static str, String)> {
    let EndedRuns { tenant, workflow, agent, status } = of;
    let named = [
        ("tenant", tenant.as_ref().map(ToString::to_string)),
        ("workflow", workflow.as_ref().map(ToString::to_string)),
        ("agent", agent.clone()),
        ("status", status.map(|status| status.as_str().to_owned())),
    ];
    named.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn document(lines: &[Line], is_dry: bool) -> Value {
    let rules = lines.iter().map(|line| {
        let mut shown = json!({
            "rule": line.rule, "days": line.days, "runs": line.count.runs, "bytes": line.count.bytes,
        });
        for (name, value) in names(&line.of) {
            shown[name] = json!(value);
        }
        shown
    });
    json!({ "dryRun": is_dry, "rules": rules.collect::<Vec<_>>() })
}

fn show(lines: &[Line], is_dry: bool) -> Result<Exit, CommandError> {
    let rows = lines.iter().map(|line| {
        let of: Vec<String> =
            names(&line.of).into_iter().map(|(name, value)| format!("{name} {value}")).collect();
        let of = if of.is_empty() { "all other runs".to_owned() } else { of.join(", ") };
        [
            Cell::new(line.rule),
            Cell::new(of),
            Cell::new(line.days),
            Cell::new(line.count.runs),
            Cell::new(format!("{:.1} MiB", line.count.bytes as f64 / f64::from(1 << 20))),
        ]
    });
    let counted = if is_dry { "would go" } else { "removed" };
    output::table(["rule", "about", "days", counted, "logs"], rows.collect())?;
    Ok(Exit::Done)
}
