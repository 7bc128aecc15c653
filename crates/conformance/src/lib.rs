//! What only the protocol's test suite asks of a host: its doors, agents, prompts, secrets and node types. A host has
//! them where its operator asked for test seams.

mod deployed;
mod nodes;
mod packs;
mod prompts;
mod seams;
mod secret_echo;
mod side_effect;
mod task;

pub use deployed::{DEPLOYED, with_deployed};
pub use nodes::{add_nodes, spin};
pub use packs::{ConformanceError, FETCHER, packs};
pub use prompts::{Parrot, prompts};
pub use seams::doors;
pub use secret_echo::{SecretEcho, with_secrets};
pub use side_effect::SideEffect;
pub use task::read_task;
