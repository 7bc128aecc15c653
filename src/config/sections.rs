//! The sections that are a few keys each: `[agents]`, `[budgets]`, `[console]`, `[deployments]`, `[orchestration]`,
//! `[roster]`, `[sandbox]`, `[tools]`.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

use callboard_agents::{DeploymentPolicy, EvalGate, LATEST, ModelRef, ModelTable, RatePolicy};
use callboard_console::Lifetime;
use callboard_core::{Confidence, EXECUTION_MODEL, WIDEST_WINDOW};
use callboard_protocol::{AgentsCapability, EffectiveBudget, InstallScope};

use super::values::{checked, dollars, whole};
use crate::exit::CommandError;
use crate::sandbox::User;

/// Whether agents of packs ask models.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Agents {
    live: Live,
}

#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Live {
    /// Where a model is named, be it the scripted one.
    #[default]
    Auto,
    On,
    Off,
}

impl Agents {
    /// Models are asked, be it the scripted one.
    pub(crate) const LIVE: Self = Self { live: Live::On };

    /// Whether agents are live with these models. Whoever asks for test seams wants to see them live.
    pub(crate) fn is_live(self, table: &ModelTable, test_seams: bool) -> bool {
        let is_named = table.default.is_some() || !table.classes.is_empty();
        let asks =
            || ModelTable::CLASSES.iter().any(|class| table.of(*class) != ModelRef::scripted());
        match self.live {
            Live::Auto => test_seams || is_named || asks(),
            Live::On => true,
            Live::Off => false,
        }
    }
}

/// What no run, no member that has no budget of its own, and no tenant may use more of, the latter two in a day.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Budgets {
    #[serde(deserialize_with = "whole::<_, _, 1, { u64::MAX }>")]
    run_tokens: Option<u64>,
    #[serde(deserialize_with = "dollars")]
    run_cost_usd: Option<f64>,
    #[serde(deserialize_with = "whole::<_, _, 1, { u64::MAX }>")]
    member_daily_tokens: Option<u64>,
    #[serde(deserialize_with = "dollars")]
    member_daily_cost_usd: Option<f64>,
    #[serde(deserialize_with = "whole::<_, _, 1, { u64::MAX }>")]
    tenant_daily_tokens: Option<u64>,
    #[serde(deserialize_with = "dollars")]
    tenant_daily_cost_usd: Option<f64>,
}

impl Budgets {
    pub(crate) fn run(&self) -> EffectiveBudget {
        budget(self.run_tokens, self.run_cost_usd)
    }

    pub(crate) fn member_day(&self) -> EffectiveBudget {
        budget(self.member_daily_tokens, self.member_daily_cost_usd)
    }

    pub(crate) fn tenant_day(&self) -> EffectiveBudget {
        budget(self.tenant_daily_tokens, self.tenant_daily_cost_usd)
    }
}

fn budget(max_tokens: Option<u64>, max_cost_usd: Option<f64>) -> EffectiveBudget {
    EffectiveBudget { max_tokens, max_cost_usd, ..EffectiveBudget::default() }
}

/// What an operator decides about versions of agents.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Deployments {
    /// Channels that versions can be promoted to.
    #[serde(deserialize_with = "channels")]
    channels: BTreeSet<String>,
    /// Whether a version needs an evaluation that passed before it becomes active.
    require_eval: bool,
}

impl Default for Deployments {
    fn default() -> Self {
        Self { channels: DeploymentPolicy::default().channels, require_eval: false }
    }
}

impl Deployments {
    /// By what this host judges transitions.
    pub(crate) fn policy(&self) -> DeploymentPolicy {
        DeploymentPolicy {
            channels: self.channels.clone(),
            eval_gate: self.require_eval.then(EvalGate::default),
            ..DeploymentPolicy::default()
        }
    }
}

fn channels<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeSet<String>, D::Error> {
    let channels = BTreeSet::<String>::deserialize(deserializer)?;
    let is_fine = |name: &&String| (1..=64).contains(&name.chars().count()) && *name != LATEST;
    match channels.iter().find(|name| !is_fine(name)) {
        None => Ok(channels),
        Some(name) => Err(D::Error::custom(format!(
            "names {name:?}, which cannot be a channel\n\
             names have 1 to 64 characters; latest is always the highest version"
        ))),
    }
}

/// How sure supervisors must be to be followed without asking, and what agents are shown.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Orchestration {
    /// Never below the protocol's own; a stricter one is advertised.
    #[serde(deserialize_with = "floor")]
    pub(crate) confidence_floor: Confidence,
    /// The protocol's execution model that is advertised and followed. Suites of older protocols take no newer version
    /// than they know. Memory and the confidence floor belong to every run here, so that the first cannot be followed.
    #[serde(deserialize_with = "whole::<_, _, 2, { EXECUTION_MODEL as u64 }>")]
    pub(crate) execution_model: u32,
    /// How many entries of its earlier turns an agent is shown.
    #[serde(deserialize_with = "whole::<_, _, 1, WIDEST_WINDOW>")]
    pub(crate) transcript_window: u64,
}

impl Default for Orchestration {
    fn default() -> Self {
        Self {
            confidence_floor: Confidence::FLOOR,
            execution_model: EXECUTION_MODEL,
            transcript_window: WIDEST_WINDOW,
        }
    }
}

fn floor<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Confidence, D::Error> {
    let wanted =
        "0.5 to 1\nthe protocol allows hosts to be stricter than 0.5, and not more lenient";
    let admit = |number| Confidence::of(number).filter(|floor| *floor >= Confidence::FLOOR);
    checked(deserializer, wanted, admit)
}

/// A year: a longer session is a forgotten one.
const MOST_MINUTES: u64 = 525_600;

/// How long a session at the console lasts.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Console {
    #[serde(deserialize_with = "whole::<_, _, 1, MOST_MINUTES>")]
    session_idle_minutes: Option<u64>,
    #[serde(deserialize_with = "whole::<_, _, 1, MOST_MINUTES>")]
    session_max_minutes: Option<u64>,
}

impl Console {
    pub(crate) fn lifetime(self) -> Lifetime {
        let usual = Lifetime::default();
        let minutes = |minutes: u64| Duration::from_secs(minutes * 60);
        Lifetime {
            idle: self.session_idle_minutes.map_or(usual.idle, minutes),
            longest: self.session_max_minutes.map_or(usual.longest, minutes),
        }
    }
}

/// Whether agents can be hired here.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Roster {
    enabled: bool,
    /// Who sees a member; it must be who sees the agents.
    install_scope: InstallScope,
}

impl Default for Roster {
    fn default() -> Self {
        Self { enabled: true, install_scope: InstallScope::Tenant }
    }
}

impl Roster {
    /// What discovery says with this section, unless that would contradict itself.
    pub(crate) fn advertise(
        &self,
        agents: Option<AgentsCapability>,
    ) -> Result<Option<AgentsCapability>, CommandError> {
        let Some(mut agents) = agents else { return Ok(None) };
        agents.roster = agents.roster.filter(|_| self.enabled);
        // Without a roster there is no org chart.
        agents.org_chart = agents.org_chart.filter(|_| self.enabled);
        if let Some(roster) = &mut agents.roster {
            roster.install_scope = self.install_scope;
        }
        if let Some(chart) = &mut agents.org_chart {
            chart.install_scope = self.install_scope;
        }
        agents.check().map_err(|contradiction| {
            CommandError::usage(format!("[roster]: {contradiction}"))
                .hint("leave install_scope out: members are seen by those who see their agents")
        })?;
        Ok(Some(agents))
    }
}

/// Whom the programs run as that the host starts.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Sandbox {
    /// Whom coding agents and MCP servers run as, where the host is the superuser.
    #[serde(deserialize_with = "user")]
    pub(crate) user: Option<User>,
    /// Whether they see the system's folders and their own alone.
    pub(crate) strict: bool,
}

fn user<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<User>, D::Error> {
    let name = String::deserialize(deserializer)?;
    let user = User::named(&name).ok_or_else(|| {
        D::Error::custom(format!(
            "names {name:?}, which is not a user of this machine\nname one of /etc/passwd, such as nobody"
        ))
    })?;
    Ok(Some(user))
}

/// How often tools may be used.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Tools {
    #[serde(rename = "calls_per_minute", deserialize_with = "rate")]
    pub(crate) rate: RatePolicy,
}

fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<RatePolicy, D::Error> {
    // More than a model could ever ask for.
    whole::<_, _, 0, 1_000_000>(deserializer)
        .map(|calls_per_minute| RatePolicy { calls_per_minute })
}
