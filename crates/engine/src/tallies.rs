//! Counters under the protocol's names, each looked up by its labels once.
//!
//! Names of workflows, tenants and node types are chosen by callers. What comes after the first [`MOST_SERIES`] of one
//! metric is counted together, under [`OTHER`], so that no caller can fill the memory of whoever scrapes.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use metrics::{Counter, Gauge, Histogram};

use callboard_core::Birth;
use callboard_protocol::{Tenant, TypeId, WorkflowId};

/// Sets of labels that one metric has at most.
const MOST_SERIES: usize = 1000;
/// The name of all that are beyond it.
const OTHER: &str = "_other";

/// Series of each metric, one for each set of labels.
#[derive(Debug, Default)]
pub(crate) struct Tallies {
    created: Series<(WorkflowId, Tenant), Counter>,
    backlog: Series<(WorkflowId, Tenant), Histogram>,
    active: Series<Tenant, Gauge>,
    ended: Series<(WorkflowId, &'static str), Counter>,
    duration: Series<(WorkflowId, &'static str), Histogram>,
    nodes: Series<(TypeId, &'static str), Counter>,
    attempts: Series<(TypeId, &'static str), Histogram>,
}

impl Tallies {
    pub(crate) fn created(&self, birth: &Birth) -> Counter {
        self.created.of(workflow_of_tenant(birth), |(workflow, tenant)| {
            metrics::counter!(
                "openwop_run_created_total",
                "workflow_id" => workflow.to_string(), "tenant_id" => tenant.to_string()
            )
        })
    }

    /// How long runs waited for their first holder.
    pub(crate) fn backlog(&self, birth: &Birth) -> Histogram {
        self.backlog.of(workflow_of_tenant(birth), |(workflow, tenant)| {
            metrics::histogram!(
                "openwop_run_backlog_seconds",
                "workflow_id" => workflow.to_string(), "tenant_id" => tenant.to_string()
            )
        })
    }

    pub(crate) fn active(&self, birth: &Birth) -> Gauge {
        self.active.of(
            birth.owner.tenant.clone(),
            |tenant| metrics::gauge!("openwop_run_active", "tenant_id" => tenant.to_string()),
        )
    }

    pub(crate) fn ended(&self, birth: &Birth, status: &'static str) -> Counter {
        self.ended.of((birth.workflow_id.clone(), status), |(workflow, status)| {
            metrics::counter!(
                "openwop_run_completed_total",
                "run_status" => *status, "workflow_id" => workflow.to_string()
            )
        })
    }

    pub(crate) fn duration(&self, birth: &Birth, status: &'static str) -> Histogram {
        self.duration.of((birth.workflow_id.clone(), status), |(workflow, status)| {
            metrics::histogram!(
                "openwop_run_duration_seconds",
                "run_status" => *status, "workflow_id" => workflow.to_string()
            )
        })
    }

    pub(crate) fn nodes(&self, node_type: &TypeId, status: &'static str) -> Counter {
        self.nodes.of((node_type.clone(), status), |(node_type, status)| {
            metrics::counter!(
                "openwop_node_completed_total",
                "node_type" => node_type.to_string(), "run_status" => *status
            )
        })
    }

    /// How long attempts at nodes took.
    pub(crate) fn attempts(&self, node_type: &TypeId, status: &'static str) -> Histogram {
        self.attempts.of((node_type.clone(), status), |(node_type, status)| {
            metrics::histogram!(
                "openwop_node_duration_seconds",
                "node_type" => node_type.to_string(), "run_status" => *status
            )
        })
    }
}

/// Labels that callers choose.
trait Labels: Clone + Eq + Hash {
    /// What those share that have no series of their own.
    #[must_use]
    fn other(&self) -> Self;
}

impl Labels for Tenant {
    fn other(&self) -> Self {
        OTHER.into()
    }
}

impl Labels for (WorkflowId, Tenant) {
    fn other(&self) -> Self {
        (OTHER.into(), OTHER.into())
    }
}

/// The second of the two is one of few.
impl Labels for (WorkflowId, &'static str) {
    fn other(&self) -> Self {
        (OTHER.into(), self.1)
    }
}

impl Labels for (TypeId, &'static str) {
    fn other(&self) -> Self {
        (OTHER.into(), self.1)
    }
}

fn workflow_of_tenant(birth: &Birth) -> (WorkflowId, Tenant) {
    (birth.workflow_id.clone(), birth.owner.tenant.clone())
}

/// Series of one name by their labels.
#[derive(Debug)]
struct Series<K, H>(RwLock<HashMap<K, H>>);

impl<K, H> Default for Series<K, H> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Labels, H: Clone> Series<K, H> {
    fn of(&self, labels: K, look_up: impl FnOnce(&K) -> H) -> H {
        // A panic elsewhere cannot leave this map half-changed.
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&labels).cloned();
        known.unwrap_or_else(|| {
            let mut series = self.0.write().unwrap_or_else(PoisonError::into_inner);
            // Which those are never changes, so what was added to one series is taken from the same.
            let labels = if series.len() < MOST_SERIES { labels } else { labels.other() };
            series.entry(labels).or_insert_with_key(look_up).clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_of_labels_is_looked_up_once() {
        let (series, mut looked_up) = (Series::<Tenant, usize>::default(), 0);
        for labels in ["a", "b", "a", "b", "a"] {
            series.of(labels.into(), |_| {
                looked_up += 1;
                looked_up
            });
        }
        assert_eq!(looked_up, 2);
        assert_eq!((series.of("a".into(), |_| 0), series.of("b".into(), |_| 0)), (1, 2));
    }

    #[test]
    fn what_comes_after_many_is_counted_together() {
        let series = Series::<(WorkflowId, Tenant), String>::default();
        let of = |number: usize| {
            let labels = (format!("w{number}").as_str().into(), "acme".into());
            series.of(labels, |(workflow, tenant)| format!("{workflow} {tenant}"))
        };
        for number in 0..MOST_SERIES {
            assert_eq!(of(number), format!("w{number} acme"));
        }
        assert_eq!([of(MOST_SERIES), of(MOST_SERIES + 1)], ["_other _other"; 2]);
        assert_eq!(of(7), "w7 acme", "the first stay as they are");
        assert_eq!(series.0.read().unwrap().len(), MOST_SERIES + 1);
    }
}
