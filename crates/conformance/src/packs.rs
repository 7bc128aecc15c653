//! The packs whose agents the protocol's fixtures name.

use callboard_agents::{
    AuthorError, Files, Installed, Offer, PackError, Policy, Report, Unsigned, bundle, vet,
};
use callboard_engine::PackOwner;
use callboard_protocol::Timestamp;

macro_rules! pack {
    ($folder:literal, $($file:literal),*) => {
        &[$(($file, include_str!(concat!("../packs/", $folder, "/", $file)))),*]
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
