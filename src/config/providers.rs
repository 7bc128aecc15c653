//! `[providers]`: model providers, their URLs and keys.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use callboard_agents::ModelRef;
use callboard_backends::{BaseUrl, ProviderKind, ProviderSettings, Timeouts};

use super::Config;
use super::explain::unknown;
use super::models::is_built_in;
use super::values::{Named, is_variable, whole};
use crate::exit::CommandError;
use crate::settings::{Origin, Shown, read_secret, without_password};
use crate::wire::ProviderLimits;

/// Providers that need no section: their usual variables are enough.
static WELL_KNOWN: [WellKnown; 4] = [
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

/// A section as it was read. There is never a key in it.
#[derive(Debug, Clone)]
pub(crate) struct Provider {
    kind: ProviderKind,
    base_url: Option<BaseUrl>,
    api_key_env: Option<String>,
    /// What runs may name without a key of their own; none where that is any model.
    models: Option<BTreeSet<String>>,
    requests_per_minute: Option<u64>,
    tokens_per_minute: Option<u64>,
}

impl Config {
    /// A limit of a provider that is not there limits nothing, which nobody wants to find out.
    pub(crate) fn check_provider_limits(
        &self,
        is_there: impl Fn(&str) -> bool,
    ) -> Result<(), CommandError> {
        let is_known = |name: &str| is_there(name) || well_known_provider(name).is_some();
        match self.limits.concurrency.providers.keys().find(|name| !is_known(name)) {
            Some(name) => {
                let what = format!("limits.concurrency.providers.{name}: no such provider");
                Err(CommandError::usage(what).hint("name a section of [providers]"))
            }
            None => Ok(()),
        }
    }

    /// What each provider may be asked, where that is limited.
    pub(crate) fn provider_limits(&self) -> BTreeMap<String, ProviderLimits> {
        let mut limits: BTreeMap<String, ProviderLimits> = BTreeMap::new();
        for (name, count) in &self.limits.concurrency.providers {
            limits.entry(name.clone()).or_default().concurrency = Some(count.get());
        }
        for (name, provider) in &self.providers {
            let (requests, tokens) = (provider.requests_per_minute, provider.tokens_per_minute);
            if requests.or(tokens).is_some() {
                let limits = limits.entry(name.clone()).or_default();
                (limits.requests_per_minute, limits.tokens_per_minute) = (requests, tokens);
            }
        }
        limits
    }

    /// Every configured provider, with the environment over the file. A key may also be in a file, which
    /// the variable with `_FILE` after its name gives.
    pub(crate) fn provider_settings(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<ProviderSettings>, CommandError> {
        let well_known = WELL_KNOWN.iter().map(|known| known.kind.as_str());
        let own = self.providers.keys().map(String::as_str);
        let own = own.filter(|name| well_known_provider(name).is_none());
        let mut settings = Vec::new();
        for name in well_known.chain(own) {
            let (known, section) = (well_known_provider(name), self.providers.get(name));
            let addresses = known.map_or(&[][..], |known| known.addresses);
            let address = addresses.iter().find_map(|it| Some((*it, variable(it)?)));
            let section_key = section.and_then(|section| section.api_key_env.as_deref());
            let usual_keys = known.map_or(&[][..], |known| known.keys);
            let keys = section_key.map_or_else(|| usual_keys.to_vec(), |name| vec![name]);
            let key = find_key(&keys, &variable)?;
            if section.is_none() && address.is_none() && key.is_none() {
                continue;
            }
            let kind = section.map(|section| section.kind).or(known.map(|known| known.kind));
            let Some(kind) = kind else { continue };
            let written = address.map(|(variable, text)| parse_address(kind, variable, &text));
            let base_url = written.transpose()?.or_else(|| section?.base_url.clone());
            let base_url = base_url.or_else(|| BaseUrl::public_service(kind));
            settings.extend(base_url.map(|base_url| ProviderSettings {
                name: name.to_owned(),
                kind,
                base_url,
                key: key.map(Into::into),
                timeouts: Timeouts::default(),
            }));
        }
        Ok(settings)
    }

    /// What the environment says of providers: their addresses, and that there is a key.
    pub(super) fn providers_of_environment(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Vec<Shown> {
        let set = |name: &str| variable(name).map(|text| (name.to_owned(), text));
        let own = self.providers.iter().filter_map(|(name, it)| {
            let key = it.api_key_env.as_deref()?;
            Some((name.as_str(), vec![key], &[][..]))
        });
        let usual = WELL_KNOWN.iter().map(|it| (it.kind.as_str(), it.keys.to_vec(), it.addresses));
        let mut shown = Vec::new();
        for (provider, keys, addresses) in usual.chain(own) {
            let key = keys.iter().find_map(|it| set(it).or_else(|| set(&format!("{it}_FILE"))));
            let address = addresses.iter().find_map(|it| set(it));
            let key = key.map(|(name, _)| ("api_key", name, "…".to_owned()));
            let address = address.map(|(name, text)| ("base_url", name, without_password(&text)));
            shown.extend(key.into_iter().chain(address).map(|(what, name, text)| Shown {
                key: format!("providers.{provider}.{what}"),
                value: text.into(),
                origin: Origin::Variable(name),
            }));
        }
        shown
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
        section.or_else(|| well_known_provider(provider)?.keys.first().copied())
    }

    pub(super) fn knows_provider(&self, name: &str) -> bool {
        is_built_in(name)
            || self.providers.contains_key(name)
            || well_known_provider(name).is_some()
    }
}

fn well_known_provider(name: &str) -> Option<&'static WellKnown> {
    WELL_KNOWN.iter().find(|known| known.kind.as_str() == name)
}

fn parse_address(kind: ProviderKind, variable: &str, text: &str) -> Result<BaseUrl, CommandError> {
    BaseUrl::parse(kind, text).map_err(|error| {
        CommandError::usage(format!("{variable} cannot be used: {error}"))
            .hint("write it like https://api.example.com, and the key in a variable of its own")
    })
}

/// The first key that one of the variables holds, or the file that its twin names.
pub(super) fn find_key(
    names: &[&str],
    variable: &impl Fn(&str) -> Option<String>,
) -> Result<Option<String>, CommandError> {
    for name in names {
        if let Some(key) = variable(name) {
            return Ok(Some(key.trim().to_owned()));
        }
        let twin = format!("{name}_FILE");
        if let Some(path) = variable(&twin) {
            return read_secret(&twin, path.as_ref()).map(Some);
        }
    }
    Ok(None)
}

/// A section as it is written.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Section {
    #[serde(deserialize_with = "kind")]
    kind: Option<ProviderKind>,
    base_url: Option<String>,
    #[serde(deserialize_with = "variable")]
    api_key_env: Option<String>,
    models: Option<BTreeSet<String>>,
    #[serde(deserialize_with = "whole::<_, Option<u64>, 1, 1_000_000>")]
    requests_per_minute: Option<u64>,
    #[serde(deserialize_with = "whole::<_, Option<u64>, 1, 1_000_000_000_000>")]
    tokens_per_minute: Option<u64>,
}

fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ProviderKind>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let kinds = ProviderKind::ALL.map(ProviderKind::as_str);
    let refusal = || D::Error::custom(unknown("variant", &name, &kinds));
    ProviderKind::find(&name).map(Some).ok_or_else(refusal)
}

/// What is no name may be a key, and is not repeated.
fn variable<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let wrong = "must be the name of a variable\n\
                 keys do not belong in this file: write api_key_env = \"ACME_API_KEY\"";
    if is_variable(&name) { Ok(Some(name)) } else { Err(D::Error::custom(wrong)) }
}

impl Named for Provider {
    type Section = Section;

    fn new(name: &str, section: Section) -> Result<Self, String> {
        if is_built_in(name) || format!("{name}/x").parse::<ModelRef>().is_err() {
            return Err("cannot be called that\n\
                        use lower-case letters, digits, - and _; scripted and cli are built in"
                .to_owned());
        }
        let Some(kind) = section.kind.or_else(|| ProviderKind::find(name)) else {
            let kinds = ProviderKind::ALL.map(ProviderKind::as_str).join(", ");
            return Err(format!("needs a kind\nkinds: {kinds}"));
        };
        // What an address means depends on the kind.
        let base_url = section.base_url.map(|text| BaseUrl::parse(kind, &text)).transpose();
        let base_url = base_url.map_err(|error| format!("`base_url` cannot be used: {error}"))?;
        if kind == ProviderKind::OpenAiCompatible && base_url.is_none() {
            return Err("needs a base_url".to_owned());
        }
        let Section { api_key_env, models, requests_per_minute, tokens_per_minute, .. } = section;
        Ok(Self { kind, base_url, api_key_env, models, requests_per_minute, tokens_per_minute })
    }
}
