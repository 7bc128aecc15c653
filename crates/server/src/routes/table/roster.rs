//! Standing members: who they are, what they do, what they may use, where they stand.

use super::queries::{ACTIVITY_QUERY, DEPARTMENT_QUERY, WORK_QUERY};
use super::{CREATED, NO_CONTENT, OK};
use crate::operations::{Family, Gives, delete, get, patch, post, put};
use crate::routes::{activity, budget, chat, org_chart, roster, work};

pub(super) static ROSTER: Family = Family::new(|| {
    vec![
        get(
            "listRoster",
            roster::list,
            "GET /v1/agents/roster",
            "List the standing members, by id",
        )
        .in_both()
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentRoster")),
        get(
            "readMember",
            roster::read,
            "GET /v1/agents/roster/{rosterId}",
            "Read one standing member",
        )
        .in_both()
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentRosterEntry")),
        get(
            "manageRoster",
            roster::list_closed,
            "GET /v1/host/callboard/roster",
            "List the standing members, by id",
        )
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentRoster")),
        post(
            "hireMember",
            roster::hire,
            "POST /v1/host/callboard/roster",
            "Hire a standing member",
        )
        .needs("roster:write")
        .takes("HireMember")
        .gives(CREATED, Gives::Json("AgentRosterEntry")),
        get(
            "showMember",
            roster::read_closed,
            "GET /v1/host/callboard/roster/{rosterId}",
            "Read one standing member",
        )
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentRosterEntry")),
        patch(
            "changeMember",
            roster::change,
            "PATCH /v1/host/callboard/roster/{rosterId}",
            "Change a standing member; what is not named stays",
        )
        .needs("roster:write")
        .takes("ChangeMember")
        .gives(OK, Gives::Json("AgentRosterEntry")),
        delete(
            "dismissMember",
            roster::dismiss,
            "DELETE /v1/host/callboard/roster/{rosterId}",
            "Dismiss a standing member; its runs go on, and what they say stays",
        )
        .needs("roster:write")
        .gives(NO_CONTENT, Gives::Nothing),
        post(
            "fireMember",
            roster::fire,
            "POST /v1/host/callboard/roster/{rosterId}/fire",
            "Run a workflow of a member's portfolio for it, now",
        )
        .needs("runs:create")
        .takes("FireMember")
        .gives(CREATED, Gives::Json("FiredRun")),
        post(
            "sayChat",
            chat::say,
            "POST /v1/host/callboard/chat",
            "Run the agent or the member that a text mentions",
        )
        .needs("runs:create")
        .takes("Chat")
        .gives(CREATED, Gives::Json("FiredRun")),
        get(
            "readActivity",
            activity::read,
            "GET /v1/host/callboard/roster/{rosterId}/activity",
            "What a member did, what waits for an answer, what it cost",
        )
        .needs("runs:read")
        .query(ACTIVITY_QUERY)
        .gives(OK, Gives::Json("MemberActivity")),
        get(
            "listWork",
            work::list,
            "GET /v1/host/callboard/roster/{rosterId}/work",
            "List a member's work, oldest first",
        )
        .needs("runs:read")
        .query(WORK_QUERY)
        .gives(OK, Gives::Json("WorkList")),
        post(
            "addWork",
            work::add,
            "POST /v1/host/callboard/roster/{rosterId}/work",
            "Put work before a member; it begins at once unless the member is paused",
        )
        .needs("runs:create")
        .takes("AddWork")
        .gives(CREATED, Gives::Json("WorkItem")),
        patch(
            "moveWork",
            work::move_item,
            "PATCH /v1/host/callboard/roster/{rosterId}/work/{workId}",
            "Claim an item, finish it, or move it back, which begins it again",
        )
        .needs("runs:create")
        .takes("MoveWork")
        .gives(OK, Gives::Json("WorkItem")),
        get(
            "readBudget",
            budget::read,
            "GET /v1/host/callboard/roster/{rosterId}/budget",
            "What a member may use in a day, and what it has used of today",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("MemberBudget")),
        put(
            "setBudget",
            budget::set,
            "PUT /v1/host/callboard/roster/{rosterId}/budget",
            "Say what a member may use in a day",
        )
        .needs("roster:write")
        .takes("SetMemberBudget")
        .gives(OK, Gives::Json("MemberBudget")),
        delete(
            "resetBudget",
            budget::reset,
            "DELETE /v1/host/callboard/roster/{rosterId}/budget",
            "Leave what a member may use to the host's configuration",
        )
        .needs("roster:write")
        .gives(OK, Gives::Json("MemberBudget")),
        get("readOrgChart", org_chart::read, "GET /v1/agents/org-chart", "Who stands where")
            .in_both()
            .needs("manifest:read")
            .gives(OK, Gives::Json("AgentOrgChart")),
        get(
            "readDepartment",
            org_chart::department,
            "GET /v1/agents/org-chart/{departmentId}",
            "A department, and what it answers for",
        )
        .in_both()
        .needs("manifest:read")
        .query(DEPARTMENT_QUERY)
        .gives(OK, Gives::Json("OrgChartResponsibilityView")),
        get(
            "manageOrgChart",
            org_chart::manage,
            "GET /v1/host/callboard/org-chart",
            "Who stands where, with the version",
        )
        .needs("manifest:read")
        .gives(OK, Gives::Json("StoredOrgChart")),
        put(
            "putOrgChart",
            org_chart::put,
            "PUT /v1/host/callboard/org-chart",
            "Say who stands where",
        )
        .needs("roster:write")
        .takes("PutOrgChart")
        .gives(OK, Gives::Json("StoredOrgChart")),
    ]
});
