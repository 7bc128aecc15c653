//! What reaches outside of the host, or stands in for it: today the scripted model of conformance tests.

mod mock;
mod side_effect;

pub use mock::CallPrompt;
pub use side_effect::SideEffect;
