//! Tokens of issuers (OpenID Connect): who a caller is that shows one instead of a key.
//!
//! What is asked of an issuer: its discovery document and its public keys, both bounded, kept, and fetched again when a
//! token names a key that is not among them. Where an issuer is away, the keys that are there go on, and nobody is let
//! in by anything else.

mod claims;
mod keeper;
mod keys;
mod token;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use callboard_engine::{Clock, IssuerHttp};
use callboard_protocol::{KeyId, Object, Principal, Tenant, Timestamp, Workspace};
use serde_json::Value;

use crate::problem::{Code, Problem};
use keeper::Keeper;
use token::{Head, Wrong};

pub use claims::is_of_issuer;
pub(crate) use token::looks_like_token;

/// One issuer, as the operator describes it.
#[derive(Debug, Clone)]
pub struct IssuerSettings {
    /// What the operator calls it.
    pub name: String,
    /// Exactly as tokens say it.
    pub issuer: String,
    /// Whom its tokens must be for: one of these.
    pub audiences: BTreeSet<String>,
    pub tenant: TenantRule,
    /// The claim that names the one workspace of a caller; none is the whole tenant.
    pub workspace_claim: Option<String>,
    pub roles: RolesRule,
    /// How far clocks may be apart.
    pub skew: Duration,
}

/// Whose things a caller works with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TenantRule {
    /// Always the same.
    Fixed(String),
    /// What a claim says, if it is one of these; each with the tenant that it means.
    Claim { claim: String, known: BTreeMap<String, String> },
    /// What a claim says, whatever it is: the issuer decides which tenants there are.
    AnyOf { claim: String },
}

/// Which roles a caller has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolesRule {
    /// A list of words, or words with spaces between them. Where it is not a claim's own name, dots lead into it.
    pub claim: Option<String>,
    /// What the words mean; where this is empty, they are names of roles.
    pub meaning: BTreeMap<String, String>,
    /// What everybody has.
    pub everybody: BTreeSet<String>,
}

/// Where an issuer has its doors.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoints {
    pub keys: String,
    pub authorize: Option<String>,
    pub token: Option<String>,
    pub end_session: Option<String>,
}

/// Somebody whom an issuer vouches for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Vouched {
    pub id: KeyId,
    pub principal: Principal,
    pub issuer: String,
    /// For people who read lists.
    pub name: String,
    pub tenant: Tenant,
    pub workspace: Option<Workspace>,
    pub roles: BTreeSet<String>,
    pub until: Timestamp,
}

/// How somebody comes in: what one way grants says nothing of the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Bearer,
    Console,
}

/// One issuer with the keys that it signs with.
#[derive(Debug)]
pub struct Issuer {
    settings: IssuerSettings,
    keeper: Keeper,
    clock: Arc<dyn Clock>,
}

/// All issuers of a host.
#[derive(Debug, Clone, Default)]
pub struct Issuers(Vec<Arc<Issuer>>);

impl Issuers {
    pub fn new(issuers: impl IntoIterator<Item = Arc<Issuer>>) -> Self {
        Self(issuers.into_iter().collect())
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Looks again at keys that are known for long: to be called now and then.
    pub async fn refresh(&self) {
        for issuer in &self.0 {
            issuer.keeper.refresh().await;
        }
    }

    /// What discovery and the metadata of the resource name.
    pub(crate) fn addresses(&self) -> Vec<String> {
        self.0.iter().map(|issuer| issuer.settings.issuer.clone()).collect()
    }

    /// Whom every token must be for, where that is one name with every issuer.
    pub(crate) fn audience(&self) -> Option<String> {
        let mut all = self.0.iter().flat_map(|issuer| &issuer.settings.audiences);
        let first = all.next()?;
        all.all(|other| other == first).then(|| first.clone())
    }

    /// Judges a token that a caller shows instead of a key.
    pub(crate) async fn check(&self, token: &str) -> Result<Vouched, Problem> {
        let head = Head::read(token)?;
        let named = |issuer: &&Arc<Issuer>| head.issuer == issuer.settings.issuer;
        let issuer = self.0.iter().find(named).ok_or(Wrong::UnknownIssuer)?;
        let claims = issuer.open(&head, &issuer.settings.audiences).await?;
        issuer.vouch(&claims, Way::Bearer)
    }
}

impl Issuer {
    pub fn new(settings: IssuerSettings, http: Arc<dyn IssuerHttp>, clock: Arc<dyn Clock>) -> Self {
        let keeper = Keeper::new(settings.issuer.clone(), http, Arc::clone(&clock));
        Self { settings, keeper, clock }
    }

    pub fn settings(&self) -> &IssuerSettings {
        &self.settings
    }

    /// Where its doors are, as it says itself.
    pub async fn endpoints(&self) -> Result<Endpoints, Problem> {
        Ok(self.keeper.endpoints().await?)
    }

    /// The claims of an id token that this issuer gave for a client, all of it checked.
    pub async fn id_token(&self, token: &str, client: &str) -> Result<Object, Problem> {
        let head = Head::read(token)?;
        if head.issuer != self.settings.issuer {
            return Err(Wrong::UnknownIssuer.into());
        }
        let claims = self.open(&head, &BTreeSet::from([client.to_owned()])).await?;
        // Given to several, it must have been asked for by this one.
        let party = claims.get("azp").and_then(Value::as_str);
        if party.is_some_and(|party| party != client) {
            return Err(Wrong::Audience.into());
        }
        Ok(claims)
    }

    async fn open(&self, head: &Head<'_>, audiences: &BTreeSet<String>) -> Result<Object, Wrong> {
        let key = self.keeper.find(head.kid.as_deref(), head.algorithm).await?;
        let claims = head.open(&key)?;
        claims::check(&claims, audiences, self.settings.skew, self.clock.now())?;
        Ok(claims)
    }

    /// Who somebody with these claims is here.
    pub fn vouch(&self, claims: &Object, way: Way) -> Result<Vouched, Problem> {
        claims::vouch(&self.settings, claims, way)
    }
}

impl From<Wrong> for Problem {
    fn from(wrong: Wrong) -> Self {
        match &wrong {
            Wrong::Away { retry_after } => Self::unavailable(&wrong.to_string(), *retry_after),
            Wrong::Expired => Self::new(Code::KeyExpired, wrong.to_string()),
            Wrong::NotHere(_) => Self::new(Code::Forbidden, wrong.to_string()),
            _ => Self::new(Code::Unauthenticated, wrong.to_string()),
        }
    }
}
