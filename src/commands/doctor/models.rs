//! The checks of what models stand on: who answers for which class, and whether they can be reached.

use callboard_agents::{Fault, ModelError, ModelRef, ModelTable};
use callboard_backends::{LiveModel, ProviderSettings};
use callboard_protocol::ModelClass;

use super::{Check, State};
use crate::config::Config;
use crate::exit::CommandError;

/// Nothing is said to any model: a provider is asked which models it has, and that is all.
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
        Err(error) => return vec![Check::of("models", error)],
    };
    let mut checks = vec![models(&table)];
    for provider in providers {
        checks.push(reach(provider).await);
    }
    checks
}

fn models(table: &ModelTable) -> Check {
    let name = "models";
    let named = ModelTable::CLASSES.map(|class| (class, table.of(class)));
    for (class, model) in &named {
        if *model != ModelRef::scripted() && !table.providers.contains(&model.provider) {
            let class = class.as_str();
            let found =
                format!("{class} is {model}, and no provider {} is configured", model.provider);
            return Check::new(name, State::Failed, found).hint(format!(
                "add a section [providers.{}], or set its key in the environment",
                model.provider
            ));
        }
    }
    let general = table.of(ModelClass::General);
    let others = named.iter().filter(|(_, model)| *model != general);
    let others: Vec<String> =
        others.map(|(class, model)| format!("{} {model}", class.as_str())).collect();
    match others.as_slice() {
        [] if general == ModelRef::scripted() => {
            Check::new(name, State::Ok, "scripted: built in, and no model at all")
        }
        [] => Check::new(name, State::Ok, general.to_string()),
        others => Check::new(name, State::Ok, format!("{general}; {}", others.join(", "))),
    }
}

async fn reach(settings: ProviderSettings) -> Check {
    let name = "provider";
    let has_key = settings.key.is_some();
    let model = LiveModel::new(settings);
    let provider = model.name().to_owned();
    match model.probe().await {
        Ok(()) if has_key => {
            Check::new(name, State::Ok, format!("{provider}: reachable, key accepted"))
        }
        Ok(()) => Check::new(name, State::Ok, format!("{provider}: reachable, without a key")),
        // Not every server lists its models.
        Err(ModelError { fault: Fault::NotFound | Fault::Rejected, .. }) => {
            let found = format!("{provider}: reachable, but does not list its models");
            Check::new(name, State::Warning, found)
                .hint("see that base_url is the address before /models or /chat/completions")
        }
        Err(error) => Check::new(name, State::Failed, error.to_string()).hint(mend(&error)),
    }
}

fn mend(error: &ModelError) -> &'static str {
    match error.fault {
        Fault::NoKey => {
            "set the provider's key in the environment, or name its variable with api_key_env"
        }
        Fault::Forbidden => "see that the key is whole, not revoked, and made for this provider",
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
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_whose_provider_is_missing_is_found_before_a_run_finds_it() {
        let mut table = ModelTable::default();
        assert_eq!(models(&table).state, State::Ok);
        table.default = Some("anthropic/claude".parse().unwrap());
        assert_eq!(models(&table).state, State::Failed);
        table.providers.insert("anthropic".to_owned());
        assert_eq!(models(&table).found, "anthropic/claude");
        table.classes.insert(ModelClass::Coding, ModelRef::scripted());
        assert_eq!(models(&table).found, "anthropic/claude; coding scripted/scripted");
    }

    #[tokio::test]
    async fn a_provider_that_is_not_there_is_said_with_what_to_do() {
        // Taken and given back: nobody listens there now.
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
