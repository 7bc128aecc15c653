//! The rows of what stands around the roster: budgets, the chart, heartbeats.

use axum::http::StatusCode;

use super::OperationId::{
    ChangeHeartbeat, CreateHeartbeat, ListHeartbeats, ManageOrgChart, PutOrgChart, ReadBudget,
    ReadDepartment, ReadHeartbeat, ReadOrgChart, RemoveHeartbeat, ResetBudget, SetBudget,
};
use super::queries::DEPARTMENT_QUERY;
use super::{Gives, Operation, delete, get, patch, post, put};

const OK: StatusCode = StatusCode::OK;
const CREATED: StatusCode = StatusCode::CREATED;
const NO_CONTENT: StatusCode = StatusCode::NO_CONTENT;

pub(super) const READ_BUDGET: Operation = get(
    ReadBudget,
    "GET /v1/host/callboard/roster/{rosterId}/budget",
    "What a member may use in a day, and what it has used of today",
)
.needs("runs:read")
.gives(OK, Gives::Json("MemberBudget"));
pub(super) const SET_BUDGET: Operation = put(
    SetBudget,
    "PUT /v1/host/callboard/roster/{rosterId}/budget",
    "Say what a member may use in a day",
)
.needs("roster:write")
.takes("SetMemberBudget")
.gives(OK, Gives::Json("MemberBudget"));
pub(super) const RESET_BUDGET: Operation = delete(
    ResetBudget,
    "DELETE /v1/host/callboard/roster/{rosterId}/budget",
    "Leave what a member may use to the host's configuration",
)
.needs("roster:write")
.gives(OK, Gives::Json("MemberBudget"));
pub(super) const READ_ORG_CHART: Operation =
    get(ReadOrgChart, "GET /v1/agents/org-chart", "Who stands where")
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentOrgChart"));
pub(super) const READ_DEPARTMENT: Operation = get(
    ReadDepartment,
    "GET /v1/agents/org-chart/{departmentId}",
    "A department, and what it answers for",
)
.needs("manifest:read")
.query(DEPARTMENT_QUERY)
.gives(OK, Gives::Json("OrgChartResponsibilityView"));
pub(super) const MANAGE_ORG_CHART: Operation =
    get(ManageOrgChart, "GET /v1/host/callboard/org-chart", "Who stands where, with the version")
        .needs("manifest:read")
        .gives(OK, Gives::Json("StoredOrgChart"));
pub(super) const PUT_ORG_CHART: Operation =
    put(PutOrgChart, "PUT /v1/host/callboard/org-chart", "Say who stands where")
        .needs("roster:write")
        .takes("PutOrgChart")
        .gives(OK, Gives::Json("StoredOrgChart"));
pub(super) const LIST_HEARTBEATS: Operation =
    get(ListHeartbeats, "GET /v1/host/callboard/heartbeats", "List what is looked at")
        .needs("runs:read")
        .gives(OK, Gives::Json("HeartbeatList"));
pub(super) const CREATE_HEARTBEAT: Operation = post(
    CreateHeartbeat,
    "POST /v1/host/callboard/heartbeats",
    "Look at an address again and again, and start a run when it changes",
)
.needs("runs:create")
.takes("NewHeartbeat")
.gives(CREATED, Gives::Json("Heartbeat"));
pub(super) const READ_HEARTBEAT: Operation = get(
    ReadHeartbeat,
    "GET /v1/host/callboard/heartbeats/{heartbeatId}",
    "Read what is looked at, and how the last look went",
)
.needs("runs:read")
.gives(OK, Gives::Json("Heartbeat"));
pub(super) const CHANGE_HEARTBEAT: Operation = patch(
    ChangeHeartbeat,
    "PATCH /v1/host/callboard/heartbeats/{heartbeatId}",
    "Pause a heartbeat, or let it go on",
)
.needs("runs:create")
.takes("ChangeHeartbeat")
.gives(OK, Gives::Json("Heartbeat"));
pub(super) const REMOVE_HEARTBEAT: Operation =
    delete(RemoveHeartbeat, "DELETE /v1/host/callboard/heartbeats/{heartbeatId}", "Look no more")
        .needs("runs:create")
        .gives(NO_CONTENT, Gives::Nothing);
