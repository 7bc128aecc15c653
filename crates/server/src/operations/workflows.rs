//! Definitions of what runs do.

use super::OperationId::{
    ListWorkflows, ReadWorkflow, RegisterWorkflow, RemoveWorkflow, ReplaceWorkflow,
};
use super::{CREATED, Gives, NO_CONTENT, OK, Operation, delete, get, post, put};

pub(super) const WORKFLOWS: &[Operation] = &[
    get(ReadWorkflow, "GET /v1/workflows/{workflowId}", "Read a workflow definition")
        .needs("manifest:read")
        .gives(OK, Gives::Json("WorkflowDefinition")),
    get(
        ListWorkflows,
        "GET /v1/host/callboard/workflows",
        "List the workflows that the caller can run",
    )
    .needs("manifest:read")
    .gives(OK, Gives::Json("WorkflowList")),
    post(
        RegisterWorkflow,
        "POST /v1/host/callboard/workflows",
        "Register a workflow, or replace it (200)",
    )
    .needs("workflows:write")
    .takes("WorkflowDefinition")
    .gives(CREATED, Gives::Json("WorkflowDefinition")),
    put(
        ReplaceWorkflow,
        "PUT /v1/host/callboard/workflows/{workflowId}",
        "Register a workflow under its id, or replace it (200)",
    )
    .needs("workflows:write")
    .takes("WorkflowDefinition")
    .gives(CREATED, Gives::Json("WorkflowDefinition")),
    delete(
        RemoveWorkflow,
        "DELETE /v1/host/callboard/workflows/{workflowId}",
        "Forget a registered workflow; its runs go on",
    )
    .needs("workflows:write")
    .gives(NO_CONTENT, Gives::Nothing),
];
