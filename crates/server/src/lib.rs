//! The host's HTTP surface: OpenWOP routes in both majors, event streams, keys and problems, over an engine that knows no HTTP.

mod answer;
mod app;
mod body;
mod bundle;
mod client;
mod conditional;
mod connections;
mod discovery;
mod doors;
pub mod extend;
mod extract;
mod follow;
mod gate;
mod hosts;
mod idempotency;
mod in_process;
mod keys;
mod linger;
mod load;
mod log;
mod metrics;
mod observe;
mod oidc;
mod openapi;
mod operations;
mod page;
mod path;
mod problem;
mod providers;
mod query;
mod rate;
mod routes;
mod scopes;
mod seams;
mod serve;
mod share;
mod starts;
mod tls;
mod token;
mod turns;
mod unread;
mod v2;

pub use app::{
    App, Downloads, NotReady, NotReloaded, Readiness, Reload, Reloaded, ServerConfig, Tools,
};
pub use client::TrustedProxies;
pub use hosts::{HostNames, is_host_name};
pub use in_process::{Caller as InProcessCaller, InProcess, InProcessAnswer, InProcessCall};
pub use keys::{EVERY_SCOPE, FileRoles, RoleError, check_role};
pub use keys::{KeyError, KeyRing, KeyText, StaticKey, StaticKeyError, TestKeys};
pub use metrics::{Metrics, MetricsError};
pub use observe::Observed;
pub use oidc::{
    Endpoints, Issuer, IssuerSettings, Issuers, RolesRule, TenantRule, Vouched, Way, is_of_issuer,
};
pub use operations::{Access, Method, Operation};
pub use problem::Code;
pub use providers::{NoProviders, Providers};
pub use routes::{Surface, only_pages, operations, router, with_pages};
pub use scopes::{SCOPES, is_scope};
pub use seams::Seams;
pub use serve::{serve, serve_over};
pub use starts::{StartLimits, Starts, StartsAMinute};
pub use tls::{Tls, TlsError};
pub use token::Links;
pub use v2::id::is_tenant as is_tenant_name;
pub use v2::version::Majors;
