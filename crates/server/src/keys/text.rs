//! The secret itself: made here, shown once, never kept.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use callboard_engine::{Digest, KeyMode};
use sha2::{Digest as _, Sha256};

use super::KeyError;

/// What marks a key as a test key, in its own text.
pub(crate) const TEST_PREFIX: &str = "cbtest_";
const LIVE_PREFIX: &str = "cb_";

/// 256 bits, so that nobody guesses one and a plain digest is enough at rest.
const RANDOM_BYTES: usize = 32;

/// A key's text. Printing it takes a word; debugging does not show it.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyText(String);

impl KeyText {
    pub(super) fn new(text: String) -> Self {
        Self(text)
    }

    pub(super) fn generate(mode: KeyMode) -> Result<Self, KeyError> {
        let mut random = [0; RANDOM_BYTES];
        getrandom::fill(&mut random).map_err(|error| KeyError::NoRandomness(error.to_string()))?;
        let prefix = match mode {
            KeyMode::Live => LIVE_PREFIX,
            KeyMode::Test => TEST_PREFIX,
        };
        Ok(Self(format!("{prefix}{}", URL_SAFE_NO_PAD.encode(random))))
    }

    /// The secret, for the one who must see it.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    pub(super) fn digest(&self) -> Digest {
        digest(&self.0)
    }

    pub(super) fn is_test(&self) -> bool {
        self.0.starts_with(TEST_PREFIX)
    }
}

impl std::fmt::Debug for KeyText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("KeyText(..)")
    }
}

pub(super) fn digest(text: &str) -> Digest {
    Sha256::digest(text.as_bytes()).into()
}
