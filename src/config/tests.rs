//! What files mean, and what is said of those that are refused (`refusals.txt`).

use std::time::Duration;

use callboard_agents::{EvalGate, ModelRef, TokenUsage};
use callboard_backends::{BaseUrl, McpWay, ProviderKind};
use callboard_console::Lifetime;
use callboard_protocol::{AgentsCapability, ModelClass};
use callboard_server::ServerConfig;

use super::*;

fn read(text: &str) -> Config {
    Config::parse("c.toml", text).unwrap_or_else(|error| panic!("{text}: {error:?}"))
}

#[test]
fn wrong_files_are_refused_with_file_line_key_and_what_to_do() {
    let cases = include_str!("refusals.txt").split("\n\n\n");
    for case in cases.map(str::trim_end) {
        let (text, expected) = case.split_once("\nerror: ").expect(case);
        let (what, hint) = match expected.split_once("\nhint: ") {
            Some((what, hint)) => (what, Some(hint)),
            None => (expected, None),
        };
        let error = Config::parse("c.toml", text).map(drop).expect_err(text);
        assert_eq!((error.what.as_str(), error.hint.as_deref()), (what, hint), "{text}");
    }
}

#[test]
fn a_file_that_is_not_toml_names_its_line() {
    let error = Config::parse("c.toml", "a = 1\nb = = 2").map(drop).unwrap_err();
    assert!(error.what.starts_with("c.toml:2: "), "{error:?}");
}

/// Every block of the guides, as somebody copies it.
#[test]
fn the_files_that_the_guides_show_are_read() {
    let pages = [
        ("configuration.md", include_str!("../../docs/reference/configuration.md")),
        ("cli-agents.md", include_str!("../../docs/guides/cli-agents.md")),
        ("models.md", include_str!("../../docs/guides/models.md")),
        ("tools.md", include_str!("../../docs/guides/tools.md")),
        ("sign-in.md", include_str!("../../docs/guides/sign-in.md")),
        ("limits.md", include_str!("../../docs/guides/limits.md")),
        ("observability.md", include_str!("../../docs/guides/observability.md")),
        ("operating.md", include_str!("../../docs/guides/operating.md")),
    ];
    for (name, page) in pages {
        let blocks = page.split("```toml\n").skip(1).filter_map(|it| it.split("```").next());
        // What a guide leaves out is a key, and keys have a form.
        let key = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";
        let blocks = blocks.map(|block| block.replace("MCowBQYDK2VwAyEA…", key));
        let read: Vec<_> = blocks.map(|block| Config::parse(name, &block)).collect();
        assert!(!read.is_empty() && read.iter().all(Result::is_ok), "{name}: {read:?}");
    }
}

#[test]
fn limits_are_read_and_the_rest_keeps_its_default() {
    assert_eq!(read("").limits, Limits::default());
    let inflight = Limits { inflight: 1000, ..Limits::default() };
    assert_eq!(read("[limits]\ninflight = 1_000\n").limits, inflight);
    let requests = Limits { requests_per_second: 16, ..Limits::default() };
    assert_eq!(read("limits.requests_per_second = 0x10").limits, requests);
}

#[test]
fn ceilings_are_read() {
    let budgets = read(
        "[budgets]\nrun_tokens = 200_000\nmember_daily_cost_usd = 2.5\ntenant_daily_tokens = 9\n",
    )
    .budgets;
    assert_eq!((budgets.run().max_tokens, budgets.run().max_cost_usd), (Some(200_000), None));
    assert_eq!(budgets.member_day().max_cost_usd, Some(2.5));
    assert_eq!(budgets.tenant_day().max_tokens, Some(9));
    assert_eq!(read("").budgets.run(), callboard_protocol::EffectiveBudget::default());
}

#[test]
fn channels_and_the_gate_are_read() {
    let text = "[deployments]\nchannels = [\"live\"]\nrequire_eval = true";
    let policy = read(text).deployments.policy();
    assert_eq!(policy.channels, ["live".to_owned()].into());
    assert_eq!(policy.eval_gate, Some(EvalGate::default()));
    assert_eq!(read("").deployments.policy(), callboard_agents::DeploymentPolicy::default());
}

#[test]
fn the_floor_the_model_and_the_window_are_read() {
    let floor = |text: &str| read(text).orchestration.confidence_floor.get();
    assert!((floor("") - 0.5).abs() < f64::EPSILON);
    assert!((floor("[orchestration]\nconfidence_floor = 0.75") - 0.75).abs() < f64::EPSILON);
    assert!((floor("[orchestration]\nconfidence_floor = 1") - 1.0).abs() < f64::EPSILON);
    assert_eq!(read("[orchestration]\nexecution_model = 2").orchestration.execution_model, 2);
    assert_eq!(read("").orchestration.transcript_window, 1_000);
    assert_eq!(read("[orchestration]\ntranscript_window = 1").orchestration.transcript_window, 1);
}

#[test]
fn small_sections_are_read() {
    assert_eq!(read("").tools.rate.calls_per_minute, 600);
    assert_eq!(read("[tools]\ncalls_per_minute = 0").tools.rate.calls_per_minute, 0);
    assert_eq!(read("").retention.runs, None);
    let retention = read("[retention]\nruns_days = 7").retention;
    assert_eq!((retention.runs, retention.days()), (Some(Duration::from_secs(604_800)), Some(7)));
    assert_eq!(read("").console.lifetime(), Lifetime::default());
    let console = read("[console]\nsession_idle_minutes = 30\nsession_max_minutes = 60").console;
    let (idle, longest) = (Duration::from_secs(1800), Duration::from_secs(3600));
    assert_eq!(console.lifetime(), Lifetime { idle, longest });
    let root = read("[sandbox]\nuser = \"root\"").sandbox.user.unwrap();
    assert_eq!((root.uid, root.gid), (0, 0));
}

fn advertised(text: &str) -> Result<Option<AgentsCapability>, String> {
    read(text).roster.advertise(ServerConfig::default().agents).map_err(|error| error.what)
}

/// A-22.
#[test]
fn a_roster_that_others_see_than_its_agents_is_refused() {
    let refused = advertised("[roster]\ninstall_scope = \"host\"");
    let said = refused.expect_err("a contradiction");
    assert!(said.contains("must be equal"), "{said}");
    let mut without = ServerConfig::default().agents.expect("agents");
    without.manifest_runtime.supported = false;
    let refused = read("").roster.advertise(Some(without));
    assert!(refused.is_err_and(|error| error.what.contains("needs agents.manifestRuntime")));
}

#[test]
fn a_roster_can_be_left_out() {
    let roster = |text| advertised(text).map(|agents| agents.is_some_and(|it| it.roster.is_some()));
    assert_eq!(roster(""), Ok(true));
    assert_eq!(roster("[roster]\nenabled = false"), Ok(false));
}

#[test]
fn publishers_registries_and_what_may_be_missing_are_read() {
    let text = "[packs]\ndegrade = []\nregistries = [\"https://packs.example\"]\n
        [[packs.keys]]\nid = \"acme-1\"\nnamespaces = [\"vendor.acme.*\"]
        key = \"MCowBQYDK2VwAyEAORLpnWQX+LXPEMbzfru6TnEolAq5bkg+mIcuoggEe/w=\"\n";
    let packs = read(text).packs;
    assert_eq!(packs.registries, ["https://packs.example"]);
    let policy = packs.policy();
    assert!(policy.host.degrade.is_empty());
    assert!(format!("{:?}", policy.keys).contains("acme-1"));
}

#[test]
fn an_operators_prices_are_over_the_list() {
    let text = "[prices.\"local/qwen3\"]\ninput = 2\noutput = 4.5\n\
                [prices.\"anthropic/claude-sonnet-4-5\"]\ninput = 1.0\noutput = 1\ncache_read = 0\n";
    let prices = read(text).price_table();
    let million = TokenUsage { input: 1_000_000, output: 1_000_000, ..TokenUsage::default() };
    let cost = |model: &str, usage| prices.estimate(&model.parse().unwrap(), &usage);
    assert_eq!(cost("local/qwen3", million), Some(6.5));
    let cached = TokenUsage { cache_read: Some(1_000_000), ..million };
    assert_eq!(cost("local/qwen3", cached), Some(4.7));
    assert_eq!(cost("anthropic/claude-sonnet-4-5", cached), Some(1.0));
    assert_eq!(cost("openai/gpt-4o", million), Some(12.5), "the list is still there");
}

#[test]
fn mcp_servers_are_programs_or_addresses() {
    let text = "[mcp.servers.github]\ncommand = [\"npx\", \"-y\"]\nenv = { TOKEN = \"t\" }\nread = [\"/srv/docs\"]\n
        [mcp.servers.far]\nurl = \"https://mcp.example/mcp\"\nheaders = { x-token = \"t\" }
        required_scopes = [\"tools:far\"]\n";
    let servers = read(text).mcp.servers;
    let pair = |name: &str| [(name.to_owned(), "t".to_owned())].into();
    let (url, headers) = ("https://mcp.example/mcp".to_owned(), pair("x-token"));
    assert_eq!(servers["far"].way, McpWay::Url { url, headers });
    assert_eq!(servers["far"].required_scopes, ["tools:far"]);
    let (program, arguments) = ("npx".to_owned(), vec!["-y".to_owned()]);
    let way = McpWay::Command { program, arguments, environment: pair("TOKEN") };
    assert_eq!((&servers["github"].way, servers["github"].name.as_str()), (&way, "github"));
    assert_eq!(servers["github"].read, [PathBuf::from("/srv/docs")]);
}

#[test]
fn a_node_type_of_a_teams_own_is_a_workflow_with_schemas() {
    let text = "[nodes.\"acme.greet\"]\nworkflow = \"greet\"\ndescription = \"Greets\"\n\
                inputs = { type = \"object\", required = [\"name\"] }\n";
    let nodes = read(text).nodes;
    let greet = &nodes["acme.greet"];
    assert_eq!((greet.type_id.as_str(), greet.workflow.as_str()), ("acme.greet", "greet"));
    let inputs = greet.inputs.as_ref().expect("a schema");
    assert!(inputs.violations(&serde_json::json!({})).len() == 1 && greet.outputs.is_none());
}

#[test]
fn coding_agents_have_sections_of_their_own() {
    let text = "[cli]\nwork_dir = \"/src/project\"\nenv = [\"GH_TOKEN\"]\nidle_timeout_ms = 1_000\n\
                [cli.claude-code]\nprogram = \"/opt/claude\"\nmodel = \"sonnet\"\n";
    let cli = read(text).cli;
    assert_eq!(cli.work_dir.as_deref(), Some("/src/project".as_ref()));
    assert_eq!((cli.home, cli.env), (None, vec!["GH_TOKEN".to_owned()]));
    assert_eq!(cli.idle_timeout.as_secs(), 1);
    let claude = &cli.agents["claude-code"];
    assert_eq!(claude.program.as_deref(), Some("/opt/claude".as_ref()));
    assert_eq!(claude.model.as_deref(), Some("sonnet"));
    assert!(read("[cli.codex]\napprovals = true").cli.agents["codex"].approvals);
}

#[test]
fn an_agent_of_ones_own_is_a_model() {
    let text = "[cli]\nhold_ms = 5_000\n[cli.goose]\nacp = [\"goose\", \"acp\"]\n\
                [models]\ncoding = \"cli/goose\"\n";
    let config = read(text);
    assert_eq!(config.cli.hold.as_secs(), 5);
    assert_eq!(config.cli.agents["goose"].acp.as_ref().unwrap(), &["goose", "acp"]);
    let table = config.model_table(&[], |_| None).unwrap();
    assert_eq!(table.of(ModelClass::Coding).to_string(), "cli/goose");
}

#[test]
fn classes_are_read_and_the_environment_is_over_them() {
    let text = "[models]\ndefault = \"anthropic/claude-sonnet-4-5\"\ncoding = \"cli/codex\"\n";
    let config = read(text);
    let file = config.model_table(&[], |_| None).unwrap();
    assert_eq!(file.of(ModelClass::Coding).to_string(), "cli/codex");
    assert_eq!(file.of(ModelClass::Writing).to_string(), "anthropic/claude-sonnet-4-5");
    let with = |variable: &'static str, value: &'static str| {
        config.model_table(&[], move |name| (name == variable).then(|| value.to_owned()))
    };
    let over = with("CALLBOARD_MODEL", "scripted").unwrap();
    assert_eq!(over.of(ModelClass::Coding), ModelRef::scripted());
    let error = with("CALLBOARD_MODEL_CODING", "gpt").unwrap_err();
    assert_eq!(error.what, "CALLBOARD_MODEL_CODING: \"gpt\" must be provider/model");
    let error = with("CALLBOARD_MODEL_CODING", "openai/gpt").unwrap_err();
    let what = "CALLBOARD_MODEL_CODING is openai/gpt, and no provider openai is configured";
    let hint = "set OPENAI_API_KEY, or add a section [providers.openai]";
    assert_eq!((error.what.as_str(), error.hint.as_deref()), (what, Some(hint)));
    let error = with("CALLBOARD_MODEL", "cli/claude").unwrap_err();
    assert_eq!(error.what, "CALLBOARD_MODEL: no coding agent is called claude");
}

#[test]
fn a_list_is_a_model_and_those_that_come_after_it() {
    let text = "[models]\ndefault = \"scripted\"\nfallback = \"local/a\"\n\
                coding = [\"local/b\", \"local/c\", \"scripted\"]\n\
                [providers.local]\nkind = \"openai-compatible\"\nbase_url = \"http://127.0.0.1:1/v1\"\n";
    let config = read(text);
    let providers = config.provider_settings(|_| None).unwrap();
    let table = config.model_table(&providers, |_| None).unwrap();
    let after = |class| {
        let found = table.resolve(class, &callboard_protocol::Object::new()).unwrap();
        let all = [found.model].into_iter().chain(found.fallbacks);
        all.map(|model| model.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(after(ModelClass::Coding), ["local/b", "local/c", "scripted/scripted"]);
    assert_eq!(after(ModelClass::Writing), ["scripted/scripted", "local/a"]);
}

/// Name, kind, where a turn would go, and whether there is a key.
fn settled(text: &str, variables: &[(&str, &str)]) -> Vec<(String, ProviderKind, BaseUrl, bool)> {
    let variable = |name: &str| {
        variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    };
    let settings = read(text).provider_settings(variable).unwrap();
    settings.into_iter().map(|it| (it.name, it.kind, it.base_url, it.key.is_some())).collect()
}

fn at(kind: ProviderKind, text: &str) -> BaseUrl {
    BaseUrl::parse(kind, text).unwrap()
}

#[test]
fn the_usual_variables_are_enough() {
    assert_eq!(settled("", &[]), []);
    let (anthropic, ollama) = (ProviderKind::Anthropic, ProviderKind::Ollama);
    let variables = [("ANTHROPIC_API_KEY", "sk-x"), ("OLLAMA_HOST", "10.0.0.7")];
    let expected = [
        ("anthropic".to_owned(), anthropic, at(anthropic, "https://api.anthropic.com"), true),
        ("ollama".to_owned(), ollama, at(ollama, "http://10.0.0.7:11434"), false),
    ];
    assert_eq!(settled("", &variables), expected);
}

#[test]
fn the_environment_is_over_the_file() {
    let text = "[providers.openai]\nkind = \"openai-responses\"\nbase_url = \"http://a.example/v1\"
        api_key_env = \"TEAM_KEY\"\n[providers.local]\nkind = \"openai-compatible\"
        base_url = \"http://127.0.0.1:11434/v1\"\n";
    let (responses, compatible) = (ProviderKind::OpenAiResponses, ProviderKind::OpenAiCompatible);
    let local =
        ("local".to_owned(), compatible, at(compatible, "http://127.0.0.1:11434/v1"), false);
    let openai = |address: &str, has_key: bool| {
        ("openai".to_owned(), responses, at(responses, address), has_key)
    };
    let unused = [("OPENAI_API_KEY", "sk-x")];
    assert_eq!(settled(text, &unused), [openai("http://a.example/v1", false), local.clone()]);
    let over = [("TEAM_KEY", "sk-x"), ("OPENAI_BASE_URL", "http://b.example/v1")];
    assert_eq!(settled(text, &over), [openai("http://b.example/v1", true), local]);
}

#[test]
fn a_key_may_stand_in_a_file_of_its_own() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "sk-secret\n").unwrap();
    let path = file.path().to_str().unwrap().to_owned();
    let variable = |name: &str| (name == "GEMINI_API_KEY_FILE").then(|| path.clone());
    let settings = Config::default().provider_settings(variable).unwrap();
    assert!(settings[0].name == "gemini" && settings[0].key.is_some());
    assert!(!format!("{settings:?}").contains("sk-secret"));
    std::fs::write(file.path(), " \n").unwrap();
    let error = Config::default().provider_settings(variable).unwrap_err();
    assert!(error.what.ends_with("is empty"), "{}", error.what);
}
