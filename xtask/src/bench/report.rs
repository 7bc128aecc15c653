//! Figures as a table, and the place in the documentation that holds it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};

use super::console::Console;
use super::definitions::{CHAIN_NODES, ITEMS, events};
use super::fires::Fires;
use super::lists::Lists;
use super::live::{Live, TURNS};
use super::load::{Sample, percentile};
use super::measure::{CALLERS, Figures};
use super::paths::{CALLERS as CALLERS_OF_PATHS, Cost, Paths, USES, Use};
use super::steps::{CASES, Steps};
use super::together::Together;

pub(crate) const PAGE: &str = "docs/background/performance.md";

const BEGIN: &str = "<!-- begin: cargo xtask bench --write -->";
const END: &str = "<!-- end -->";

pub(crate) fn table(figures: &Figures) -> String {
    let mut table = Table::new(figures);
    if figures.flushes > 0.0 {
        runs(&mut table, figures);
    }
    if let Some(figures) = &figures.fires {
        fires(&mut table, figures);
    }
    if let Some(figures) = &figures.live {
        live(&mut table, figures);
    }
    if let Some(figures) = &figures.paths {
        paths(&mut table, figures);
    }
    if let Some(figures) = &figures.lists {
        lists(&mut table, figures);
    }
    if let Some(figures) = &figures.console {
        console(&mut table, figures);
    }
    table.text
}

fn paths(table: &mut Table, figures: &Paths) {
    let cost = |cost: &Cost| {
        format!("{}/s, {} of processor", grouped(cost.per_second), time(cost.processor))
    };
    let [own, others @ ..] = figures.costs.as_slice() else { return };
    let create = &own[0];
    for (place, used) in USES.into_iter().enumerate() {
        let mut figure = cost(&own[place]);
        let goal = match used {
            Use::Follow => {
                let share = ratio(own[place].processor, create.processor);
                figure.push_str(&format!("; {share:.2} times create"));
                "processor at most 1.6 times create"
            }
            Use::Read => {
                let share = ratio(own[place].processor, figures.bare.processor);
                figure.push_str(&format!("; {share:.2} times a bare handler"));
                "processor at most 3 times a bare handler"
            }
            Use::Create => {
                figure.push_str(&format!("; p99 {:.2} times p50", ratio(create.p99, create.p50)));
                "p99 at most 2.5 times p50"
            }
            Use::Poll | Use::PollChain | Use::Snapshots | Use::List => "",
        };
        table.row(&format!("{}, concurrency {CALLERS_OF_PATHS}", used.name()), figure, goal);
        let stages = figures.stages[place].of(own[place].processor);
        if !stages.is_empty() {
            let parts = stages.iter().map(|(name, part)| format!("{name} {}", time(*part)));
            table.row("— of it", parts.collect::<Vec<_>>().join(", "), "");
        }
        for other in others {
            let now = own[place].per_second / other[place].per_second;
            let processor = ratio(own[place].processor, other[place].processor);
            let figure = format!(
                "{}; now {now:.2} of its rate, {processor:.2} of its processor time",
                cost(&other[place])
            );
            table.row("— the other binary, by turns", figure, "rate at least 0.95");
        }
    }
    table.row("bare handler with the bytes of a run", cost(&figures.bare), "");
}

fn lists(table: &mut Table, figures: &Lists) {
    for (name, [few, many]) in &figures.filters {
        table.row(
            &format!("list by {name}, among {} runs", grouped(figures.runs as f64)),
            format!("{} ({:.2} times that among 1,000)", time(*many), ratio(*many, *few)),
            "at most 1.3",
        );
    }
}

fn runs(table: &mut Table, figures: &Figures) {
    table.row("flushes of a 4 KB page per second", grouped(figures.flushes), "");
    for (place, callers) in CALLERS.into_iter().enumerate() {
        let raw = figures.raw[place];
        table.row(
            &format!("bare SQLite group commit, callers {callers}"),
            format!("{} runs/s", grouped(raw)),
            "",
        );
        if let Some(sample) = &figures.noop[place] {
            let target = if callers == 64 { "at least 0.50 of bare SQLite" } else { "" };
            let reached = format!(
                "{} runs/s ({:.2})",
                grouped(sample.per_second()),
                sample.per_second() / raw
            );
            table.row(&format!("no-op runs to their end, concurrency {callers}"), reached, target);
            table.row("— create, p50 / p99", both(&sample.creates), "");
            table.row("— create to end, p50 / p99", both(&sample.ends), "");
        }
    }
    let commits = figures
        .commits_per_run
        .map_or_else(|| "not observable".to_owned(), |commits| format!("{commits:.2}"));
    table.row("commits per no-op run, concurrency 1", commits, "2, at most 3");
    table.row(
        "processor time of the host per no-op run, concurrency 64",
        time(figures.cpu_per_run),
        "",
    );
    table.row("— of the load generator, on the same cores", time(figures.generator_per_run), "");
    chains(table, figures);
    steps(table, &figures.steps);
    table.row("stream lag, timestamp to arrival, p50 / p99", both(&figures.lags), "");
    table.row("ready after start, empty folder", time(figures.ready_empty), "under 300 ms");
    table.row("ready after start, with all runs of this benchmark", time(figures.ready_full), "");
    table.row("resident, idle", megabytes(figures.idle_kb), "under 40 MB");
    table.row(
        &format!("resident after {} runs", grouped(figures.held_runs as f64)),
        megabytes(figures.held_kb),
        "",
    );
    let streams = format!("{:.1} KB each", figures.stream_kb);
    table.row(
        &format!("{} open streams", grouped(figures.streams as f64)),
        streams,
        "under 60 KB each",
    );
    together(table, &figures.together);
}

fn fires(table: &mut Table, fires: &Fires) {
    let rate = |value: f64| format!("{}/s", grouped(value));
    table.row("creations of runs acknowledged, concurrency 64", rate(fires.creates), "");
    table.row(
        "signed posts acknowledged, concurrency 64",
        format!("{} ({:.2})", rate(fires.posts), fires.posts / fires.creates),
        "the rate of creations",
    );
    table.row(
        &format!("{} schedules due at one moment, the last has its run", grouped(fires.due as f64)),
        format!("after {:.1} s", fires.begun_within.as_secs_f64()),
        "within 60 s, each once",
    );
    table.row(
        &format!("idle with {} schedules", grouped(fires.waiting as f64)),
        format!("{:.2} % of a core", fires.idle_share * 100.0),
        "not measurable",
    );
}

fn together(table: &mut Table, figures: &Together) {
    let grown = |[less, more]: [Duration; 2], than: &str| {
        format!("{} ({:.2} times {than})", time(more), ratio(more, less))
    };
    let entries = grouped(figures.entries as f64);
    let read = grown(figures.read, "that of 100");
    table.row(&format!("memory, 20 of {entries} entries"), read, "1");
    let fork = grown(figures.fork, "that among few logs");
    table.row("fork with its memory, with all runs of this benchmark", fork, "1");
    let fan_out = grown(figures.fan_out, "that to 10");
    table.row("fan-out to 100 workers", fan_out, "at most 10");
}

fn live(table: &mut Table, live: &Live) {
    if let Some(runs) = &live.runs {
        let rate = format!("{} runs/s", grouped(runs.per_second()));
        table.row("live agent, one turn, concurrency 64", rate, "at least 1,000");
        table.row("— create to end, p50 / p99", both(&runs.ends), "");
    }
    table.row("— processor time of the host per run", time(live.cpu_per_run), "at most 0.6 ms");
    table.row(
        "provider's first byte to its word in a stream, p50 / p99",
        both(&live.first_words),
        "within 20 ms",
    );
    let [few, many] = live.per_turn;
    let growth = format!("{} ({:.2} times that of {})", time(many), ratio(many, few), TURNS[0]);
    table.row(&format!("per turn of a conversation of {} turns", TURNS[1]), growth, "1");
}

fn console(table: &mut Table, console: &Console) {
    table.row("200 of 10,000 events by the API, p50 / p99", both(&console.answer), "");
    table.row(
        "— as a page of the console, p50 / p99",
        format!("{} ({:.1} times that)", both(&console.page), console.page_factor()),
        "at most 5 times",
    );
    let kilobytes = |bytes: usize| format!("{:.1} KB", bytes as f64 / 1000.0);
    table.row("page of a run with 200 events", kilobytes(console.page_bytes), "under 120 KB");
    table.row("script, style and icon together", kilobytes(console.asset_bytes), "under 40 KB");
    table.row("frame of the API to its row, p50 / p99", both(&console.rows), "50 ms (p50)");
    table.row("processor time of a reader of a run's stream", time(console.per_stream), "");
    table.row(
        "— of an open page of the run",
        format!("{} ({:+.0} %)", time(console.per_page), console.page_surplus() * 100.0),
        "at most +30 %",
    );
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

fn steps(table: &mut Table, steps: &Steps) {
    let [noop, pure] = steps.chain;
    let pure = format!("{:.2} times one of core.noop", ratio(pure, noop));
    table.row("10-node chain of nodes that compute (p50)", pure, "at most 1.2");
    let [one, each] = steps.each;
    let per_node = noop.saturating_sub(one).as_secs_f64() / (CHAIN_NODES - 1) as f64;
    let per_item = each.saturating_sub(one).as_secs_f64() / ITEMS as f64;
    let shown = format!(
        "{:.1} \u{b5}s ({:.2} times a node of the chain)",
        per_item * 1e6,
        per_item / per_node
    );
    table.row(&format!("{} items with a body, each", grouped(ITEMS as f64)), shown, "at most 3");
    table.row(&format!("{CASES} cases of `workflows test`"), time(steps.cases), "under 1 s");
}

fn chains(table: &mut Table, figures: &Figures) {
    let [Some(alone), Some(many)] = &figures.chain else { return };
    let [Some(one), _, Some(noop)] = &figures.noop else { return };
    let half = |sample: &Sample| percentile(&sample.ends, 0.5).as_secs_f64();
    let told = many.per_second() * events(CHAIN_NODES) as f64;
    table.row("10-node chain, concurrency 64", format!("{} events/s", grouped(told)), "");
    let ratio = |value: f64| format!("{value:.2} times a 1-node run");
    table.row("10-node chain, time alone (p50)", ratio(half(alone) / half(one)), "at most 4");
    table.row(
        "10-node chain, cost at concurrency 64",
        ratio(noop.per_second() / many.per_second()),
        "at most 4",
    );
    let [short, long] = figures.per_event;
    table.row("time per event, in a run of 1,000", time(short), "");
    let growth =
        format!("{} ({:.2} times that)", time(long), long.as_secs_f64() / short.as_secs_f64());
    table.row("time per event, in a run of 10,000", growth, "1");
}

struct Table {
    text: String,
}

impl Table {
    fn new(figures: &Figures) -> Self {
        let scale = if figures.quick { " Scaled down (`--quick`)." } else { "" };
        let head = format!(
            "Measured on: {}.{scale}\n\n| what | figure | goal |\n|---|---|---|\n",
            figures.machine
        );
        Self { text: head }
    }

    fn row(&mut self, what: &str, figure: String, goal: &str) {
        self.text.push_str(&format!("| {what} | {figure} | {goal} |\n"));
    }
}

pub(crate) fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let groups: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|group| std::str::from_utf8(group).unwrap_or_default())
        .collect();
    groups.join(",")
}

fn both(ordered: &[Duration]) -> String {
    format!("{} / {}", time(percentile(ordered, 0.5)), time(percentile(ordered, 0.99)))
}

pub(crate) fn time(value: Duration) -> String {
    match value.as_micros() {
        0..1000 => format!("{:.1} µs", value.as_secs_f64() * 1e6),
        1000..100_000 => format!("{:.1} ms", value.as_secs_f64() * 1e3),
        _ => format!("{:.0} ms", value.as_secs_f64() * 1e3),
    }
}

fn megabytes(kb: u64) -> String {
    format!("{:.1} MB", kb as f64 / 1024.0)
}

/// Replaces what stands between the markers of the page.
pub(crate) fn write(root: &Path, table: &str) -> Result<()> {
    let path = root.join(PAGE);
    let page = fs::read_to_string(&path).with_context(|| PAGE.to_owned())?;
    fs::write(&path, replaced(&page, table)?)?;
    Ok(())
}

fn replaced(page: &str, table: &str) -> Result<String> {
    let (before, rest) = page.split_once(BEGIN).with_context(|| format!("{PAGE} lacks {BEGIN}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} lacks {END}"))?;
    Ok(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::{grouped, replaced};

    #[test]
    fn figures_replace_those_of_before() {
        let page = "a\n<!-- begin: cargo xtask bench --write -->\nold\n<!-- end -->\nz\n";
        let page = replaced(page, "new\n").unwrap();
        assert_eq!(page, "a\n<!-- begin: cargo xtask bench --write -->\nnew\n<!-- end -->\nz\n");
        assert!(replaced("no markers", "new").is_err());
    }

    #[test]
    fn large_numbers_are_grouped() {
        assert_eq!([grouped(7.4), grouped(12_345.0)], ["7", "12,345"]);
    }
}
