//! `[limits.concurrency]`, and `[tenants.NAME]`: what holds for one tenant instead.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use callboard_core::EgressList;
use callboard_engine::{Ceilings, Concurrency, StoredLimits};

use callboard_server::{StartLimits, StartsAMinute};

use super::Config;
use super::values::whole;

/// How many of something may be at once. Nobody waits for the millionth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Count(usize);

impl Count {
    pub(crate) const fn get(self) -> usize {
        self.0
    }
}

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        whole::<_, usize, 1, 1_000_000>(deserializer).map(Self)
    }
}

/// Runs at work at once, of each tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EveryTenant {
    tenant: Option<Count>,
    workflows: BTreeMap<String, Count>,
    agents: BTreeMap<String, Count>,
    /// Calls under way at once, of this process.
    pub(crate) providers: BTreeMap<String, Count>,
}

/// Runs that callers start in a minute, of each tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct EveryStart {
    tenant: Option<Count>,
    key: Option<Count>,
    workflows: BTreeMap<String, Count>,
    agents: BTreeMap<String, Count>,
}

/// The same for one tenant.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct OneTenant {
    runs: Option<Count>,
    workflows: BTreeMap<String, Count>,
    agents: BTreeMap<String, Count>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tenant {
    concurrency: OneTenant,
    runs_per_minute: EveryStart,
    egress: Egress,
    #[serde(deserialize_with = "whole::<_, _, 1, { 1 << 53 }>")]
    stored_runs: Option<u64>,
}

/// Hosts that the tenant's requests may go to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Egress {
    #[serde(deserialize_with = "hosts")]
    allow: Option<Vec<String>>,
    #[serde(deserialize_with = "hosts")]
    deny: Option<Vec<String>>,
}

/// An empty list would allow nothing, or mean nothing: neither is what somebody wants to write.
fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<String>>, D::Error> {
    let hosts = Vec::<String>::deserialize(deserializer)?;
    EgressList::check(&hosts).map_err(D::Error::custom)?;
    if hosts.is_empty() { Err(D::Error::custom("must name a host")) } else { Ok(Some(hosts)) }
}

fn ceilings(
    runs: Option<Count>,
    workflows: &BTreeMap<String, Count>,
    agents: &BTreeMap<String, Count>,
) -> Ceilings {
    let plain = |counts: &BTreeMap<String, Count>| {
        counts.iter().map(|(name, count)| (name.clone(), count.0)).collect()
    };
    Ceilings { runs: runs.map(|count| count.0), workflows: plain(workflows), agents: plain(agents) }
}

impl EveryStart {
    fn limits(&self) -> StartsAMinute {
        let plain = |count: Count| u32::try_from(count.0).unwrap_or(u32::MAX);
        let all = |counts: &BTreeMap<String, Count>| {
            counts.iter().map(|(name, count)| (name.clone(), plain(*count))).collect()
        };
        StartsAMinute {
            runs: self.tenant.map(plain),
            key: self.key.map(plain),
            workflows: all(&self.workflows),
            agents: all(&self.agents),
        }
    }
}

impl Config {
    /// How many runs tenants may have stored.
    pub(crate) fn stored_limits(&self) -> StoredLimits {
        let own =
            |(name, tenant): (&String, &Tenant)| Some((name.as_str().into(), tenant.stored_runs?));
        StoredLimits {
            every: self.limits.stored_runs,
            tenants: self.tenants.iter().filter_map(own).collect(),
        }
    }

    /// How many runs callers may start in a minute.
    pub(crate) fn start_limits(&self) -> StartLimits {
        let one = |(name, tenant): (&String, &Tenant)| {
            (name.as_str().into(), tenant.runs_per_minute.limits())
        };
        StartLimits {
            every: self.limits.runs_per_minute.limits(),
            tenants: self.tenants.iter().map(one).collect(),
        }
    }

    /// Where requests of tenants may go.
    pub(crate) fn egress_lists(&self) -> BTreeMap<callboard_protocol::Tenant, EgressList> {
        let listed = self.tenants.iter().filter_map(|(name, tenant)| {
            let Egress { allow, deny } = tenant.egress.clone();
            let list =
                EgressList { allow: allow.unwrap_or_default(), deny: deny.unwrap_or_default() };
            (list != EgressList::default()).then(|| (name.as_str().into(), list))
        });
        listed.collect()
    }

    /// How many runs may be at work at once.
    pub(crate) fn concurrency(&self) -> Concurrency {
        let EveryTenant { tenant, workflows, agents, .. } = &self.limits.concurrency;
        let one = |(name, tenant): (&String, &Tenant)| {
            let OneTenant { runs, workflows, agents } = &tenant.concurrency;
            (name.as_str().into(), ceilings(*runs, workflows, agents))
        };
        Concurrency {
            every: ceilings(*tenant, workflows, agents),
            tenants: self.tenants.iter().map(one).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_of_every_tenant_or_of_one() {
        let text = "[limits.concurrency]\ntenant = 3\nagents.\"acme.coder\" = 1\n\
                    [tenants.acme.concurrency]\nruns = 9\nworkflows.nightly = 2\n";
        let limits = Config::parse("c.toml", text).unwrap().concurrency();
        assert_eq!(limits.every.runs, Some(3));
        assert_eq!(limits.every.agents["acme.coder"], 1);
        let acme = &limits.tenants[&"acme".into()];
        assert_eq!((acme.runs, acme.workflows["nightly"]), (Some(9), 2));
        assert!(Config::default().concurrency().is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_its_key() {
        for (text, key) in [
            ("[limits.concurrency]\ntenant = 0\n", "tenant"),
            ("[limits.concurrency]\ntenants = 3\n", "tenants"),
            ("[tenants.acme.concurrency]\ntenant = 3\n", "tenant"),
            ("[tenants.acme.egress]\nallow = []\n", "name a host"),
            ("[tenants.acme.egress]\ndeny = [\"https://x/\"]\n", "is no host"),
        ] {
            let error = format!("{:?}", Config::parse("c.toml", text).unwrap_err());
            assert!(error.contains(key), "{error}");
        }
    }
}
