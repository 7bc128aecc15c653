//! Definitions of what runs do.

use super::{CREATED, NO_CONTENT, OK};
use crate::operations::{Family, Gives, delete, get, post, put};
use crate::routes::{nodes, workflows};

pub(super) static WORKFLOWS: Family = Family::new(|| {
    vec![
        get(
            "listNodeTypes",
            nodes::list,
            "GET /v1/host/callboard/nodes",
            "List the node types that this host runs",
        )
        .needs("manifest:read")
        .gives(OK, Gives::Json("NodeTypeList")),
        get(
            "readWorkflow",
            workflows::read,
            "GET /v1/workflows/{workflowId}",
            "Read a workflow definition",
        )
        .in_both()
        .needs("manifest:read")
        .gives(OK, Gives::Json("WorkflowDefinition")),
        get(
            "listWorkflows",
            workflows::list,
            "GET /v1/host/callboard/workflows",
            "List the workflows that the caller can run",
        )
        .needs("manifest:read")
        .gives(OK, Gives::Json("WorkflowList")),
        post(
            "registerWorkflow",
            workflows::register,
            "POST /v1/host/callboard/workflows",
            "Register a workflow, or replace it (200)",
        )
        .needs("workflows:write")
        .takes_definition()
        .gives(CREATED, Gives::Json("WorkflowDefinition")),
        put(
            "replaceWorkflow",
            workflows::replace,
            "PUT /v1/host/callboard/workflows/{workflowId}",
            "Register a workflow under its id, or replace it (200)",
        )
        .needs("workflows:write")
        .takes_definition()
        .gives(CREATED, Gives::Json("WorkflowDefinition")),
        delete(
            "removeWorkflow",
            workflows::remove,
            "DELETE /v1/host/callboard/workflows/{workflowId}",
            "Forget a registered workflow; its runs go on",
        )
        .needs("workflows:write")
        .gives(NO_CONTENT, Gives::Nothing),
    ]
});
