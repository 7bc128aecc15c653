//! An agent with some versions, and transitions in a few words.

use callboard_agents::{
    Changed, Deployment, DeploymentPolicy, DeploymentRefusal, Evidence, Surroundings,
};
use callboard_protocol::{
    AgentDeployment, AgentId, DeploymentState, DeploymentTransition, PackVersion, Transition,
};

pub(crate) fn agent() -> AgentId {
    "vendor.acme.desk.assistant".into()
}

pub(crate) fn version(text: &str) -> PackVersion {
    text.parse().unwrap()
}

/// `"promote 1.0.0 active @stable 10%"`: verb, version, then whatever else in any order.
pub(crate) fn request(words: &str) -> DeploymentTransition {
    let mut words = words.split(' ');
    let verb = match words.next().unwrap() {
        "promote" => Transition::Promote,
        "pause" => Transition::Pause,
        "deprecate" => Transition::Deprecate,
        "rollback" => Transition::Rollback,
        "adjust" => Transition::AdjustCanary,
        other => panic!("{other} is no transition"),
    };
    let mut request = DeploymentTransition::new(version(words.next().unwrap()), verb);
    for word in words {
        if let Some(channel) = word.strip_prefix('@') {
            request.channel = Some(channel.to_owned());
        } else if let Some(percent) = word.strip_suffix('%') {
            request.canary_percent = Some(percent.parse().unwrap());
        } else if let Some(run) = word.strip_prefix("eval:") {
            request.eval_run_id = Some(run.into());
        } else {
            let state = DeploymentState::ALL.into_iter().find(|state| state.as_str() == word);
            request.to_state = Some(state.unwrap());
        }
    }
    request
}

/// One agent of one tenant, with the versions 1.0.0, 2.0.0 and 3.0.0 installed.
#[derive(Debug, Clone)]
pub(crate) struct AgentVersions {
    pub(crate) deployment: Deployment,
    pub(crate) policy: DeploymentPolicy,
    pub(crate) evidence: Evidence,
    pub(crate) installed: Vec<&'static str>,
}

impl AgentVersions {
    pub(crate) fn new() -> Self {
        Self {
            deployment: Deployment::default(),
            policy: DeploymentPolicy::default(),
            evidence: Evidence::NotNamed,
            installed: vec!["1.0.0", "2.0.0", "3.0.0"],
        }
    }

    /// After all of these, none of which may be refused.
    pub(crate) fn after(mut self, requests: &[&str]) -> Self {
        for words in requests {
            self.make(words).unwrap();
        }
        self
    }

    /// A version staged, so that the next promotion makes it active.
    pub(crate) fn staged(self, version: &str) -> Self {
        self.after(&[&format!("promote {version}"), &format!("promote {version}")])
    }

    pub(crate) fn make(&mut self, words: &str) -> Result<Changed, DeploymentRefusal> {
        let changed = self.decide(words)?;
        self.deployment = changed.deployment.clone();
        Ok(changed)
    }

    pub(crate) fn decide(&self, words: &str) -> Result<Changed, DeploymentRefusal> {
        let around = Surroundings {
            policy: &self.policy,
            evidence: self.evidence,
            installed: self.installed.iter().map(|text| version(text)).collect(),
        };
        self.deployment.decide(&agent(), &request(words), &around)
    }

    pub(crate) fn record(&self, text: &str) -> AgentDeployment {
        self.deployment.record(&agent(), &version(text))
    }

    /// `"1.0.0 active stable, 2.0.0 active 10% stable"`: what was said of versions.
    pub(crate) fn shown(&self) -> String {
        let records = self.deployment.records(&agent(), []);
        let lines = records.iter().rev().map(|record| {
            let mut line = format!("{} {}", record.version, record.state.as_str());
            let percent = record.canary_percent.map(|percent| format!("{percent}%"));
            let pointer = record.rollback_pointer.as_ref().map(|version| format!(">{version}"));
            for word in percent.into_iter().chain(pointer).chain(record.channels.clone()) {
                line.push(' ');
                line.push_str(&word);
            }
            line
        });
        lines.collect::<Vec<_>>().join(", ")
    }
}
