//! The Universal Agent API: one run protocol for coding agents that are started as programs.
//!
#![doc = include_str!("../README.md")]

#[cfg(not(unix))]
compile_error!("processes are ended as groups, which only Unix has");

mod backend;
pub mod backends;
pub mod bounds;
pub mod capability;
mod cli;
mod config;
mod error;
mod event;
mod facet;
mod gateway;
mod grant;
mod handle;
mod json;
mod kind;
mod launcher;
pub mod mcp;
mod options;
mod permission;
mod process;
mod request;
mod sessions;
mod transcript;

pub use backend::{AgentBackend, BoxFuture};
pub use capability::AgentCapabilities;
pub use cli::CliBackend;
pub use config::{CliConfig, Home};
pub use error::{AgentError, Exit, FailureClass};
pub use event::{AgentEvent, AgentEventKind};
pub use facet::{ToolBytes, ToolFacet, ToolPhase, ToolStatus, session_data, session_id};
pub use gateway::AgentGateway;
pub use grant::Grant;
pub use handle::{
    AgentCancelHandle, AgentCompletion, AgentCompletionFuture, AgentEvents, AgentRunControl,
    AgentRunHandle,
};
pub use kind::AgentKind;
pub use launcher::{Launcher, find_program};
pub use permission::{AttendedRun, Decisions, Permission, PermissionRequest};
pub use process::leftovers::Leftovers;
pub use request::AgentRunRequest;
pub use transcript::{Conversation, Transcript};
