//! `[providers]`: who is asked, where, and with which key.

use std::collections::{BTreeMap, BTreeSet};

use toml::de::DeTable;

use callboard_backends::{BaseUrl, ProviderKind, ProviderSettings, Timeouts};

use super::Config;
use super::models::is_built_in;
use super::source::{Source, Value, is_variable};
use crate::exit::CommandError;

/// Providers that need no section: their usual variables are enough.
const WELL_KNOWN: [WellKnown; 4] = [
    WellKnown {
        kind: ProviderKind::Anthropic,
        keys: &["ANTHROPIC_API_KEY"],
        addresses: &["ANTHROPIC_BASE_URL"],
    },
    WellKnown {
        kind: ProviderKind::OpenAi,
        keys: &["OPENAI_API_KEY"],
        addresses: &["OPENAI_BASE_URL"],
    },
    WellKnown {
        kind: ProviderKind::Gemini,
        keys: &["GEMINI_API_KEY", "GOOGLE_API_KEY"],
        addresses: &["GEMINI_BASE_URL"],
    },
    WellKnown {
        kind: ProviderKind::Ollama,
        keys: &["OLLAMA_API_KEY"],
        addresses: &["OLLAMA_HOST", "OLLAMA_BASE_URL"],
    },
];

struct WellKnown {
    kind: ProviderKind,
    keys: &'static [&'static str],
    addresses: &'static [&'static str],
}

/// Every section, by its name.
pub(crate) type Providers = BTreeMap<String, Provider>;

/// A section as it was read. There is never a key in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Provider {
    kind: Option<ProviderKind>,
    base_url: Option<BaseUrl>,
    api_key_env: Option<String>,
    /// What runs may name without a key of their own; none where that is any model.
    models: Option<BTreeSet<String>>,
}

impl Config {
    /// Every provider that can be asked, with the environment over the file. A key may also stand in a file, which
    /// the variable with `_FILE` behind its name names.
    pub(crate) fn provider_settings(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<ProviderSettings>, CommandError> {
        let mut settings = Vec::new();
        for known in &WELL_KNOWN {
            let name = known.kind.as_str();
            let section = self.providers.get(name);
            let address = known.addresses.iter().find_map(|it| Some((*it, variable(it)?)));
            let section_key = section.and_then(|section| section.api_key_env.as_deref());
            let keys = section_key.map_or(known.keys.to_vec(), |name| vec![name]);
            let key = find_key(&keys, &variable)?;
            if section.is_none() && address.is_none() && key.is_none() {
                continue;
            }
            let kind = section.and_then(|section| section.kind).unwrap_or(known.kind);
            let written = address.map(|(variable, text)| parse_address(kind, variable, &text));
            let written = written.transpose()?;
            let base_url = written.or_else(|| section.and_then(|it| it.base_url.clone()));
            let base_url = base_url.or_else(|| BaseUrl::public_service(kind));
            settings.extend(base_url.map(|base_url| ProviderSettings {
                name: name.to_owned(),
                kind,
                base_url,
                key: key.map(Into::into),
                timeouts: Timeouts::default(),
            }));
        }
        for (name, section) in &self.providers {
            if WELL_KNOWN.iter().any(|known| known.kind.as_str() == name) {
                continue;
            }
            let key = find_key(
                &section.api_key_env.as_deref().into_iter().collect::<Vec<_>>(),
                &variable,
            )?;
            let kind = section.kind.unwrap_or(ProviderKind::OpenAiCompatible);
            let base_url = section.base_url.clone().or_else(|| BaseUrl::public_service(kind));
            settings.extend(base_url.map(|base_url| ProviderSettings {
                name: name.clone(),
                kind,
                base_url,
                key: key.map(Into::into),
                timeouts: Timeouts::default(),
            }));
        }
        Ok(settings)
    }

    /// The models that runs may name, of those providers whose models are listed.
    pub(super) fn offered_models(&self) -> BTreeMap<String, BTreeSet<String>> {
        let listed =
            self.providers.iter().map(|(name, it)| Some((name.clone(), it.models.clone()?)));
        listed.flatten().collect()
    }

    /// The variable that a provider's key stands in, where there is one.
    pub(crate) fn key_variable(&self, provider: &str) -> Option<&str> {
        let section = self.providers.get(provider).and_then(|it| it.api_key_env.as_deref());
        let known = WELL_KNOWN.iter().find(|known| known.kind.as_str() == provider);
        section.or_else(|| known.and_then(|known| known.keys.first().copied()))
    }

    /// Every model of the file has a provider that could answer.
    pub(super) fn check_models(&self) -> Result<(), CommandError> {
        for named in self.models.named() {
            if let Some((what, hint)) = self.unknown_agent(&named.model) {
                let what = format!("{}: {}: {what}", named.place, named.path);
                return Err(CommandError::usage(what).hint(hint));
            }
            let provider = named.model.provider.as_str();
            let is_known = is_built_in(provider)
                || self.providers.contains_key(provider)
                || WELL_KNOWN.iter().any(|known| known.kind.as_str() == provider);
            if !is_known {
                let what = format!("{}: no provider {provider} is configured", named.place);
                return Err(CommandError::usage(what)
                    .hint(format!("add a section [providers.{provider}] with kind and base_url")));
            }
        }
        Ok(())
    }
}

fn parse_address(kind: ProviderKind, variable: &str, text: &str) -> Result<BaseUrl, CommandError> {
    BaseUrl::parse(kind, text).map_err(|error| {
        CommandError::usage(format!("{variable} cannot be used: {error}"))
            .hint("write it like https://api.example.com, and the key in a variable of its own")
    })
}

/// The first key that one of the variables holds, or the file that its twin names.
fn find_key(
    names: &[&str],
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, CommandError> {
    for name in names {
        if let Some(key) = variable(name) {
            return Ok(Some(key.trim().to_owned()));
        }
        let twin = format!("{name}_FILE");
        let Some(path) = variable(&twin) else { continue };
        let text = std::fs::read_to_string(&path)
            .map_err(|error| CommandError::usage(format!("{twin}: cannot read {path}: {error}")))?;
        return match text.trim() {
            "" => Err(CommandError::usage(format!("{twin}: {path} is empty"))),
            key => Ok(Some(key.to_owned())),
        };
    }
    Ok(None)
}

impl Source<'_> {
    pub(super) fn providers(&self, value: &Value<'_>) -> Result<Providers, CommandError> {
        let Some(table) = value.get_ref().as_table() else {
            return Err(self
                .wrong(value, "providers", "sections")
                .hint("write [providers.openai]"));
        };
        let mut providers = Providers::new();
        for (key, value) in table {
            let name = key.get_ref().as_ref();
            let place = self.place(key.span().start);
            let path = format!("providers.{name}");
            if is_built_in(name)
                || format!("{name}/x").parse::<callboard_agents::ModelRef>().is_err()
            {
                return Err(CommandError::usage(format!("{place}: {path} cannot be called that"))
                    .hint(
                        "use lower-case letters, digits, - and _; scripted and cli are built in",
                    ));
            }
            let section = self.section(value, &path)?;
            let provider = self.provider(&path, name, section)?;
            if provider.kind.is_none() {
                return Err(
                    CommandError::usage(format!("{place}: {path} needs a kind")).hint(kinds())
                );
            }
            if provider.kind == Some(ProviderKind::OpenAiCompatible) && provider.base_url.is_none()
            {
                return Err(CommandError::usage(format!("{place}: {path} needs a base_url")));
            }
            providers.insert(name.to_owned(), provider);
        }
        Ok(providers)
    }

    fn provider(
        &self,
        path: &str,
        name: &str,
        section: &DeTable<'_>,
    ) -> Result<Provider, CommandError> {
        let mut provider = Provider { kind: ProviderKind::find(name), ..Provider::default() };
        let mut address = None;
        for (key, value) in section {
            let at = format!("{path}.{}", key.get_ref());
            let place = self.place(value.span().start);
            match key.get_ref().as_ref() {
                "kind" => {
                    let kind = ProviderKind::find(&self.text(value, &at)?);
                    let unknown = || CommandError::usage(format!("{place}: {at} is unknown"));
                    provider.kind = Some(kind.ok_or_else(|| unknown().hint(kinds()))?);
                }
                "base_url" => address = Some((self.text(value, &at)?, at, place)),
                "api_key_env" => {
                    let variable = self.text(value, &at)?;
                    // What is no name may be a key, and is not repeated.
                    if !is_variable(&variable) {
                        let what = format!("{place}: {at} must be the name of a variable");
                        return Err(CommandError::usage(what).hint(
                            "keys do not belong in this file: write api_key_env = \"ACME_API_KEY\"",
                        ));
                    }
                    provider.api_key_env = Some(variable);
                }
                "models" => {
                    provider.models = Some(self.texts(value, &at)?.into_iter().collect());
                }
                "api_key" => {
                    let what = format!(
                        "{}: {at}: keys do not belong in this file",
                        self.place(key.span().start)
                    );
                    return Err(CommandError::usage(what)
                        .hint("name the variable that holds it: api_key_env = \"ACME_API_KEY\""));
                }
                other => {
                    let known = ["kind", "base_url", "api_key_env", "models"];
                    return Err(self.unknown(key.span().start, &at, other, &known));
                }
            }
        }
        // Read last: what an address means depends on the kind.
        if let Some((text, at, place)) = address {
            let kind = provider.kind.unwrap_or(ProviderKind::OpenAiCompatible);
            let base_url = BaseUrl::parse(kind, &text).map_err(|error| {
                CommandError::usage(format!("{place}: {at} cannot be used: {error}"))
            })?;
            provider.base_url = Some(base_url);
        }
        Ok(provider)
    }
}

fn kinds() -> String {
    format!("kinds: {}", ProviderKind::ALL.map(ProviderKind::as_str).join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        Config::parse("c.toml", text).map_err(|error| error.what)
    }

    /// Name, kind, where a turn would go, and whether there is a key.
    fn settled(
        text: &str,
        variables: &[(&str, &str)],
    ) -> Vec<(String, ProviderKind, BaseUrl, bool)> {
        let variable = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let settings = read(text).unwrap().provider_settings(variable).unwrap();
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
        let text =
            "[providers.openai]\nkind = \"openai-responses\"\nbase_url = \"http://a.example/v1\"
            api_key_env = \"TEAM_KEY\"\n[providers.local]\nkind = \"openai-compatible\"
            base_url = \"http://127.0.0.1:11434/v1\"\n";
        let responses = ProviderKind::OpenAiResponses;
        let compatible = ProviderKind::OpenAiCompatible;
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

    #[test]
    fn mistakes_name_their_line_and_repeat_no_key() {
        for (text, expected) in [
            (
                "[providers.local]\nbase_url = \"http://x\"",
                "c.toml:1: providers.local needs a kind",
            ),
            (
                "[providers.x]\nkind = \"openai-compatible\"",
                "c.toml:1: providers.x needs a base_url",
            ),
            ("[providers.x]\nkind = \"gpt\"", "c.toml:2: providers.x.kind is unknown"),
            ("[providers.openai]\nurl = \"x\"", "c.toml:2: unknown key providers.openai.url"),
            (
                "[providers.openai]\napi_key = \"sk-1\"",
                "c.toml:2: providers.openai.api_key: keys do not belong in this file",
            ),
            (
                "[providers.openai]\napi_key_env = \"sk-1\"",
                "c.toml:2: providers.openai.api_key_env must be the name of a variable",
            ),
            (
                "[providers.openai]\nbase_url = \"https://me:pw@x\"",
                "c.toml:2: providers.openai.base_url cannot be used: it holds a user name or a password",
            ),
            (
                "[providers.scripted]\nkind = \"openai\"",
                "c.toml:1: providers.scripted cannot be called that",
            ),
            ("providers = 1", "c.toml:1: providers must be sections, not an integer"),
        ] {
            assert_eq!(read(text).map(|_| ()), Err(expected.to_owned()), "{text}");
        }
    }
}
