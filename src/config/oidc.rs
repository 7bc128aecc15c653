//! `[oidc.NAME]`: issuers whose tokens are taken instead of keys, and where people sign in.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use secrecy::SecretString;
use serde::Deserialize;
use serde::de::Deserializer;

use callboard_server::{IssuerSettings, RolesRule, TenantRule, is_tenant_name};

use super::Config;
use super::providers::find_key;
use super::values::{Named, is_variable, whole};
use crate::exit::CommandError;

/// The issuer of those variables that name one, and what it is called in the file.
const OF_ENVIRONMENT: &str = "default";
/// The tenant of those who name none.
const DEFAULT_TENANT: &str = "default";
/// Further apart than clocks are, and little beside the life of a token.
const MOST_SKEW: u64 = 600;

/// One issuer as the operator describes it.
#[derive(Debug, Clone)]
pub(crate) struct Oidc {
    settings: IssuerSettings,
    allow_private: bool,
    client_id: Option<String>,
    client_secret_env: Option<String>,
    scopes: Vec<String>,
    title: String,
}

/// The same with what the environment says, ready to be asked.
#[derive(Debug)]
pub(crate) struct IssuerConfig {
    pub(crate) settings: IssuerSettings,
    pub(crate) allow_private: bool,
    /// How people sign in at the console; none where they do not.
    pub(crate) client: Option<OidcClient>,
}

/// What this host is to an issuer.
#[derive(Debug, Clone)]
pub(crate) struct OidcClient {
    pub(crate) id: String,
    pub(crate) secret: Option<SecretString>,
    pub(crate) scopes: Vec<String>,
    pub(crate) title: String,
}

#[derive(Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Section {
    issuer: String,
    #[serde(deserialize_with = "one_or_more")]
    audience: BTreeSet<String>,
    tenant: Option<String>,
    tenant_claim: Option<String>,
    tenants: Option<Tenants>,
    workspace_claim: Option<String>,
    roles_claim: String,
    roles: BTreeMap<String, String>,
    default_roles: BTreeSet<String>,
    #[serde(deserialize_with = "whole::<_, _, 0, MOST_SKEW>")]
    clock_skew_seconds: u64,
    allow_private: bool,
    client_id: Option<String>,
    client_secret_env: Option<String>,
    scopes: Vec<String>,
    title: Option<String>,
}

impl Default for Section {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            audience: BTreeSet::new(),
            tenant: None,
            tenant_claim: None,
            tenants: None,
            workspace_claim: None,
            roles_claim: "roles".to_owned(),
            roles: BTreeMap::new(),
            default_roles: BTreeSet::new(),
            clock_skew_seconds: 60,
            allow_private: false,
            client_id: None,
            client_secret_env: None,
            scopes: vec!["openid".to_owned(), "profile".to_owned()],
            title: None,
        }
    }
}

/// Which tenants a claim may name: a list of them, or a table of what the claim says and which tenant that is.
#[derive(Clone, Deserialize)]
#[serde(untagged)]
enum Tenants {
    Named(Vec<String>),
    Mapped(BTreeMap<String, String>),
}

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Written {
        One(String),
        More(BTreeSet<String>),
    }
    Ok(match Written::deserialize(deserializer)? {
        Written::One(one) => BTreeSet::from([one]),
        Written::More(more) => more,
    })
}

impl Named for Oidc {
    type Section = Section;

    fn new(name: &str, section: Section) -> Result<Self, String> {
        let is_private = section.allow_private;
        let is_address = section.issuer.starts_with("https://")
            || (is_private && section.issuer.starts_with("http://"));
        if !is_address {
            return Err("needs issuer, an address that begins with https://\n\
                        exactly as the issuer's tokens say it in iss"
                .to_owned());
        }
        if section.audience.is_empty() || section.audience.contains("") {
            return Err("needs audience\nwhat tokens for this host say in aud".to_owned());
        }
        if section.client_secret_env.as_ref().is_some_and(|name| !is_variable(name)) {
            return Err("has a client_secret_env that is no variable's name\n\
                        the secret itself does not belong in this file"
                .to_owned());
        }
        if section.client_secret_env.is_some() && section.client_id.is_none() {
            return Err("has client_secret_env without client_id".to_owned());
        }
        let tenant = tenant(&section)?;
        let title = section.title.unwrap_or_else(|| name.to_owned());
        let settings = IssuerSettings {
            name: name.to_owned(),
            issuer: section.issuer,
            audiences: section.audience,
            tenant,
            workspace_claim: section.workspace_claim,
            roles: RolesRule {
                claim: Some(section.roles_claim).filter(|claim| !claim.is_empty()),
                meaning: section.roles,
                everybody: section.default_roles,
            },
            skew: Duration::from_secs(section.clock_skew_seconds),
        };
        Ok(Self {
            settings,
            allow_private: is_private,
            client_id: section.client_id,
            client_secret_env: section.client_secret_env,
            scopes: section.scopes,
            title,
        })
    }
}

/// Whoever lets a claim name tenants says which: an issuer for many customers knows more of them than this host.
fn tenant(section: &Section) -> Result<TenantRule, String> {
    let checked = |name: &str| match is_tenant_name(name) {
        true => Ok(()),
        false => Err(format!(
            "names the tenant {name:?}, which cannot be one\n\
                              a tenant has 1 to 128 letters, digits, and . _ ~ -"
        )),
    };
    match (&section.tenant, &section.tenant_claim, &section.tenants) {
        (Some(_), Some(_), _) => Err("has both tenant and tenant_claim".to_owned()),
        (_, None, Some(_)) => Err("has tenants without tenant_claim".to_owned()),
        (tenant, None, None) => {
            let tenant = tenant.as_deref().unwrap_or(DEFAULT_TENANT);
            checked(tenant)?;
            Ok(TenantRule::Fixed(tenant.to_owned()))
        }
        (None, Some(_), None) => Err("needs tenants beside tenant_claim\n\
             which the claim may name: a list, a table of what it says, or [\"*\"] for any"
            .to_owned()),
        (None, Some(claim), Some(Tenants::Named(names))) if names.as_slice() == ["*"] => {
            Ok(TenantRule::AnyOf { claim: claim.clone() })
        }
        (None, Some(claim), Some(tenants)) => {
            let known: BTreeMap<String, String> = match tenants {
                Tenants::Named(names) => {
                    names.iter().map(|name| (name.clone(), name.clone())).collect()
                }
                Tenants::Mapped(map) => map.clone(),
            };
            known.values().try_for_each(|name| checked(name))?;
            Ok(TenantRule::Claim { claim: claim.clone(), known })
        }
    }
}

impl Config {
    /// Every issuer, with the environment over the file.
    pub(crate) fn issuers(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Vec<IssuerConfig>, CommandError> {
        let mut all = self.oidc.clone();
        let set = |name: &str| variable(name).filter(|text| !text.is_empty());
        let issuer = set("CALLBOARD_OIDC_ISSUER");
        let named = [set("CALLBOARD_OIDC_AUDIENCE"), set("CALLBOARD_OIDC_CLIENT_ID")];
        if let Some(issuer) = issuer {
            let wrong = |why: String| {
                let why = why.lines().next().unwrap_or_default().to_owned();
                CommandError::usage(format!("CALLBOARD_OIDC_ISSUER {why}"))
                    .hint("CALLBOARD_OIDC_ISSUER and CALLBOARD_OIDC_AUDIENCE go together; the rest is in [oidc.default]")
            };
            let [audience, client_id] = named;
            let entry = match all.remove(OF_ENVIRONMENT) {
                Some(mut known) => {
                    known.settings.issuer = issuer;
                    known.settings.audiences =
                        audience.map_or(known.settings.audiences, |it| BTreeSet::from([it]));
                    known.client_id = client_id.or(known.client_id);
                    known
                }
                None => {
                    let audience = audience.into_iter().collect();
                    let section = Section { issuer, audience, client_id, ..Section::default() };
                    Oidc::new(OF_ENVIRONMENT, section).map_err(wrong)?
                }
            };
            all.insert(OF_ENVIRONMENT.to_owned(), entry);
        } else if named.iter().any(Option::is_some) {
            return Err(CommandError::usage(
                "CALLBOARD_OIDC_AUDIENCE and CALLBOARD_OIDC_CLIENT_ID need CALLBOARD_OIDC_ISSUER",
            ));
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = all.values().find(|it| !seen.insert(&it.settings.issuer)) {
            let name = &twice.settings.name;
            return Err(CommandError::usage(format!(
                "[oidc.{name}] has the issuer of another section"
            )));
        }
        all.values().map(|it| it.with(&variable)).collect()
    }
}

impl Oidc {
    fn with(
        &self,
        variable: &impl Fn(&str) -> Option<String>,
    ) -> Result<IssuerConfig, CommandError> {
        let own = (self.settings.name == OF_ENVIRONMENT).then_some("CALLBOARD_OIDC_CLIENT_SECRET");
        let names: Vec<&str> = self.client_secret_env.as_deref().or(own).into_iter().collect();
        let secret = find_key(&names, variable)?;
        if let (Some(name), None) = (&self.client_secret_env, &secret) {
            return Err(CommandError::usage(format!(
                "[oidc.{}] names the variable {name}, which is not set",
                self.settings.name
            )));
        }
        let client = self.client_id.clone().map(|id| OidcClient {
            id,
            secret: secret.map(Into::into),
            scopes: self.scopes.clone(),
            title: self.title.clone(),
        });
        let (settings, allow_private) = (self.settings.clone(), self.allow_private);
        Ok(IssuerConfig { settings, allow_private, client })
    }
}
