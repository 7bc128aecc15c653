//! What a host tells those who watch it: the board and the alerts ask for nothing that it does not have, and what was
//! used is the same after a restart.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use regex::Regex;
use serde_json::Value;

use crate::anthropic::Anthropic;
use crate::support::host::{Host, KEY, serve};
use crate::terminal::Terminal;

const SECRET: &str = "sk-ant-metrics";
/// Counting rests for seconds; reached only when something hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const MODEL: &str = r#"provider="anthropic",model="claude-sonnet-4-5""#;

const TALK: &str = r#"
id: talk
nodes:
  - id: say
    type: core.ai.chatCompletion
    config: {provider: anthropic, model: claude-sonnet-4-5}
    inputs: {messages: [{role: user, content: Hello.}]}
"#;

fn start(terminal: &Terminal, provider: &Anthropic) -> Result<Host> {
    let mut command = serve(&terminal.folder().join("data"));
    command.args(["--api-key", KEY, "--test-seams", "--workflows", "workflows"]);
    command.env("ANTHROPIC_API_KEY", SECRET).env("ANTHROPIC_BASE_URL", provider.address());
    Host::of(command)
}

async fn scrape(host: &Host) -> Result<String> {
    let http = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build()?;
    Ok(http.get(format!("{}/metrics", host.url())).send().await?.text().await?)
}

/// Scrapes until all of these lines are there.
async fn scrape_until(host: &Host, lines: &[String]) -> Result<String> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let text = scrape(host).await?;
        let missing: Vec<&String> =
            lines.iter().filter(|line| !text.lines().any(|known| known == line.as_str())).collect();
        if missing.is_empty() {
            return Ok(text);
        }
        ensure!(Instant::now() < deadline, "{missing:?} is missing in {text}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn read(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    std::fs::read_to_string(&path).with_context(|| path.display().to_string())
}

/// The metrics that a text names.
fn named(text: &str) -> Result<BTreeSet<String>> {
    let metric = Regex::new(r"\b(?:callboard|openwop)_[a-z_]+\b")?;
    Ok(metric.find_iter(text).map(|found| found.as_str().to_owned()).collect())
}

/// The metrics that a host has, histograms with the series that are made of them.
fn exposed(text: &str) -> BTreeSet<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.filter_map(|line| line.split_once(' '));
    let series = |(name, kind): (&str, &str)| match kind {
        "histogram" => ["", "_bucket", "_sum", "_count"].map(|end| format!("{name}{end}")).to_vec(),
        _ => vec![name.to_owned()],
    };
    names.flat_map(series).collect()
}

/// What the panels of the board and the alert rules ask for.
fn asked_for() -> Result<Vec<(&'static str, BTreeSet<String>)>> {
    let board: Value = serde_json::from_str(&read("packaging/monitoring/grafana.json")?)?;
    let panels = board["panels"].as_array().context("panels")?;
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let expressions: Vec<&str> = targets.filter_map(|target| target["expr"].as_str()).collect();
    ensure!(expressions.len() > 20, "{expressions:?}");
    let variables = board["templating"].to_string();
    let rules = read("packaging/monitoring/alerts.yml")?;
    let rules: Vec<&str> = rules.lines().filter(|line| !line.contains("summary:")).collect();
    Ok(vec![
        ("the board", named(&expressions.join("\n"))?),
        ("the variables of the board", named(&variables)?),
        ("the alert rules", named(&rules.join("\n"))?),
    ])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn board_and_alerts_ask_for_what_a_host_has_and_totals_survive_a_restart() -> Result<()> {
    let terminal = Terminal::new()?;
    let provider = Anthropic::start(&[SECRET])?;
    terminal.write("workflows/talk.yaml", TALK)?;
    let host = start(&terminal, &provider)?;
    let at = terminal.at(host.url());
    for _ in 0..2 {
        at.output(&["run", "talk", "--follow"])?;
    }
    let asking = at.output(&["run", "colour", "--json"])?;
    ensure!(asking.contains("run_"), "{asking}");
    provider.fail_with(400);
    ensure!(at.run(&["run", "talk", "--follow"])?.starts_with("exit: 1\n"));
    let kept = [
        format!("callboard_model_calls_total{{{MODEL}}} 2"),
        format!("callboard_model_tokens_total{{{MODEL},kind=\"input\"}} 240"),
        format!("callboard_model_tokens_total{{{MODEL},kind=\"output\"}} 60"),
        format!("callboard_model_cost_usd{{{MODEL}}} 0.00162"),
        r#"callboard_questions_open{interrupt_kind="clarification"} 1"#.to_owned(),
        r#"callboard_runs_waiting{reason="question"} 1"#.to_owned(),
        r#"callboard_runs_waiting{reason="no-free-place"} 0"#.to_owned(),
        "callboard_database_hosts 1".to_owned(),
    ];
    let text = scrape_until(&host, &kept).await?;
    let of_process = [
        format!("callboard_provider_errors_total{{{MODEL},fault=\"rejected\"}} 1"),
        format!(
            "callboard_provider_request_duration_seconds_count{{{MODEL},outcome=\"answered\"}} 2"
        ),
    ];
    for line in &of_process {
        ensure!(text.contains(line.as_str()), "{line} in {text}");
    }
    let exposed = exposed(&text);
    for (what, named) in asked_for()? {
        let unknown: Vec<&String> = named.difference(&exposed).collect();
        ensure!(!named.is_empty() && unknown.is_empty(), "{what} asks for {unknown:?}: {text}");
    }
    let guide = named(&read("docs/guides/operating.md")?)?;
    let is_part = Regex::new("_(bucket|sum|count)$")?;
    for known in exposed.iter().filter(|name| !is_part.is_match(name)) {
        ensure!(guide.contains(known), "the guide does not name {known}");
    }
    ensure!(!text.contains(SECRET) && !Regex::new("run_[0-9a-f]{32}")?.is_match(&text), "{text}");
    host.stop("KILL")?;
    let host = start(&terminal, &provider)?;
    let text = scrape_until(&host, &kept).await?;
    ensure!(!text.contains("callboard_provider_errors_total{"), "those are the process's own");
    Ok(())
}
