//! Live agents with a key of one's own: the guide as it is pasted, and everything that a provider can say no to.

use std::net::TcpListener;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::anthropic::Anthropic;
use crate::guides::{blocks, fresh_folder, shell};
use crate::support::host::{Host, KEY as HOST_KEY, serve};
use crate::terminal::Terminal;

/// What stands for a key in the guide, and the keys of these tests.
const WRITTEN: &str = "sk-ant-…";
const OWN: &str = "sk-ant-own-0123456789abcdef";
const TEAM: &str = "sk-ant-team-0123456789abcdef";
const WRONG: &str = "sk-ant-wrong-0123456789abcdef";
const TRIAGER: &str = "community.callboard.starter.triager";
const TASK: &str = r#"{"message": "The printer is on fire."}"#;
const SONNET: &str = "anthropic/claude-sonnet-4-5";

fn provider() -> Result<Anthropic> {
    Anthropic::start(&[OWN, TEAM])
}

/// An address of this machine where nobody listens.
fn nobody() -> Result<String> {
    Ok(format!("http://{}", TcpListener::bind("127.0.0.1:0")?.local_addr()?))
}

/// Types what a page says, and answers what was shown and said. Every command succeeds, the hosts in the background
/// included.
fn type_in(page: &str, folder: &TempDir, provider: &str) -> Result<(String, String)> {
    let host = nobody()?;
    let listen = host.strip_prefix("http://").context("an address")?;
    let mut shell = shell(folder, &format!("trap 'kill $!' EXIT\n{page}"))?;
    shell.env("ANTHROPIC_BASE_URL", provider).env("EDITOR", "true");
    shell.env("CALLBOARD_URL", &host).env("CALLBOARD_LISTEN", listen);
    let output = shell.output()?;
    let (shown, said) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    ensure!(output.status.success(), "{shown}\n{said}");
    Ok((shown, said))
}

#[test]
fn the_guide_leads_to_an_agent_with_a_key_of_ones_own() -> Result<()> {
    let provider = provider()?;
    let folder = fresh_folder()?;
    std::fs::write(folder.path().join("team.key"), TEAM)?;
    let page = blocks("start/agents.md", "sh")?;
    ensure!(page.contains(WRITTEN), "the guide names no key");
    let page = page.replace(WRITTEN, OWN).replace("set team-key", "set team-key < team.key");
    let (shown, said) = type_in(&page, &folder, provider.address())?;
    for line in [
        "✓ models         anthropic/claude-sonnet-4-5\n",
        "✓ provider       anthropic: reachable, key accepted\n",
        "✓ key            accepted\n",
        "community.callboard.starter.triager on anthropic/claude-sonnet-4-5\n",
        "120 tokens in, 30 out, about $0.00081\n",
        "         cost about $0.00081, 120 tokens in, 30 out\n",
        "           \"urgency\": \"now\"",
        "vendor.acme.desk.assistant on anthropic/claude-opus-4-5\n",
        "team-key stored\n",
    ] {
        ensure!(shown.contains(line), "{line}: {shown}\n{said}");
    }
    ensure!(shown.matches("✓ run completed").count() == 4, "{shown}");
    let asked = |key: &str, model: &str| (key.to_owned(), model.to_owned());
    let own = asked(OWN, "claude-sonnet-4-5");
    let team = asked(TEAM, "claude-opus-4-5");
    assert_eq!(provider.asked(), [own.clone(), own.clone(), own, team], "whose key was shown");
    ensure!(!shown.contains("sk-ant-") && !said.contains(TEAM), "{shown}\n{said}");
    Ok(())
}

/// As the guide says: another model in place of the first two lines. What needs a key of its own is left out.
#[test]
fn the_guide_works_without_a_key() -> Result<()> {
    let page = blocks("start/agents.md", "sh")?;
    let (_, rest) = page.split_once("\ncallboard serve ").context("a host")?;
    let (rest, _) = rest.split_once("callboard secrets set").context("a secret")?;
    let page = format!("export CALLBOARD_MODEL=scripted\ncallboard serve {rest}");
    let folder = fresh_folder()?;
    let (shown, said) = type_in(&page, &folder, "")?;
    ensure!(shown.matches("✓ run completed").count() == 3, "{shown}\n{said}");
    ensure!(shown.contains("on scripted/scripted") && shown.contains("[scripted]"), "{shown}");
    Ok(())
}

/// What `doctor` says of models and providers, with its hints.
fn doctor(variables: &[(&str, &str)]) -> Result<Vec<String>> {
    let terminal = Terminal::new()?.at(&nobody()?);
    let mut command = terminal.command(&["doctor"]);
    let output = command.envs(variables.iter().copied()).output()?;
    let shown = String::from_utf8(output.stdout)?;
    let lines: Vec<&str> = shown.lines().collect();
    let is_ours = |line: &str| {
        let subject = line.split_whitespace().nth(1).unwrap_or_default();
        ["models", "model", "provider"].contains(&subject)
    };
    let ours =
        lines.iter().enumerate().filter(|(_, line)| is_ours(line)).flat_map(|(place, line)| {
            let hint = lines.get(place + 1).filter(|next| next.contains("hint: "));
            std::iter::once(*line).chain(hint.copied())
        });
    let squeeze = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    Ok(ours.map(squeeze).collect())
}

/// What `doctor` looks at.
const KEY: &str = "ANTHROPIC_API_KEY";
const URL: &str = "ANTHROPIC_BASE_URL";
const MODEL: &str = "CALLBOARD_MODEL";
const NAMED: &str = "✓ models anthropic/claude-sonnet-4-5";
const REACHED: &str = "✓ provider anthropic: reachable, key accepted";

#[test]
fn doctor_says_what_is_wrong_with_a_key() -> Result<()> {
    let provider = provider()?;
    let here = provider.address();
    let wrong =
        "hint: see that ANTHROPIC_API_KEY is whole, not revoked, and made for this provider";
    for (variables, expected) in [
        (vec![(KEY, OWN), (URL, here), (MODEL, SONNET)], vec![NAMED, REACHED]),
        (
            vec![(KEY, WRONG), (URL, here), (MODEL, SONNET)],
            vec![NAMED, "✗ provider anthropic: the key was not accepted (401)", wrong],
        ),
        (
            vec![(URL, here), (MODEL, SONNET)],
            vec![
                NAMED,
                "✗ provider anthropic: no key is configured",
                "hint: set ANTHROPIC_API_KEY, or name another with api_key_env",
            ],
        ),
        (
            vec![(KEY, OWN), (URL, here)],
            vec![
                "! models scripted: built in, and no model at all",
                "hint: set CALLBOARD_MODEL=anthropic/MODEL to use anthropic",
                REACHED,
            ],
        ),
    ] {
        assert_eq!(doctor(&variables)?, expected, "{variables:?}");
    }
    ensure!(provider.asked().is_empty(), "nothing is said to a model");
    Ok(())
}

#[test]
fn doctor_says_what_is_wrong_with_a_model_or_the_way_there() -> Result<()> {
    let provider = provider()?;
    let (here, away) = (provider.address(), nobody()?);
    let unconfigured = "✗ models CALLBOARD_MODEL is anthropic/claude-sonnet-4-5, and no provider \
                        anthropic is configured";
    for (variables, expected) in [
        (
            vec![(MODEL, SONNET)],
            vec![
                unconfigured,
                "hint: set ANTHROPIC_API_KEY, or add a section [providers.anthropic]",
            ],
        ),
        (
            vec![(KEY, OWN), (URL, here), (MODEL, "anthropic/claude-none")],
            vec![
                "✗ models anthropic does not have claude-none",
                "hint: check its name in CALLBOARD_MODEL or [models]",
                REACHED,
            ],
        ),
        (
            vec![(KEY, OWN), (URL, &away), (MODEL, SONNET)],
            vec![
                NAMED,
                "✗ provider anthropic: no connection",
                "hint: see that base_url is right and that this machine may reach it",
            ],
        ),
    ] {
        assert_eq!(doctor(&variables)?, expected, "{variables:?}");
    }
    Ok(())
}

/// A live host with the guide's agents, whose key is good.
fn host(terminal: &Terminal, provider: &Anthropic) -> Result<Host> {
    let packs = concat!(env!("CARGO_MANIFEST_DIR"), "/packs/starter");
    let mut command = serve(&terminal.folder().join("data"));
    command.args(["--api-key", HOST_KEY, "--packs", packs]);
    command.env("ANTHROPIC_API_KEY", OWN).env("ANTHROPIC_BASE_URL", provider.address());
    command.env("CALLBOARD_MODEL", SONNET);
    Host::of(command)
}

/// The last two words about a run that must fail: what broke it, and what to do.
fn failing(user: &Terminal, config: &str) -> Result<(String, String)> {
    let mut command = user.command(&["run", TRIAGER, "--input", TASK, "--follow"]);
    if !config.is_empty() {
        command.args(["--config", config]);
    }
    let output = command.output()?;
    let (shown, said) = (String::from_utf8(output.stdout)?, String::from_utf8(output.stderr)?);
    ensure!(output.status.code() == Some(1), "{shown}{said}");
    let broken = shown.lines().last().and_then(|line| line.split_once(" at agent: "));
    let (_, broken) = broken.with_context(|| shown.clone())?;
    let hint = said.trim_end().strip_prefix("hint: ").with_context(|| said.clone())?;
    Ok((broken.to_owned(), hint.to_owned()))
}

#[test]
fn a_run_that_a_provider_turns_away_says_what_to_do() -> Result<()> {
    let provider = provider()?;
    let terminal = Terminal::new()?;
    let host = host(&terminal, &provider)?;
    let user = terminal.at(host.url());
    user.run_with(WRONG, &["secrets", "set", "stale"])?;
    for (config, expected, advice) in [
        (
            r#"ai={"credentialRef": "stale"}"#,
            "credential_forbidden: anthropic: the key was not accepted (401); it is the secret stale: CANARY 401",
            "callboard doctor",
        ),
        (
            r#"ai={"credentialRef": "none"}"#,
            "credential_not_found: there is no secret none",
            "callboard secrets set NAME",
        ),
        (
            r#"ai={"model": "claude-none"}"#,
            "no_model_available: anthropic: the model or the address is unknown there (404): CANARY 404",
            "CALLBOARD_MODEL",
        ),
    ] {
        let (broken, hint) = failing(&user, config)?;
        assert_eq!(broken, expected);
        ensure!(hint.contains(advice), "{config}: {hint}");
    }
    // What could never be asked is refused before there is a run.
    let wish = r#"ai={"provider": "openai", "model": "gpt-5"}"#;
    let refused = user.run(&["run", TRIAGER, "--input", TASK, "--config", wish])?;
    ensure!(refused.contains("configurable.ai: no provider openai is configured"), "{refused}");
    provider.fail_with(529);
    let (broken, hint) = failing(&user, "")?;
    assert_eq!(
        broken,
        "service_unavailable: anthropic: the provider is in trouble (529): CANARY 529"
    );
    ensure!(hint.contains("[models] fallback"), "{hint}");
    ensure!(provider.asked().is_empty());
    ensure!(!host.log().contains("sk-ant-") && !host.log().contains("CANARY"), "{}", host.log());
    Ok(())
}

/// The blocks of the guide to models as one file, with addresses of this machine in place of the others.
#[test]
fn the_file_of_the_guide_to_models_is_one_that_a_host_runs_with() -> Result<()> {
    let provider = provider()?;
    let terminal = Terminal::new()?;
    let file = blocks("guides/models.md", "toml")?;
    ensure!(file.contains("https://api.anthropic.com"), "{file}");
    terminal
        .write("callboard.toml", &file.replace("https://api.anthropic.com", provider.address()))?;
    let packs = concat!(env!("CARGO_MANIFEST_DIR"), "/packs/starter");
    let mut command = serve(&terminal.folder().join("data"));
    command.args(["--api-key", HOST_KEY, "--packs", packs]).env("ANTHROPIC_API_KEY", OWN);
    let host = Host::of(command)?;
    let user = terminal.at(host.url());
    let shown = user.output(&["run", TRIAGER, "--input", TASK, "--follow"])?;
    ensure!(shown.contains("✓ run completed"), "{shown}");
    assert_eq!(provider.asked(), [(OWN.to_owned(), "claude-sonnet-4-5".to_owned())]);
    Ok(())
}

/// A model that is named in the environment is meant to be asked.
#[test]
fn a_host_without_the_key_for_its_model_does_not_start() -> Result<()> {
    let terminal = Terminal::new()?;
    let output = serve(&terminal.folder().join("data")).env("CALLBOARD_MODEL", SONNET).output()?;
    let said = String::from_utf8(output.stderr)?;
    assert_eq!(output.status.code(), Some(2), "{said}");
    ensure!(said.contains("and no provider anthropic is configured"), "{said}");
    ensure!(said.contains("hint: set ANTHROPIC_API_KEY"), "{said}");
    Ok(())
}
