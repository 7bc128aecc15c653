//! Counters under the protocol's names, each looked up by its labels once.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{PoisonError, RwLock};

use metrics::{Counter, Gauge, Histogram};

use callboard_core::Birth;
use callboard_protocol::{Tenant, TypeId, WorkflowId};

/// There are as many series as the recorder keeps anyway: one for each set of labels.
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

impl<K: Eq + Hash, H: Clone> Series<K, H> {
    fn of(&self, labels: K, look_up: impl FnOnce(&K) -> H) -> H {
        // A panic elsewhere cannot leave this map half-changed.
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner).get(&labels).cloned();
        known.unwrap_or_else(|| {
            let found = look_up(&labels);
            let mut series = self.0.write().unwrap_or_else(PoisonError::into_inner);
            series.entry(labels).or_insert(found).clone()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_of_labels_is_looked_up_once() {
        let (series, mut looked_up) = (Series::<_, usize>::default(), 0);
        for labels in ["a", "b", "a", "b", "a"] {
            series.of(labels, |_| {
                looked_up += 1;
                looked_up
            });
        }
        assert_eq!(looked_up, 2);
        assert_eq!((series.of("a", |_| 0), series.of("b", |_| 0)), (1, 2));
    }
}
