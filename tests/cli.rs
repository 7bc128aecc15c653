//! The command line as a person and a script see it: exit code, standard output and standard error as one text.

#[path = "support/anthropic.rs"]
mod anthropic;
#[path = "cli/audit.rs"]
mod audit;
#[path = "cli/authoring.rs"]
mod authoring;
#[path = "cli/backups.rs"]
mod backups;
#[path = "cli/config.rs"]
mod config;
#[path = "cli/db.rs"]
mod db;
#[path = "cli/demo.rs"]
mod demo;
#[path = "cli/deployments.rs"]
mod deployments;
#[path = "cli/doctor.rs"]
mod doctor;
#[path = "cli/forks.rs"]
mod forks;
#[path = "cli/guides.rs"]
mod guides;
#[path = "cli/heartbeats.rs"]
mod heartbeats;
#[path = "cli/memory.rs"]
mod memory;
#[path = "cli/metrics.rs"]
mod metrics;
#[path = "cli/org_chart.rs"]
mod org_chart;
#[path = "cli/own_key.rs"]
mod own_key;
#[path = "cli/packs.rs"]
mod packs;
#[path = "cli/prefixes.rs"]
mod prefixes;
#[path = "cli/prune.rs"]
mod prune;
#[path = "cli/questions.rs"]
mod questions;
#[path = "cli/reload.rs"]
mod reload;
#[path = "cli/retries.rs"]
mod retries;
#[path = "cli/roles.rs"]
mod roles;
#[path = "cli/roster.rs"]
mod roster;
#[path = "cli/schedules.rs"]
mod schedules;
#[path = "cli/second_major.rs"]
mod second_major;
#[path = "cli/secrets.rs"]
mod secrets;
#[path = "cli/signals.rs"]
mod signals;
mod support;
#[path = "support/terminal.rs"]
mod terminal;
#[path = "cli/traces.rs"]
mod traces;
#[path = "cli/triggers.rs"]
mod triggers;
#[path = "cli/upgrades.rs"]
mod upgrades;
#[path = "cli/uploads.rs"]
mod uploads;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use insta::assert_snapshot;
use serde_json::Value;

use support::host::signal_process;
use terminal::Terminal;

/// Everything that can be asked for help.
const COMMANDS: &[&str] = &[
    "",
    "serve",
    "run",
    "mcp",
    "chat",
    "runs",
    "runs list",
    "runs show",
    "runs events",
    "runs diff",
    "runs bundle",
    "runs report",
    "runs request",
    "runs cancel",
    "runs pause",
    "runs resume",
    "runs fork",
    "runs retry",
    "runs ancestry",
    "runs keep",
    "runs signal",
    "inbox",
    "inbox list",
    "inbox answer",
    "workflows",
    "workflows list",
    "workflows show",
    "workflows apply",
    "workflows remove",
    "workflows validate",
    "workflows new",
    "workflows test",
    "workflows graph",
    "workflows schema",
    "nodes",
    "nodes list",
    "nodes show",
    "tools",
    "tools list",
    "tools show",
    "keys",
    "keys create",
    "keys list",
    "keys whoami",
    "keys revoke",
    "keys rotate",
    "keys rotate-links",
    "memory",
    "memory list",
    "memory get",
    "memory history",
    "memory restore",
    "memory forget",
    "secrets",
    "secrets set",
    "secrets list",
    "secrets remove",
    "agents",
    "agents list",
    "agents kinds",
    "agents show",
    "agents deploy",
    "agents deploy list",
    "agents deploy promote",
    "agents deploy pause",
    "agents deploy resume",
    "agents deploy deprecate",
    "agents deploy rollback",
    "agents deploy canary",
    "roster",
    "roster list",
    "roster hire",
    "roster show",
    "roster update",
    "roster pause",
    "roster resume",
    "roster dismiss",
    "roster fire",
    "roster work",
    "roster work add",
    "roster work list",
    "roster work claim",
    "roster work done",
    "roster work back",
    "packs",
    "packs new",
    "packs pack",
    "packs sign",
    "packs verify",
    "packs install",
    "packs list",
    "packs remove",
    "console",
    "db",
    "db status",
    "db stats",
    "db backup",
    "db restore",
    "db migrate",
    "db prune",
    "db copy",
    "config",
    "config show",
    "config check",
    "reload",
    "health",
    "doctor",
    "spend",
    "hosts",
    "hosts list",
    "audit",
    "audit list",
    "audit verify",
    "audit export",
    "demo",
    "completions",
    "schedules",
    "schedules list",
    "schedules add",
    "schedules remove",
    "schedules next",
    "schedules pause",
    "schedules resume",
    "schedules run-now",
    "heartbeats",
    "heartbeats list",
    "heartbeats add",
    "heartbeats pause",
    "heartbeats resume",
    "heartbeats remove",
    "org-chart",
    "org-chart show",
    "org-chart put",
    "triggers",
    "triggers list",
    "triggers add",
    "triggers show",
    "triggers remove",
    "triggers pause",
    "triggers resume",
    "triggers deliver",
    "triggers presets",
    "triggers rotate",
    "triggers dead-letters",
    "triggers deliveries",
    "triggers drop",
    "triggers replay",
];

#[test]
fn every_command_has_help_with_an_example() -> Result<()> {
    let terminal = Terminal::new()?;
    for command in COMMANDS {
        let arguments: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
        let shown = terminal.run(&arguments)?;
        ensure!(shown.contains("\nExample"), "{command} has no example: {shown}");
        assert_snapshot!(format!("help {command}").trim_end().replace(' ', "_"), shown);
    }
    Ok(())
}

#[test]
fn wrong_usage_ends_with_two() -> Result<()> {
    let terminal = Terminal::new()?;
    for (name, arguments) in [
        ("unknown_command", &["runz"] as &[&str]),
        ("nothing_to_run", &["run"]),
        ("input_is_not_json", &["run", "noop", "--input", "{day}"]),
        ("input_is_no_object", &["run", "noop", "--input", "[1]"]),
        ("input_file_is_missing", &["run", "noop", "--input", "@missing.json"]),
        ("option_is_not_json", &["run", "noop", "--config", "model=plain"]),
        ("unknown_status", &["runs", "list", "--status", "done"]),
        ("branch_without_place", &["runs", "fork", "run_1", "--mode", "branch"]),
        (
            "fork_before_the_start",
            &["runs", "fork", "run_1", "--mode", "replay", "--from-seq", "-1"],
        ),
        ("replay_with_option", &["runs", "fork", "run_1", "--mode", "replay", "--config", "a=1"]),
        ("unknown_kind", &["inbox", "list", "--kind", "poll"]),
        ("answer_is_not_json", &["inbox", "answer", "run_1", "gate", "--value", "accept"]),
        ("answer_said_twice", &["inbox", "answer", "run_1", "--value", "1", "--action", "accept"]),
        ("signal_is_not_json", &["runs", "signal", "run_1", "notes", "--value", "ship it"]),
        ("unknown_moment", &["runs", "list", "--since", "yesterday"]),
        ("unknown_time", &["schedules", "add", "noop", "--at", "yesterday"]),
        ("values_without_follow", &["runs", "events", "run_1", "--mode", "values"]),
        ("values_mixed", &["runs", "events", "run_1", "--mode", "values,debug", "--follow"]),
        ("url_without_scheme", &["runs", "list", "--url", "localhost"]),
        ("connection_before_serve", &["--api-key", "k", "serve"]),
        ("no_database", &["serve", "--database-url", "mysql://db/callboard"]),
        ("slow_heartbeat", &["serve", "--lease", "1000", "--heartbeat", "600"]),
        ("unknown_scope", &["serve", "--api-key", "secret=acme+runs:reed"]),
        ("listen_is_no_address", &["serve", "--listen", "nowhere"]),
        ("log_is_no_filter", &["serve", "--log", "callboard=loud"]),
        ("workflow_folder_is_missing", &["serve", "--workflows", "missing"]),
        ("packs_are_missing", &["serve", "--packs", "missing"]),
        ("pack_without_version", &["packs", "remove", "vendor.acme.desk"]),
        ("agent_without_version", &["agents", "deploy", "pause", "vendor.acme.desk.assistant"]),
        ("configuration_is_missing", &["serve", "--config", "missing.toml"]),
        ("unknown_shell", &["completions", "powershell"]),
    ] {
        let shown = terminal.run(arguments)?;
        ensure!(shown.starts_with("exit: 2\n"), "{name}: {shown}");
        ensure!(!shown.contains("secret"), "{name} shows a secret: {shown}");
        assert_snapshot!(format!("usage_{name}"), shown);
    }
    Ok(())
}

#[test]
fn a_wrong_configuration_names_file_line_and_key() -> Result<()> {
    let terminal = Terminal::new()?;
    for (name, text) in [
        ("unknown_key", "[limits]\n\nmax_node_execution = 5\n"),
        ("unknown_section", "[limts]\ninflight = 1\n"),
        ("wrong_type", "[limits]\ninflight = \"many\"\n"),
        ("out_of_range", "[limits]\nmax_run_duration_ms = 10\n"),
        ("not_toml", "[limits\n"),
        ("unknown_coding_agent", "[models]\ncoding = \"cli/claude\"\n"),
        ("cli_key", "[cli]\nworkdir = \"/src\"\n"),
        ("cli_work_dir", "[cli]\nwork_dir = \"missing\"\n"),
        ("no_server", "[mcp.servers.github]\n"),
    ] {
        terminal.write("callboard.toml", text)?;
        assert_snapshot!(format!("configuration_{name}"), terminal.run(&["serve"])?);
    }
    Ok(())
}

#[test]
fn a_name_cannot_drive_the_terminal() -> Result<()> {
    let terminal = Terminal::new()?;
    let mut serve = terminal.command(&["serve", "--workflows", "\u{1b}[2J\u{9b}2J"]);
    let output = serve.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "").output()?;
    let said = String::from_utf8(output.stderr)?;
    assert!(said.contains("[2J2J") && !said.contains("\u{1b}[2J"), "{said:?}");
    Ok(())
}

#[test]
fn definitions_are_checked_without_a_host() -> Result<()> {
    let terminal = Terminal::new()?;
    let good = terminal.read("workflows/chain.json")?;
    let mut definition: Value = serde_json::from_str(&good)?;
    definition["nodes"][1]["colour"] = "red".into();
    terminal.write("unknown-key.json", &definition.to_string())?;
    let mut definition: Value = serde_json::from_str(&good)?;
    definition["edges"][2]["targetNodeId"] = "nowhere".into();
    terminal.write("lost-edge.json", &definition.to_string())?;
    terminal.write("not-json.json", "{ \"id\": ")?;
    let files = [
        "workflows/chain.json",
        "unknown-key.json",
        "lost-edge.json",
        "not-json.json",
        "missing.json",
    ];
    assert_snapshot!("validate", terminal.run(&[&["workflows", "validate"], &files[..]].concat())?);
    assert_snapshot!(
        "validate_json",
        terminal.run(&["workflows", "validate", "--json", "unknown-key.json", files[0]])?
    );
    assert_snapshot!(
        "validate_good",
        terminal.run(&["workflows", "validate", "workflows/rounds.json"])?
    );
    Ok(())
}

#[test]
fn a_host_that_is_not_there_ends_with_five() -> Result<()> {
    let terminal = Terminal::new()?;
    // A port below 1024 that no service of today listens on.
    let nobody = terminal.at("http://127.0.0.1:1");
    assert_snapshot!("unreachable", nobody.run(&["runs", "list"])?);
    assert_snapshot!("unreachable_doctor", nobody.run(&["doctor"])?);
    let stranger = TcpListener::bind("127.0.0.1:0")?;
    let address = format!("http://{}", stranger.local_addr()?);
    std::thread::spawn(move || {
        for socket in stranger.incoming().flatten() {
            // Whatever was asked, the answer is the same; a client that is gone does not matter.
            let mut socket = socket;
            let _ = socket.read(&mut [0; 2048]);
            let _ = socket.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
            );
        }
    });
    assert_snapshot!("unreachable_stranger", terminal.at(&address).run(&["runs", "list"])?);
    Ok(())
}

#[test]
fn a_session_with_a_host() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&["--api-key", "reader=default+runs:read"])?;
    let user = terminal.at(host.url());
    let snap = |name: &str, arguments: &[&str]| -> Result<()> {
        assert_snapshot!(name, user.run(arguments)?);
        Ok(())
    };
    snap("session_01_workflows", &["workflows", "list"])?;
    snap("session_02_run_follow", &["run", "chain", "--follow"])?;
    snap("session_03_run_failing", &["run", "failing", "--follow", "--tag", "nightly"])?;
    snap("session_04_run_json", &["run", "noop", "--json", "--idempotency-key", "once"])?;
    snap("session_05_list_failed", &["runs", "list", "--status", "failed"])?;
    snap("session_06_list_json", &["runs", "list", "--tag", "nightly", "--json"])?;
    snap("session_07_unknown_workflow", &["run", "nope"])?;
    snap("session_08_unknown_run", &["runs", "show", "run_nope"])?;
    snap("session_09_missing_run_events", &["runs", "events", "run_nope", "--follow"])?;
    snap("session_10_bad_option", &["run", "noop", "--config", "recursionLimit=0"])?;
    snap("session_11_wrong_key", &["runs", "list", "--api-key", "wrong"])?;
    snap("session_12_missing_scope", &["run", "noop", "--api-key", "reader"])?;
    snap("session_13_doctor", &["doctor", "--data", "data"])?;
    snap("session_14_nothing_found", &["runs", "list", "--workflow", "nothing"])
}

#[test]
fn a_run_can_be_held_released_and_ended() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let run = user.output(&["run", "delay", "--input", "{\"delayMs\": 600000}"])?.trim().to_owned();
    assert_snapshot!(
        "control_1_pause",
        user.run(&["runs", "pause", &run, "--drain", "immediate", "--reason", "lunch"])?
    );
    assert_snapshot!("control_2_pause_again", user.run(&["runs", "pause", &run])?);
    assert_snapshot!("control_3_resume", user.run(&["runs", "resume", &run])?);
    assert_snapshot!(
        "control_4_cancel",
        user.run(&["runs", "cancel", &run, "--reason", "enough", "--json"])?
    );
    user.output(&["runs", "events", &run, "--follow", "--mode", "updates"])?;
    assert_snapshot!("control_5_cancel_again", user.run(&["runs", "cancel", &run])?);
    let several = user.run(&["runs", "cancel", "run_nope", &run])?;
    ensure!(several.starts_with("exit: 3") && several.contains(" cancelled\n"), "{several}");
    assert_snapshot!("control_6_events", user.run(&["runs", "events", &run])?);
    assert_snapshot!("control_7_show", user.run(&["runs", "show", &run])?);
    let lines = user.output(&["runs", "events", &run, "--json"])?;
    let kinds = lines.lines().map(|line| Ok(serde_json::from_str::<Value>(line)?["type"].clone()));
    let kinds: Vec<Value> = kinds.collect::<Result<_>>()?;
    assert_eq!(kinds.last().and_then(Value::as_str), Some("run.cancelled"), "{kinds:?}");
    Ok(())
}

#[test]
fn two_runs_are_compared_and_one_is_exported() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let start = |workflow: &str, input: &str| -> Result<String> {
        let run = user.output(&["run", workflow, "--input", input])?.trim().to_owned();
        user.output(&["runs", "events", &run, "--follow", "--mode", "updates"])?;
        Ok(run)
    };
    let first = start("noop", "{\"day\": \"monday\", \"same\": 1}")?;
    let second = start("noop", "{\"day\": \"friday\", \"same\": 1, \"late\": true}")?;
    let longer = start("chain", "{}")?;
    assert_snapshot!("diff_1_inputs", user.run(&["runs", "diff", &first, &second])?);
    assert_snapshot!("diff_2_same", user.run(&["runs", "diff", &first, &first])?);
    assert_snapshot!("diff_3_longer", user.run(&["runs", "diff", &first, &longer])?);
    assert_snapshot!("diff_4_unknown", user.run(&["runs", "diff", &first, "run_nope"])?);
    let json: Value =
        serde_json::from_str(&user.output(&["runs", "diff", &first, &second, "--json"])?)?;
    assert_eq!(json["divergedAtSeq"], 0);
    assert_snapshot!(
        "bundle_1_file",
        user.run(&["runs", "bundle", &longer, "--out", "bundle.json"])?
    );
    let written: Value = serde_json::from_str(&terminal.read("bundle.json")?)?;
    let shown = user.output(&["runs", "bundle", &longer, "--json"])?;
    let shown: Value = serde_json::from_str(&shown)?;
    assert_eq!(written["events"], shown["events"]);
    assert_snapshot!("bundle_2_unknown", user.run(&["runs", "bundle", "run_nope"])?);
    Ok(())
}

#[test]
fn streamed_text_is_shown_as_it_is() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let script = r#"mockProvider={"id": "stream-text", "config": {"tokens": ["Good ", "\u001b[2J", "morning,\n", "world"]}}"#;
    assert_snapshot!("text_follow", user.run(&["run", "speech", "--follow", "--config", script])?);
    let run = user.output(&["run", "speech", "--config", script])?.trim().to_owned();
    assert_snapshot!(
        "text_messages",
        user.run(&["runs", "events", &run, "--follow", "--mode", "messages"])?
    );
    Ok(())
}

#[test]
fn definitions_are_registered_and_replaced() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let mine = terminal.read("workflows/chain.json")?.replace("\"chain\"", "\"mine\"");
    terminal.write("mine.json", &mine)?;
    assert_snapshot!("apply_1_created", user.run(&["workflows", "apply", "mine.json"])?);
    assert_snapshot!("apply_2_replaced", user.run(&["workflows", "apply", "mine.json", "--json"])?);
    assert_eq!(user.output(&["workflows", "show", "mine"])?.trim_end(), mine.trim_end());
    terminal.write("broken.json", "{}")?;
    assert_snapshot!(
        "apply_3_broken",
        user.run(&["workflows", "apply", "mine.json", "broken.json"])?
    );
    assert_snapshot!("apply_4_foreign", user.run(&["workflows", "apply", "workflows/chain.json"])?);
    terminal.write("agent.json", &mine.replace("core.noop", "vendor.acme.thing"))?;
    assert_snapshot!("apply_5_not_run_here", user.run(&["workflows", "apply", "agent.json"])?);
    assert_snapshot!("apply_6_unknown", user.run(&["workflows", "show", "nope"])?);
    Ok(())
}

#[test]
fn keys_are_made_rotated_and_taken_back() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    assert_snapshot!(
        "keys_1_create",
        user.run(&["keys", "create", "--name", "ci", "--scope", "runs:read"])?
    );
    assert_snapshot!(
        "keys_2_unknown_scope",
        user.run(&["keys", "create", "--name", "ci", "--scope", "runs:reed"])?
    );
    let made: Value = serde_json::from_str(&user.output(&[
        "keys",
        "create",
        "--name",
        "temporary",
        "--json",
    ])?)?;
    let (id, key) = (made["id"].as_str().context("an id")?, made["key"].as_str().context("a key")?);
    user.output(&["runs", "list", "--api-key", key])?;
    let turned: Value = serde_json::from_str(&user.output(&["keys", "rotate", id, "--json"])?)?;
    assert_snapshot!("keys_3_rotated_away", user.run(&["runs", "list", "--api-key", key])?);
    let (id, key) =
        (turned["id"].as_str().context("an id")?, turned["key"].as_str().context("a key")?);
    user.output(&["runs", "list", "--api-key", key])?;
    assert_snapshot!("keys_4_revoke", user.run(&["keys", "revoke", id])?);
    assert_snapshot!("keys_5_revoked", user.run(&["runs", "list", "--api-key", key])?);
    assert_snapshot!("keys_6_list", user.run(&["keys", "list"])?);
    assert_snapshot!("keys_7_unknown", user.run(&["keys", "revoke", "key_nope"])?);
    ensure!(!host.log().contains(key), "a key is in the log: {}", host.log());
    Ok(())
}

#[test]
fn a_broken_definition_is_named_and_skipped() -> Result<()> {
    let terminal = Terminal::new()?;
    terminal.write("workflows/broken.json", "{ \"id\": \"broken\" }")?;
    terminal.write("workflows/notes.txt", "not a definition")?;
    let host = terminal.host(&[])?;
    let log = host.log();
    assert!(log.contains("broken.json") && log.contains("skipped"), "{log}");
    assert!(log.contains("test seams are on"), "{log}");
    terminal.at(host.url()).output(&["run", "noop", "--follow"])?;
    host.stop("TERM")?;
    Ok(())
}

#[test]
fn ctrl_c_leaves_the_run_going_and_says_how_to_come_back() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&[])?;
    let user = terminal.at(host.url());
    let mut follower =
        user.command(&["run", "delay", "--input", "{\"delayMs\": 600000}", "--follow"]);
    let mut follower =
        follower.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(follower.stdout.take().context("no standard output")?).lines();
    let run = lines.next().context("no first line")??.replace("run ", "");
    lines.next().context("no event")??;
    signal_process(follower.id(), "INT")?;
    let ended = follower.wait_with_output()?;
    let said = String::from_utf8(ended.stderr)?;
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(
        said.contains(&format!("`callboard runs events {run} --follow` follows it again")),
        "{said}"
    );
    let shown: Value = serde_json::from_str(&user.output(&["runs", "show", &run, "--json"])?)?;
    assert_eq!(shown["status"], "running");
    Ok(())
}

#[test]
fn a_reader_that_leaves_early_is_no_error() -> Result<()> {
    let terminal = Terminal::new()?;
    let script = format!("{} completions bash | head -1", env!("CARGO_BIN_EXE_callboard"));
    let shown = Command::new("sh").args(["-c", &script]).current_dir(terminal.folder()).output()?;
    assert_eq!(String::from_utf8(shown.stderr)?, "");
    for shell in ["bash", "zsh", "fish"] {
        let script = terminal.output(&["completions", shell])?;
        assert!(script.contains("callboard") && script.contains("workflows"), "{shell}: {script}");
    }
    Ok(())
}

#[test]
fn colours_are_for_those_who_want_them() -> Result<()> {
    let terminal = Terminal::new()?;
    let complaint = |name: &str, value: &str| -> Result<bool> {
        let output =
            terminal.command(&["runs", "list", "--url", "nowhere"]).env(name, value).output()?;
        Ok(output.stderr.contains(&0x1b))
    };
    assert!(!complaint("CLICOLOR", "1")?, "a pipe gets none");
    assert!(complaint("CLICOLOR_FORCE", "1")?, "unless it asks");
    assert!(!complaint("NO_COLOR", "1")?);
    Ok(())
}

#[test]
fn the_shipped_examples_run() -> Result<()> {
    let terminal = Terminal::new()?;
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/workflows");
    let host = terminal.host(&["--workflows", examples])?;
    let user = terminal.at(host.url());
    for (workflow, sign) in [("rescue", "✗ Deliver by drone"), ("rounds", "✓ Walk there #3")] {
        let shown = user.output(&["run", workflow, "--follow"])?;
        assert!(shown.contains(sign) && shown.contains("✓ run completed"), "{workflow}: {shown}");
    }
    for (line, sign) in [("accept\n", "✓ Send it"), ("reject\n", "✓ Back to the desk")] {
        let shown = user.run_with(line, &["run", "sign-off", "--follow"])?;
        assert!(shown.contains(sign) && shown.contains("✓ run completed"), "{line}: {shown}");
    }
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/tests");
    for file in std::fs::read_dir(cases)? {
        let shown = terminal.output(&["workflows", "test", &file?.path().to_string_lossy()])?;
        assert!(shown.contains(" passed, 0 failed"), "{shown}");
    }
    let quiet = ["run", "morning-brief", "--follow", "--input", "{\"letters\": 0}"];
    let shown = user.output(&quiet)?;
    assert!(shown.contains("○ Write the brief") && shown.contains("✓ Let them sleep"), "{shown}");
    Ok(())
}
