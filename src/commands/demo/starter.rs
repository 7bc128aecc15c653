//! The starter pack of the repository, inside the program.

use std::sync::Arc;

use callboard_agents::{AuthorError, Files};

/// Who sorts what comes in.
pub(super) const TRIAGER: &str = "community.callboard.starter.triager";

macro_rules! shipped {
    ($($path:literal),* $(,)?) => {
        [$(($path, include_bytes!(concat!("../../../packs/starter/", $path)).as_slice())),*]
    };
}

const FILES: [(&str, &[u8]); 11] = shipped![
    "README.md",
    "pack.json",
    "prompts/reviewer.md",
    "prompts/summariser.md",
    "prompts/triager.md",
    "schemas/reviewer.return.schema.json",
    "schemas/reviewer.task.schema.json",
    "schemas/summariser.return.schema.json",
    "schemas/summariser.task.schema.json",
    "schemas/triager.return.schema.json",
    "schemas/triager.task.schema.json",
];

/// The pack as it is sent to a host.
pub(super) fn archive() -> Result<Vec<u8>, AuthorError> {
    let files = FILES.iter().map(|(path, bytes)| ((*path).to_owned(), Arc::from(*bytes)));
    callboard_agents::bundle(&files.collect::<Files>())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_program_holds_every_file_of_the_folder() -> Result<(), AuthorError> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packs/starter");
        assert!(archive()? == callboard_agents::collect(&folder)?, "FILES and the folder differ");
        Ok(())
    }
}
