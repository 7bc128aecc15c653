//! The checks of what models stand on: who answers for which class, and whether they can be reached.

use std::collections::BTreeSet;

use callboard_agents::{CODING_PROVIDER, Fault, ModelError, ModelRef, ModelTable};
use callboard_backends::{LiveModel, ProviderSettings};
use callboard_protocol::ModelClass;

use super::{Check, State};
use crate::config::Config;
use crate::exit::CommandError;

/// Nothing is said to any model: a provider is asked which models it has, and that is all. A model that it does not
/// have is nothing to stand on.
pub(super) async fn check(
    config: &Config,
    variable: impl Fn(&str) -> Option<String>,
) -> Vec<Check> {
    let settled = config.provider_settings(&variable).and_then(|providers| {
        let table = config.model_table(&providers, &variable)?;
        Ok::<_, CommandError>((providers, table))
    });
    let (providers, table) = match settled {
        Ok(settled) => settled,
        Err(error) => return vec![Check::of("models", &error)],
    };
    let mut reached = Vec::new();
    let mut unknown = BTreeSet::new();
    for provider in providers {
        let variable = config.key_variable(&provider.name);
        reached.push(reach(provider, variable, &table, &mut unknown).await);
    }
    let mut checks = vec![models(&table, &unknown)];
    checks.extend(passed_over(config, &table));
    checks.extend(reached);
    checks.extend(unknown_fallbacks(&table, &unknown));
    checks
}

/// Fallbacks without a provider: a run skips them.
fn passed_over(config: &Config, table: &ModelTable) -> Vec<Check> {
    let fallbacks = table.fallback.iter().chain(table.fallbacks.values().flatten());
    let missing: BTreeSet<&str> =
        fallbacks.filter(|it| !table.can_ask(it)).map(|it| it.provider.as_str()).collect();
    let warn = |provider: &str| {
        let found = format!("no provider {provider} is configured: its fallbacks are passed over");
        Check::new("models", State::Warning, found).hint(match config.key_variable(provider) {
            Some(key) => format!("set {key}, or leave them out of [models]"),
            None => format!("add a section [providers.{provider}]"),
        })
    };
    missing.into_iter().map(warn).collect()
}

/// Fallbacks that their provider does not have; a missing model of a class is reported with the classes.
fn unknown_fallbacks(table: &ModelTable, unknown: &BTreeSet<String>) -> Vec<Check> {
    let asked = ModelTable::CLASSES.map(|class| table.of(class).to_string());
    let fallbacks = unknown.iter().filter(|model| !asked.contains(model));
    let warn = |model: &String| {
        let found = format!("{model} is not there: a run that falls back to it fails");
        Check::new("model", State::Warning, found)
            .hint("check its name in the fallbacks of [models]")
    };
    fallbacks.map(warn).collect()
}

/// The models that a provider may be asked for.
fn asked_of<'a>(table: &'a ModelTable, provider: &'a str) -> BTreeSet<&'a str> {
    let classes = table.default.iter().chain(table.classes.values());
    let fallbacks = table.fallback.iter().chain(table.fallbacks.values().flatten());
    let theirs = classes.chain(fallbacks).filter(|model| model.provider == provider);
    theirs.map(|model| model.model.as_str()).collect()
}

fn models(table: &ModelTable, unknown: &BTreeSet<String>) -> Check {
    let name = "models";
    let named = ModelTable::CLASSES.map(|class| (class, table.of(class)));
    for (class, model) in &named {
        if !table.can_ask(model) {
            let class = class.as_str();
            let found =
                format!("{class} is {model}, and no provider {} is configured", model.provider);
            return Check::new(name, State::Failed, found).hint(format!(
                "add a section [providers.{}], or set its key in the environment",
                model.provider
            ));
        }
        if unknown.contains(&model.to_string()) {
            let found = format!("{} does not have {}", model.provider, model.model);
            return Check::new(name, State::Failed, found)
                .hint("check its name in CALLBOARD_MODEL or [models]");
        }
    }
    let general = table.of(ModelClass::General);
    let others = named.iter().filter(|(_, model)| *model != general);
    let others: Vec<String> =
        others.map(|(class, model)| format!("{} {model}", class.as_str())).collect();
    match others.as_slice() {
        [] if general == ModelRef::scripted() => {
            let found = "scripted: built in, and no model at all";
            match table.providers.iter().find(|provider| *provider != CODING_PROVIDER) {
                // A provider with a key is meant to be used.
                Some(provider) => Check::new(name, State::Warning, found)
                    .hint(format!("set CALLBOARD_MODEL={provider}/MODEL to use {provider}")),
                None => Check::new(name, State::Ok, found),
            }
        }
        [] => Check::new(name, State::Ok, general.to_string()),
        others => Check::new(name, State::Ok, format!("{general}; {}", others.join(", "))),
    }
}

async fn reach(
    settings: ProviderSettings,
    variable: Option<&str>,
    table: &ModelTable,
    unknown: &mut BTreeSet<String>,
) -> Check {
    let has_key = settings.key.is_some();
    let model = LiveModel::new(settings);
    let check = look(&model, has_key, variable).await;
    if check.state == State::Ok {
        for named in asked_of(table, model.name()) {
            // Trouble would have been found above; what passes is none.
            if model.has(named).await == Ok(false) {
                unknown.insert(format!("{}/{named}", model.name()));
            }
        }
    }
    check
}

async fn look(model: &LiveModel, has_key: bool, variable: Option<&str>) -> Check {
    let name = "provider";
    let provider = model.name();
    match model.probe().await {
        Ok(()) if has_key => {
            Check::new(name, State::Ok, format!("{provider}: reachable, key accepted"))
        }
        Ok(()) => Check::new(name, State::Ok, format!("{provider}: reachable, without a key")),
        // Without a key, a provider that needs one answers as to a wrong key.
        Err(ModelError { fault: Fault::Forbidden, .. }) if !has_key => {
            let none = ModelError::new(provider, Fault::NoKey);
            Check::new(name, State::Failed, none.to_string()).hint(mend(&none, variable))
        }
        // Not every server lists its models.
        Err(ModelError { fault: Fault::NotFound | Fault::Rejected, .. }) => {
            let found = format!("{provider}: reachable, but does not list its models");
            Check::new(name, State::Warning, found)
                .hint("check that base_url is the URL before /models or /chat/completions")
        }
        Err(error) => {
            Check::new(name, State::Failed, error.to_string()).hint(mend(&error, variable))
        }
    }
}

fn mend(error: &ModelError, variable: Option<&str>) -> String {
    let fixed = match error.fault {
        Fault::NoKey => {
            return match variable {
                Some(variable) => format!("set {variable}, or name another with api_key_env"),
                None => "name the variable that holds its key with api_key_env".to_owned(),
            };
        }
        Fault::Forbidden => {
            let key = variable.unwrap_or("the key");
            return format!("see that {key} is whole, not revoked, and made for this provider");
        }
        Fault::Limited => "wait, or ask the provider for a higher limit",
        Fault::Unreachable | Fault::TimedOut(_) => {
            "see that base_url is right and that this machine may reach it"
        }
        Fault::UnknownProvider
        | Fault::NotFound
        | Fault::Rejected
        | Fault::Trouble
        | Fault::Broken
        | Fault::Malformed
        | Fault::TooLarge => "look at the provider's own status page",
    };
    fixed.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_whose_provider_is_missing_is_found_before_a_run_finds_it() {
        let mut table = ModelTable::default();
        assert_eq!(models(&table, &BTreeSet::new()).state, State::Ok);
        table.default = Some("anthropic/claude".parse().unwrap());
        assert_eq!(models(&table, &BTreeSet::new()).state, State::Failed);
        table.providers.insert("anthropic".to_owned());
        assert_eq!(models(&table, &BTreeSet::new()).found, "anthropic/claude");
        table.classes.insert(ModelClass::Coding, ModelRef::scripted());
        assert_eq!(
            models(&table, &BTreeSet::new()).found,
            "anthropic/claude; coding scripted/scripted"
        );
        let unknown = BTreeSet::from(["anthropic/claude".to_owned(), "openai/a".to_owned()]);
        let missing = models(&table, &unknown);
        assert_eq!(missing.state, State::Failed, "a model that is not there is not ticked");
        assert_eq!(missing.found, "anthropic does not have claude");
        assert_eq!(unknown_fallbacks(&table, &unknown).len(), 1);
        assert_eq!(passed_over(&Config::default(), &table).len(), 0);
        table.fallback = ["openai/a", "openai/b", "scripted"].map(|it| it.parse().unwrap()).into();
        let [missing] = &passed_over(&Config::default(), &table)[..] else { panic!("one") };
        assert_eq!(missing.state, State::Warning);
        assert!(missing.hint.as_deref().is_some_and(|hint| hint.contains("OPENAI_API_KEY")));
    }

    #[tokio::test]
    async fn a_provider_that_is_not_there_is_said_with_what_to_do() {
        // Bound and released: no one listens there now.
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let address = format!("http://127.0.0.1:{port}");
        let variable = |name: &str| (name == "OLLAMA_HOST").then(|| address.clone());
        let checks = check(&Config::default(), variable).await;
        assert_eq!(
            (checks[1].state, checks[1].found.as_str()),
            (State::Failed, "ollama: no connection")
        );
        assert!(checks[1].hint.is_some());
    }
}
