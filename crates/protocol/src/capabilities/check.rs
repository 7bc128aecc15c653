//! Whether the advertised capabilities are consistent.

use super::{AgentsCapability, Capabilities, InstallScope};
use crate::TriggerSource;

/// An advertisement that says what nothing does.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Contradiction {
    #[error(transparent)]
    Roster(#[from] RosterContradiction),
    #[error("agents.roster.portfolioTriggerSources names {}, and {needs} does not fire it", source_name.as_str())]
    Unfired { source_name: TriggerSource, needs: &'static str },
    #[error(
        "triggerBridge.ingestion takes {}, which is not one of triggerBridge.sources", .0.as_str()
    )]
    Unbridged(TriggerSource),
    #[error("scheduling.cron is advertised, and scheduling.supported is not")]
    CronWithoutScheduling,
    #[error("budget.supported is advertised, and no dimension is")]
    BudgetOfNothing,
}

impl Capabilities {
    /// Families lean on each other; an operator learns of one that leans on nothing before the host answers.
    pub fn check(&self) -> Result<(), Contradiction> {
        let (scheduling, bridge) = (&self.scheduling, &self.trigger_bridge);
        if scheduling.cron && !scheduling.supported {
            return Err(Contradiction::CronWithoutScheduling);
        }
        let outer = bridge.ingestion.external_sources.iter();
        if let Some(source) = outer.copied().find(|source| !bridge.sources.contains(source)) {
            return Err(Contradiction::Unbridged(source));
        }
        if self.budget.as_ref().is_some_and(|it| it.supported && it.dimensions.is_empty()) {
            return Err(Contradiction::BudgetOfNothing);
        }
        let Some(agents) = &self.agents else { return Ok(()) };
        agents.check()?;
        let fired = agents.roster.iter().filter(|roster| roster.supported);
        for source_name in fired.flat_map(|roster| roster.portfolio_trigger_sources.clone()) {
            let needs = match source_name {
                TriggerSource::Manual => continue,
                TriggerSource::Heartbeat if self.heartbeat.supported => continue,
                TriggerSource::Heartbeat => "heartbeat",
                TriggerSource::Schedule if scheduling.cron => continue,
                TriggerSource::Schedule => "scheduling",
                TriggerSource::Webhook
                | TriggerSource::Queue
                | TriggerSource::Email
                | TriggerSource::Form => match bridge.sources.contains(&source_name) {
                    true if bridge.supported => continue,
                    _ => "triggerBridge",
                },
            };
            return Err(Contradiction::Unfired { source_name, needs });
        }
        Ok(())
    }
}

/// An advertisement that contradicts itself.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RosterContradiction {
    #[error(
        "agents.roster needs agents.manifestRuntime: a member is an instance of an installed agent"
    )]
    NoAgents,
    #[error(
        "agents.roster.installScope is {} and that of agents.manifestRuntime {}; they must be equal", roster.as_str(), agents.as_str()
    )]
    Scopes { roster: InstallScope, agents: InstallScope },
    #[error("agents.orgChart needs agents.roster: the members of a chart are on the roster")]
    ChartWithoutRoster,
    #[error(
        "agents.orgChart.installScope is {} and that of agents.roster {}; they must be equal", chart.as_str(), roster.as_str()
    )]
    ChartScopes { chart: InstallScope, roster: InstallScope },
}

impl AgentsCapability {
    /// A roster stands on the agents that its members are instances of.
    pub fn check(&self) -> Result<(), RosterContradiction> {
        let roster = self.roster.as_ref().filter(|roster| roster.supported);
        let chart = self.org_chart.as_ref().filter(|chart| chart.supported);
        let Some(roster) = roster else {
            return chart.map_or(Ok(()), |_| Err(RosterContradiction::ChartWithoutRoster));
        };
        if let Some(chart) = chart.filter(|chart| chart.install_scope != roster.install_scope) {
            return Err(RosterContradiction::ChartScopes {
                chart: chart.install_scope,
                roster: roster.install_scope,
            });
        }
        let agents = self.manifest_runtime.install_scope;
        match self.manifest_runtime.supported {
            false => Err(RosterContradiction::NoAgents),
            true if roster.install_scope != agents => {
                Err(RosterContradiction::Scopes { roster: roster.install_scope, agents })
            }
            true => Ok(()),
        }
    }
}
