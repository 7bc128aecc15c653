//! Prompts for a model: which one applies, and its text.
//!
//! `resolve` names the prompt of a kind for a node; `compose` fills it in. The visible part of `Composed` is what a
//! preview shows, so a preview and a call agree on the digest.

mod compose;
mod library;
mod node;
mod place;
mod resolve;

pub use compose::{
    Binding, Bindings, ComposeError, Composed, Observability, Trust, compose, told_of,
};
pub use library::{LibraryError, PromptLibrary, built_in_prompts};
pub use node::{Prepared, PromptResolver};
pub use resolve::{AgentPrompts, Bound, Chosen, PromptSources, Resolution, resolve};
