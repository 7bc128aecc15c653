//! The host's HTTP surface: OpenWOP v1 routes, event streams, keys and problems, over an engine that knows no HTTP.

mod answer;
mod app;
mod body;
mod bundle;
mod conditional;
mod discovery;
mod extract;
mod follow;
mod gate;
mod idempotency;
mod keys;
mod load;
mod metrics;
mod observe;
mod openapi;
mod operations;
mod path;
mod problem;
mod query;
mod rate;
mod routes;
mod scopes;
mod seams;
mod serve;
mod token;
mod turns;

pub use app::{App, Downloads, NotReady, Readiness, ServerConfig};
pub use keys::{KeyError, KeyRing, KeyText, StaticKey, StaticKeyError, TestKeys};
pub use metrics::{Metrics, MetricsError};
pub use operations::{Access, Method, OPERATIONS, Operation, OperationId};
pub use problem::Code;
pub use routes::router;
pub use scopes::SCOPES;
pub use seams::TestSeams;
pub use serve::serve;
pub use token::Links;
