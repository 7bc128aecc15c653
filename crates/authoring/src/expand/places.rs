//! Where the parts of a canonical definition were written.

use std::collections::BTreeMap;

use crate::tree::Spot;

/// Canonical paths, each with its place in the text and its path there.
#[derive(Debug, Default)]
pub(crate) struct Places(BTreeMap<String, (Spot, String)>);

impl Places {
    pub(super) fn add(&mut self, canonical: &str, spot: Spot, written: &str) {
        self.0.insert(canonical.to_owned(), (spot, written.to_owned()));
    }

    /// The place of a path, or of the nearest one above it.
    pub(crate) fn find(&self, path: &str) -> (Spot, String) {
        let mut above = path;
        loop {
            if let Some((spot, written)) = self.0.get(above) {
                return (*spot, format!("{written}{}", &path[above.len()..]));
            }
            match above.rfind(['.', '[']) {
                Some(at) => above = &above[..at],
                None => return (Spot::START, path.to_owned()),
            }
        }
    }
}
