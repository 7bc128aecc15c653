//! Plain values that scenarios start from.

use callboard_core::{Birth, Confidence, Head, RunLimits, ShownSubject, Stamp, SubjectBasis};
use callboard_engine::{Append, KeyMode, NewRun, Row, Scope};
use callboard_protocol::{Dialect, Object, Owner, RunStatus, Timestamp};

pub(crate) fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

/// Everything of the tenant, seen with a live key.
pub(crate) fn acme() -> Scope {
    Scope { tenant: "acme".into(), workspace: None, mode: KeyMode::Live }
}

/// A pending run of `acme`, created at 1,000 and due at once.
pub(crate) fn new_run(id: &str) -> NewRun {
    let birth = Birth {
        run_id: id.into(),
        workflow_id: "greet".into(),
        definition: "digest-of-greet".to_owned(),
        owner: Owner { tenant: "acme".into(), workspace: None, principal: None },
        test: false,
        inputs: Object::new(),
        configurable: Object::new(),
        tags: Vec::new(),
        metadata: None,
        scope_id: None,
        callback_url: None,
        created_at: at(1_000),
        engine_version: 1,
        forced_engine_version: None,
        limits: RunLimits {
            node_executions: 100,
            duration_ms: 60_000,
            loop_iterations: 100,
            confidence_floor: Confidence::FLOOR,
            execution_model: 3,
            transcript_window: 100,
        },
        parent: None,
        unset: Vec::new(),
        fork: None,
        agents: std::collections::BTreeMap::new(),
        memory: callboard_core::MemoryBirth::default(),
        attribution: None,
        budget: None,
        charged_to: None,
        principal_scope: None,
        files: Vec::new(),
        stamp: Some(Stamp {
            era: 3,
            dialect: Dialect::V2,
            subject: ShownSubject { basis: SubjectBasis::Host, principal: None },
        }),
        delivery: None,
        from_outside: false,
        trace: None,
    };
    NewRun {
        birth,
        masked_inputs: None,
        definition: "{\"id\":\"greet\"}".into(),
        head: head(RunStatus::Pending, 0, Some(1_000)),
        lease: None,
        exclusive: false,
        outcome: None,
    }
}

pub(crate) fn head(status: RunStatus, version: u64, wake_at: Option<i64>) -> Head {
    Head { status, version, wake_at: wake_at.map(at), updated_at: at(2_000) }
}

pub(crate) fn row(payload: &str) -> Row {
    Row {
        at: at(2_000),
        kind: "acme.noted".to_owned(),
        node: Some("a".into()),
        payload: payload.to_owned(),
        private: None,
        cause: None,
    }
}

/// One event that leaves the run running with nothing due, written from outside a claim.
pub(crate) fn append(run: &str, expected: u64) -> Append {
    Append {
        run: run.into(),
        expected,
        fence: None,
        rows: vec![row("{\"n\":1}")],
        head: head(RunStatus::Running, expected + 1, None),
        snapshot: None,
        interrupts: None,
        outcome: None,
        children: Vec::new(),
        wakes: None,
    }
}
