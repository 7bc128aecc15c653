//! What comes into a run from outside: writes into its channels, and what tests set.

use callboard_core::{Command, OutsideWrite};
use callboard_protocol::{Object, RunId};

use crate::engine::{Done, Engine, EngineError, Remember};
use crate::store::Scope;

impl Engine {
    /// Writes into a channel of a run that has not ended, on whichever host it is driven.
    pub async fn write_channel(
        &self,
        scope: &Scope,
        run: &RunId,
        write: OutsideWrite,
        remember: Option<Remember>,
    ) -> Result<Done, EngineError> {
        self.record(scope, run, &Command::Write(write), remember.as_ref()).await
    }

    /// Sets variables of a run that has not ended, past its nodes. For tests.
    pub async fn set_variables(
        &self,
        scope: &Scope,
        run: &RunId,
        variables: Object,
    ) -> Result<Done, EngineError> {
        self.record(scope, run, &Command::SetVariables(variables), None).await
    }
}
