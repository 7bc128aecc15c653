//! What a node finds at its ports when it starts.

use std::rc::Rc;

use serde_json::{Value, json};

use callboard_protocol::{Failure, NodeId, Object, PortValue};

use super::evaluation::Evaluation;
use super::{Run, Stage};
use crate::bounds::{HEAVIEST, too_heavy, weigh_fields, weight};
use crate::channel::{Side, check_access};
use crate::expression::{Names, Place, evaluate};
use crate::graph::NodeIndex;

impl Run {
    /// Values that arrive over edges, overridden by what the node's own ports declare.
    pub(super) fn resolve_inputs(
        &self,
        index: NodeIndex,
        evaluation: &mut Evaluation<'_>,
    ) -> Result<Object, Failure> {
        let node = &self.plan.node(index).node;
        let mut tray = Tray { inputs: Object::new(), left: HEAVIEST };
        self.arriving(index, &mut tray)?;
        let mut names = None;
        for (port, value) in &node.inputs {
            let value = match value {
                PortValue::Expression { expression } => {
                    let value = evaluation.value(port, |work| {
                        evaluate(expression, names.get_or_insert_with(|| self.names()), work)
                    })?;
                    Some(value)
                }
                value => self.resolve_port(index, port, value)?,
            };
            if let Some(value) = value {
                tray.put(port, value)?;
            }
        }
        // All of it was copied, and is weighed once more.
        evaluation.work.spend((HEAVIEST - tray.left) as u64)?;
        self.has_room(weigh_fields(&tray.inputs)?)?;
        Ok(tray.inputs)
    }

    /// Names that expressions may use: the variables, also below `vars`, `inputs`, `nodes`, and `ctx.triggerData` where
    /// something delivered the run. A variable that is called `vars` itself is what that name means.
    pub(super) fn names(&self) -> Names<'_> {
        let mut names = Names::default();
        names.insert("vars", Place::Fields(&self.values.variables));
        names.extend(&self.values.variables);
        let mut nodes = Names::default();
        for (state, node) in self.nodes.iter().zip(self.plan.nodes()) {
            if !state.outputs.is_empty() {
                nodes.insert(node.node.id.as_str(), Place::Fields(&state.outputs));
            }
        }
        names.insert("inputs", Place::Fields(&self.birth.inputs));
        names.insert("nodes", Place::Named(Rc::new(nodes)));
        if let Some(delivery) = &self.birth.delivery {
            let mut context = Names::default();
            context.insert("triggerData", Place::Fields(&delivery.event));
            names.insert("ctx", Place::Named(Rc::new(context)));
        }
        names
    }

    fn arriving(&self, index: NodeIndex, tray: &mut Tray) -> Result<(), Failure> {
        let node = self.plan.node(index);
        let returning = node.loops.iter().filter(|known| self.plan.loops[**known].header == index);
        let back = returning.flat_map(|known| &self.plan.loops[*known].back);
        for place in node.incoming.iter().chain(back) {
            let edge = self.plan.edge(*place);
            let source = &self.nodes[edge.from];
            let port = edge.edge.target_input.as_deref().unwrap_or("input");
            match &source.stage {
                Stage::Failed(failure) => {
                    let error = json!({ "code": failure.code, "message": failure.message });
                    tray.put("error", error)?;
                }
                // An edge that was not followed carries nothing, whatever its source once said.
                _ if !self.flow.followed[*place] => {}
                _ => {
                    if let Some(value) = sent(&source.outputs, edge.edge.source_output.as_deref()) {
                        tray.put(port, value)?;
                    }
                }
            }
        }
        Ok(())
    }

    pub(super) fn resolve_port(
        &self,
        index: NodeIndex,
        port: &str,
        value: &PortValue,
    ) -> Result<Option<Value>, Failure> {
        match value {
            PortValue::Static { value } => Ok(Some(value.clone())),
            PortValue::Expression { .. } => Ok(None),
            PortValue::Connection { node_id, output_key, optional } => {
                let source = self.plan.index(node_id).map(|source| &self.nodes[source].outputs);
                match source.and_then(|outputs| outputs.get(output_key)) {
                    Some(value) => Ok(Some(value.clone())),
                    None if *optional => Ok(None),
                    None => {
                        Err(unresolved(port, &format!("node {node_id} has no output {output_key}")))
                    }
                }
            }
            PortValue::Variable { variable_name, optional } => {
                match self.read_variable(index, variable_name)? {
                    Some(value) => Ok(Some(value)),
                    // A declared variable may simply be unset: its port then holds nothing, not null.
                    None if *optional || self.is_declared(variable_name) => Ok(None),
                    None => Err(unresolved(port, &format!("there is no variable {variable_name}"))),
                }
            }
        }
    }

    /// A variable, or the value of a channel of that name that the node may read.
    pub(super) fn read_variable(
        &self,
        index: NodeIndex,
        name: &str,
    ) -> Result<Option<Value>, Failure> {
        if let Some(value) = self.values.variables.get(name) {
            return Ok(Some(value.clone()));
        }
        let channel = name.into();
        if let Some(declaration) = self.plan.channel(&channel) {
            let node = &self.plan.node(index).node;
            check_access(&channel, declaration, Side::Readers, &node.id, &node.type_id)?;
        }
        Ok(self.values.channels.get(&channel).map(|channel| channel.value.clone()))
    }

    fn is_declared(&self, name: &str) -> bool {
        self.plan.definition().variables.iter().any(|variable| variable.name == name)
    }
}

/// What was gathered for a node so far. Weighed as it grows, because a node may have thousands of ports.
struct Tray {
    inputs: Object,
    left: usize,
}

impl Tray {
    fn put(&mut self, port: &str, value: Value) -> Result<(), Failure> {
        self.left = self.left.checked_sub(weight(&value)).ok_or_else(too_heavy)?;
        self.inputs.insert(port.to_owned(), value);
        Ok(())
    }
}

/// What an edge carries: the named output, or, where none is named and there is no `output`, all of them.
fn sent(outputs: &Object, key: Option<&str>) -> Option<Value> {
    match key {
        Some(key) => outputs.get(key).cloned(),
        None => match outputs.get("output") {
            Some(value) => Some(value.clone()),
            None => (!outputs.is_empty()).then(|| Value::Object(outputs.clone())),
        },
    }
}

fn unresolved(port: &str, why: &str) -> Failure {
    let mut details = Object::new();
    details.insert("port".into(), port.into());
    Failure::new("input_unresolved", format!("port {port}: {why}")).with_details(details)
}

/// The node's ports that have a name of their own: those it declares and those that an edge names.
pub(super) fn named_ports(run: &Run, index: NodeIndex) -> Vec<String> {
    let node = run.plan.node(index);
    let declared = node.node.inputs.keys().cloned();
    let aimed =
        node.incoming.iter().filter_map(|edge| run.plan.edge(*edge).edge.target_input.clone());
    declared.chain(aimed).collect()
}

/// A node of this id, for messages.
pub(super) fn quoted(node: &NodeId) -> String {
    format!("node {node}")
}
