//! The agents that this crate can start.
//!
//! Each module has a `backend` to register and, where the agent speaks in lines of its own, a `transcript` that
//! reads recorded output without starting anything.

pub mod acp;
pub mod aider;
pub mod claude_code;
pub mod codex;
pub mod gemini_cli;
pub mod opencode;
mod rpc;

use crate::error::AgentError;

/// Arguments from words that are known and words that are not.
macro_rules! args {
    ($($word:expr),* $(,)?) => { [$(::std::string::String::from($word)),*] };
}
use args;

/// Why an agent is not started: it could do what the host did not grant.
fn cannot_be_held(reason: &str) -> AgentError {
    AgentError::invalid(format!("not started: {reason}"))
}
