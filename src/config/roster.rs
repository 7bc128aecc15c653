//! `[roster]`: whether agents can be hired here.

use callboard_protocol::{AgentsCapability, InstallScope};

use super::source::{Source, Value};
use crate::exit::CommandError;

/// The section as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    const KEYS: [&str; 2] = ["enabled", "install_scope"];

    /// What discovery says with this section, unless that would contradict itself.
    pub(crate) fn advertise(
        &self,
        agents: Option<AgentsCapability>,
    ) -> Result<Option<AgentsCapability>, CommandError> {
        let Some(mut agents) = agents else { return Ok(None) };
        agents.roster = agents.roster.filter(|_| self.enabled);
        // Nobody can be placed where nobody can be hired.
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

impl Source<'_> {
    pub(super) fn roster(&self, value: &Value<'_>) -> Result<Roster, CommandError> {
        let table = self.section(value, "roster")?;
        let mut roster = Roster::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "enabled" => roster.enabled = self.switch(value, "roster.enabled")?,
                "install_scope" => {
                    roster.install_scope = match value.get_ref().as_str() {
                        Some("host") => InstallScope::Host,
                        Some("tenant") => InstallScope::Tenant,
                        _ => {
                            let wanted = "\"tenant\" or \"host\"";
                            return Err(self.wrong(value, "roster.install_scope", wanted));
                        }
                    }
                }
                name => {
                    let path = format!("roster.{name}");
                    return Err(self.unknown(key.span().start, &path, name, &Roster::KEYS));
                }
            }
        }
        Ok(roster)
    }
}

#[cfg(test)]
mod tests {
    use callboard_server::ServerConfig;

    use super::super::Config;
    use super::*;

    fn advertised(text: &str) -> Result<Option<AgentsCapability>, String> {
        let config = Config::parse("c.toml", text).map_err(|error| error.what)?;
        let agents = ServerConfig::default().agents;
        config.roster.advertise(agents).map_err(|error| error.what)
    }

    ///
    #[test]
    fn a_roster_that_others_see_than_its_agents_is_refused() {
        let refused = advertised("[roster]\ninstall_scope = \"host\"");
        let said = refused.expect_err("a contradiction");
        assert!(said.contains("must be equal"), "{said}");
        let mut without = ServerConfig::default().agents.expect("agents");
        without.manifest_runtime.supported = false;
        let refused = Roster::default().advertise(Some(without));
        assert!(refused.is_err_and(|error| error.what.contains("needs agents.manifestRuntime")));
    }

    #[test]
    fn a_roster_can_be_left_out() {
        let roster =
            |text| advertised(text).map(|agents| agents.is_some_and(|it| it.roster.is_some()));
        assert_eq!(roster(""), Ok(true));
        assert_eq!(roster("[roster]\nenabled = false"), Ok(false));
        assert_eq!(
            roster("[roster]\nenabled = 1"),
            Err("c.toml:2: roster.enabled must be true or false, not an integer".to_owned())
        );
        assert_eq!(
            roster("[roster]\nscope = \"x\""),
            Err("c.toml:2: unknown key roster.scope".to_owned())
        );
    }
}
