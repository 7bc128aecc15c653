//! Checks before a tool call: whether its caller may, then its rate limit.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use callboard_protocol::{Principal, Tenant, Timestamp};

/// Says what a principal holds at this moment.
#[async_trait]
pub trait Grants: fmt::Debug + Send + Sync {
    async fn granted(&self, tenant: &Tenant, principal: &Principal, at: Timestamp) -> Granted;
}

/// The scopes of a principal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Granted {
    Everything,
    Only(BTreeSet<String>),
    /// Unknown, which grants nothing.
    #[default]
    Unknown,
}

impl Granted {
    pub fn holds(&self, scope: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(scopes) => scopes.contains(scope),
            Self::Unknown => false,
        }
    }

    /// What is left where a run may use only some scopes.
    #[must_use]
    pub fn within(self, allowed: Option<&[String]>) -> Self {
        let Some(allowed) = allowed else { return self };
        match self {
            Self::Everything => Self::Only(allowed.iter().cloned().collect()),
            Self::Only(mut scopes) => {
                scopes.retain(|scope| allowed.contains(scope));
                Self::Only(scopes)
            }
            Self::Unknown => Self::Unknown,
        }
    }

    pub(crate) fn holds_all(&self, scopes: &[String]) -> bool {
        scopes.iter().all(|scope| self.holds(scope))
    }
}

/// A requested tool call.
#[derive(Debug, Clone, Copy)]
pub struct ToolUse<'a> {
    pub tenant: &'a Tenant,
    pub principal: &'a Principal,
    /// The name that packs use.
    pub tool: &'a str,
    pub required_scopes: &'a [String],
    pub granted: &'a Granted,
}

/// Why a tool is not called: nothing was done, and no duration is recorded.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HookRefusal {
    #[error("the run's principal may not use {tool}")]
    Forbidden { tool: String, required_scopes: Vec<String> },
    #[error("{tool} is used too often")]
    RateLimited { tool: String, retry_after: Duration },
}

impl HookRefusal {
    /// The code of the error, which is also the `status` of `agent.toolReturned`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Forbidden { .. } => "forbidden",
            Self::RateLimited { .. } => "rate_limited",
        }
    }
}

/// How often one principal may use one tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RatePolicy {
    /// Zero is no limit. So many may also come at once.
    pub calls_per_minute: u32,
}

impl Default for RatePolicy {
    /// Ten a second is more than any loop of a model makes, and little enough to stop one that went wild.
    fn default() -> Self {
        Self { calls_per_minute: 600 }
    }
}

/// Buckets that are full again are forgotten past this many: a host has hundreds of principals and tools.
const MOST_BUCKETS: usize = 10_000;
const MINUTE_MICROS: i64 = 60_000_000;

type BucketKey = (Tenant, Principal, String);

/// The gate before every call of a tool.
#[derive(Debug, Default)]
pub struct ToolHooks {
    policy: RatePolicy,
    /// When each bucket will be full again, in microseconds.
    full_at: Mutex<BTreeMap<BucketKey, i64>>,
}

impl ToolHooks {
    pub fn new(policy: RatePolicy) -> Self {
        Self { policy, full_at: Mutex::default() }
    }

    pub fn policy(&self) -> RatePolicy {
        self.policy
    }

    /// Admits one call, or says why not. A refused call uses nothing up.
    pub fn judge(&self, used: &ToolUse<'_>, at: Timestamp) -> Result<(), HookRefusal> {
        authorize(used)?;
        self.take(used, at)
    }

    fn take(&self, used: &ToolUse<'_>, at: Timestamp) -> Result<(), HookRefusal> {
        let Some(each) = MINUTE_MICROS.checked_div(i64::from(self.policy.calls_per_minute)) else {
            return Ok(());
        };
        let now = at.as_millis().saturating_mul(1000);
        let key = (used.tenant.clone(), used.principal.clone(), used.tool.to_owned());
        let mut buckets = self.full_at.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.len() >= MOST_BUCKETS {
            buckets.retain(|_, full_at| *full_at > now);
        }
        let full_at = buckets.get(&key).copied().unwrap_or(now).max(now) + each;
        let too_early = full_at - now - MINUTE_MICROS;
        if too_early > 0 {
            let wait = Duration::from_micros(too_early.unsigned_abs());
            return Err(HookRefusal::RateLimited { tool: used.tool.to_owned(), retry_after: wait });
        }
        buckets.insert(key, full_at);
        Ok(())
    }
}

/// A scope that cannot be looked up is one that is not held.
fn authorize(used: &ToolUse<'_>) -> Result<(), HookRefusal> {
    if used.granted.holds_all(used.required_scopes) {
        return Ok(());
    }
    Err(HookRefusal::Forbidden {
        tool: used.tool.to_owned(),
        required_scopes: used.required_scopes.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Asking {
        tenant: Tenant,
        principal: Principal,
        tool: &'static str,
        required: Vec<String>,
        granted: Granted,
    }

    fn asking(principal: &str, tool: &'static str) -> Asking {
        Asking {
            tenant: "t".into(),
            principal: principal.into(),
            tool,
            required: Vec::new(),
            granted: Granted::Unknown,
        }
    }

    impl Asking {
        fn needing(self, scopes: &[&str]) -> Self {
            Self { required: scopes.iter().map(|scope| (*scope).to_owned()).collect(), ..self }
        }

        fn holding(self, scopes: &[&str]) -> Self {
            let granted = scopes.iter().map(|scope| (*scope).to_owned()).collect();
            Self { granted: Granted::Only(granted), ..self }
        }

        fn at(&self, hooks: &ToolHooks, millis: i64) -> Result<(), HookRefusal> {
            let used = ToolUse {
                tenant: &self.tenant,
                principal: &self.principal,
                tool: self.tool,
                required_scopes: &self.required,
                granted: &self.granted,
            };
            hooks.judge(&used, Timestamp::from_millis(millis))
        }
    }

    fn limited(calls_per_minute: u32) -> ToolHooks {
        ToolHooks::new(RatePolicy { calls_per_minute })
    }

    fn code(judged: &Result<(), HookRefusal>) -> &'static str {
        judged.as_ref().map_or_else(HookRefusal::code, |()| "ok")
    }

    ///
    #[test]
    fn a_scope_that_is_missing_or_cannot_be_looked_up_forbids_the_call() {
        let hooks = ToolHooks::default();
        for (asked, expected) in [
            (asking("p", "x"), "ok"),
            (asking("p", "x").holding(&[]), "ok"),
            (asking("p", "x").needing(&["mail"]), "forbidden"),
            (asking("p", "x").needing(&["mail"]).holding(&[]), "forbidden"),
            (asking("p", "x").needing(&["mail", "send"]).holding(&["mail"]), "forbidden"),
            (asking("p", "x").needing(&["mail"]).holding(&["mailer"]), "forbidden"),
            (asking("p", "x").needing(&["mail"]).holding(&["send", "mail"]), "ok"),
            (Asking { granted: Granted::Everything, ..asking("p", "x").needing(&["mail"]) }, "ok"),
        ] {
            let judged = asked.at(&hooks, 0);
            assert_eq!(code(&judged), expected, "{:?} of {:?}", asked.required, asked.granted);
        }
    }

    ///
    #[test]
    fn a_limit_holds_for_one_principal_and_one_tool_only() {
        let hooks = limited(2);
        let busy = asking("p", "x");
        assert_eq!([0, 0, 0].map(|at| code(&busy.at(&hooks, at))), ["ok", "ok", "rate_limited"]);
        assert_eq!(code(&asking("p", "y").at(&hooks, 0)), "ok");
        assert_eq!(code(&asking("q", "x").at(&hooks, 0)), "ok");
        let elsewhere = Asking { tenant: "u".into(), ..asking("p", "x") };
        assert_eq!(code(&elsewhere.at(&hooks, 0)), "ok");
    }

    #[test]
    fn a_bucket_fills_again_at_its_pace_and_says_when() {
        let hooks = limited(2);
        let busy = asking("p", "x");
        for _ in 0..2 {
            busy.at(&hooks, 0).unwrap();
        }
        let refused = busy.at(&hooks, 10_000).unwrap_err();
        let wait = Duration::from_secs(20);
        assert_eq!(refused, HookRefusal::RateLimited { tool: "x".into(), retry_after: wait });
        assert_eq!(
            [29_999, 30_000, 30_000].map(|at| code(&busy.at(&hooks, at))),
            ["rate_limited", "ok", "rate_limited"]
        );
    }

    #[test]
    fn permission_is_asked_first_and_a_forbidden_call_uses_nothing_up() {
        let hooks = limited(1);
        let stranger = asking("p", "x").needing(&["mail"]);
        for _ in 0..3 {
            assert_eq!(code(&stranger.at(&hooks, 0)), "forbidden");
        }
        assert_eq!(code(&asking("p", "x").at(&hooks, 0)), "ok");
        assert_eq!(code(&stranger.at(&hooks, 0)), "forbidden");
    }

    #[test]
    fn no_limit_is_no_limit_and_full_buckets_are_forgotten() {
        let free = limited(0);
        assert!((0..5000).all(|_| asking("p", "x").at(&free, 0).is_ok()));

        let hooks = limited(60_000);
        for index in 0..MOST_BUCKETS {
            asking(&index.to_string(), "x").at(&hooks, 0).unwrap();
        }
        asking("last", "x").at(&hooks, 60_000).unwrap();
        assert_eq!(hooks.full_at.lock().unwrap().len(), 1);
    }

    /// M-95: a child that was given two of its owner's scopes has no third.
    #[test]
    fn m95_narrowed_rights_are_less_and_never_more() {
        let set = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let allowed = ["mail".to_owned(), "files".to_owned()];
        let narrowed = |granted: Granted| granted.within(Some(&allowed));
        assert_eq!(narrowed(Granted::Everything), Granted::Only(set(&["mail", "files"])));
        assert_eq!(narrowed(Granted::Only(set(&["mail", "web"]))), Granted::Only(set(&["mail"])));
        assert_eq!(narrowed(Granted::Unknown), Granted::Unknown);
        assert_eq!(Granted::Everything.within(Some(&[])), Granted::Only(set(&[])));
        assert_eq!(Granted::Everything.within(None), Granted::Everything);
    }
}
