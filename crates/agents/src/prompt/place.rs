//! The node that prompts are for: in a call, or in a recorded past that is compared.

use callboard_engine::{Call, CallFailure, PastTask, Scope, SecretError};
use callboard_protocol::{NodeId, Object, RunId};

use super::Binding;
use crate::setup::Templates;

/// All that prompts of a node are made from.
pub(super) struct Place<'a> {
    pub(super) run: &'a RunId,
    pub(super) scope: Scope,
    pub(super) node: &'a NodeId,
    pub(super) config: &'a Object,
    pub(super) inputs: &'a Object,
    pub(super) configurable: &'a Object,
    /// The prompts that the definition names for its nodes: kind → ref.
    pub(super) prompt_defaults: Option<&'a Object>,
    /// Whether untrusted content may be among the inputs.
    pub(super) from_outside: bool,
    /// The templates that earlier attempts were made with.
    pub(super) pinned: Option<&'a Templates>,
    pub(super) holder: Holder<'a>,
}

/// Who knows of secrets.
pub(super) enum Holder<'a> {
    Call(&'a Call),
    Past(PastTask<'a>),
}

impl Place<'_> {
    /// The value of a secret variable; none where there is no such secret. Only a call gets the value: of a past
    /// prompt only the name is shown.
    pub(super) async fn secret(&self, name: &str) -> Result<Option<Binding>, CallFailure> {
        match self.holder {
            Holder::Call(call) => match call.secret(&name.into()).await {
                Ok(value) => Ok(Some(Binding::secret(name, value.reveal()))),
                Err(SecretError::NotFound(_)) => Ok(None),
                Err(error @ (SecretError::Unavailable(_) | SecretError::Bound(_))) => {
                    Err(error.into())
                }
            },
            Holder::Past(past) => {
                Ok(past.has_secret(&name.into()).await.then(|| Binding::secret(name, "")))
            }
        }
    }
}

impl<'a> From<&'a Call> for Place<'a> {
    fn from(call: &'a Call) -> Self {
        Self {
            run: &call.run,
            scope: call.scope(),
            node: &call.attempt.node,
            config: &call.config,
            inputs: &call.inputs,
            configurable: &call.configurable,
            prompt_defaults: call.prompt_defaults.as_ref(),
            from_outside: call.from_outside,
            pinned: None,
            holder: Holder::Call(call),
        }
    }
}

impl<'a> From<PastTask<'a>> for Place<'a> {
    fn from(past: PastTask<'a>) -> Self {
        let (birth, task) = (past.birth, past.task);
        Self {
            run: past.run,
            scope: Scope::of(birth),
            node: &task.attempt.node,
            config: &task.config,
            inputs: &task.inputs,
            configurable: &birth.configurable,
            prompt_defaults: past.prompt_defaults,
            from_outside: birth.from_outside,
            pinned: None,
            holder: Holder::Past(past),
        }
    }
}
