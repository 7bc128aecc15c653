//! What reaches outside of the host, or stands in for it: today the scripted model of conformance tests.

mod mock;

pub use mock::CallPrompt;
