//! What reaches outside of the host, or stands in for it: guarded requests, and the scripted model of conformance tests.

mod egress;
mod mock;
mod side_effect;

pub use egress::{Answer, Egress, EgressError, Lookup, Method, Outgoing, Reach, SystemLookup};
pub use mock::CallPrompt;
pub use side_effect::SideEffect;
