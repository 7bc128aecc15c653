//! The packs whose agents the protocol's fixtures name. They are there only where an operator asked for test seams.

mod deployed;
mod prompts;

use serde_json::{Value, json};

use callboard_engine::PackOwner;
use callboard_protocol::{Object, Timestamp};

use crate::admission::{Offer, Policy, Report, Unsigned, vet};
use crate::archive::Files;
use crate::author::{AuthorError, bundle};
use crate::error::PackError;
use crate::inventory::Installed;

pub use deployed::{DEPLOYED, SeededDeployments};
pub use prompts::{CANARY, Parrot, prompts};

macro_rules! pack {
    ($folder:literal, $($file:literal),*) => {
        &[$(($file, include_str!(concat!("../conformance/", $folder, "/", $file)))),*]
    };
}

const PACKS: [&[(&str, &str)]; 5] = [
    pack!("examples", "pack.json", "schemas/task.json", "schemas/result.json"),
    pack!("installed", "pack.json"),
    pack!("channel", "pack.json"),
    pack!("degraded", "pack.json"),
    pack!("fetcher", "pack.json"),
];

/// The agent that fetches for whoever asks at a door.
pub const FETCHER: &str = "core.conformance.fetcher.agent";

/// The agent of the handoff fixture, which takes one more input than its task has.
const PROBED: &str = "core.openwop.agent-examples.structured-fixture";

/// A pack of ours that could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum ConformanceError {
    #[error(transparent)]
    Bundle(#[from] AuthorError),
    #[error(transparent)]
    Refused(#[from] PackError),
}

/// The packs, judged like any other.
pub fn packs(policy: &Policy, at: Timestamp) -> Result<Vec<Installed>, ConformanceError> {
    let policy = Policy { unsigned: Unsigned::Allowed, ..policy.clone() };
    let read = |files: &&[(&str, &str)]| {
        let files: Files =
            files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().into())).collect();
        let archive = bundle(&files)?;
        let offer =
            Offer { archive: archive.into(), expected: None, integrity: None, signature: None };
        let vetted = vet(offer, &policy, &mut Report::default())?;
        Ok(Installed::new(PackOwner::Host, vetted, at))
    };
    PACKS.iter().map(read).collect()
}

/// A task, and the result that a test wants in place of the model's.
#[derive(Debug)]
pub(crate) struct Probe {
    pub(crate) task: Object,
    pub(crate) result: Option<Value>,
}

/// Whether the suite may ask an agent to go wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Probing {
    On,
    #[default]
    Off,
}

impl Probing {
    /// Takes the suite's `scenario` out of the one agent's inputs that carry it; everybody else's are their task.
    pub(crate) fn read(self, agent: &str, inputs: &Object) -> Probe {
        let mut task = inputs.clone();
        let is_probed = self == Self::On && agent == PROBED;
        let scenario = is_probed.then(|| task.remove("scenario")).flatten();
        let breaks = scenario.is_some_and(|scenario| scenario == "mock-return-violation");
        Probe { task, result: breaks.then(|| json!({})) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_where_probes_are_on_does_a_scenario_mean_anything() {
        let inputs = Object::from_iter([("scenario".to_owned(), "mock-return-violation".into())]);
        let probe = Probing::On.read(PROBED, &inputs);
        assert_eq!((probe.task, probe.result), (Object::new(), Some(json!({}))));
        for (probing, agent) in [(Probing::Off, PROBED), (Probing::On, "vendor.acme.other")] {
            let probe = probing.read(agent, &inputs);
            assert_eq!((probe.task, probe.result), (inputs.clone(), None), "{agent}");
        }
    }
}
