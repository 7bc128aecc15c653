//! The org chart (RFC 0087): departments, roles, and who reports to whom. It grants no permission.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::closed::ensure;
use crate::{RosterId, RosterOwner, ShapeError, WorkflowId};

/// `GET /v1/agents/org-chart`: exactly this.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentOrgChart {
    pub owner: RosterOwner,
    pub departments: Vec<Department>,
    pub members: Vec<Placement>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Department {
    pub department_id: String,
    pub name: String,
    /// None stands at the top.
    #[serde(default)]
    pub parent_department_id: Option<String>,
    pub roles: Vec<OrgRole>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OrgRole {
    pub role_id: String,
    pub name: String,
}

/// Where one member stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Placement {
    pub roster_id: RosterId,
    pub department_id: String,
    pub role_id: String,
    /// None: reports to no other member.
    pub reports_to: Option<RosterId>,
}

/// `GET /v1/agents/org-chart/{departmentId}`: a department, and what it answers for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ResponsibilityView {
    pub department: Department,
    pub members: Vec<Placement>,
    pub responsibilities: BTreeSet<WorkflowId>,
}

/// `PUT …/org-chart`: the whole chart; its owner comes from the key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PutOrgChart {
    #[serde(default)]
    pub departments: Vec<Department>,
    #[serde(default)]
    pub members: Vec<Placement>,
    /// The version that it was decided on; where it is left out, whatever is there is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
}

impl AgentOrgChart {
    /// The shape that the protocol's schema cannot say: trees, and names that stand for something.
    pub fn check(&self) -> Result<(), ShapeError> {
        let mut parents = BTreeMap::new();
        let mut roles = BTreeSet::new();
        for (place, department) in self.departments.iter().enumerate() {
            let at = |field: &str| format!("departments[{place}].{field}");
            is_text(&department.department_id, 128, &at("departmentId"))?;
            is_text(&department.name, 200, &at("name"))?;
            let parent = department.parent_department_id.as_deref();
            let known = parents.insert(department.department_id.as_str(), parent);
            ensure(known.is_none(), &at("departmentId"), || "is there twice".to_owned())?;
            for role in &department.roles {
                is_text(&role.role_id, 128, &at("roles.roleId"))?;
                is_text(&role.name, 200, &at("roles.name"))?;
                ensure(roles.insert(role.role_id.as_str()), &at("roles.roleId"), || {
                    "is there twice".to_owned()
                })?;
            }
        }
        is_forest(&parents, "departments", "parentDepartmentId")?;
        let mut chiefs = BTreeMap::new();
        for (place, member) in self.members.iter().enumerate() {
            let at = |field: &str| format!("members[{place}].{field}");
            let department = parents.contains_key(member.department_id.as_str());
            ensure(department, &at("departmentId"), || "is no department of the chart".to_owned())?;
            let role = roles.contains(member.role_id.as_str());
            ensure(role, &at("roleId"), || "is no role of the chart".to_owned())?;
            let chief = member.reports_to.as_ref().map(|chief| chief.as_str());
            let known = chiefs.insert(member.roster_id.as_str(), chief);
            ensure(known.is_none(), &at("rosterId"), || "stands in the chart twice".to_owned())?;
        }
        is_forest(&chiefs, "members", "reportsTo")
    }

    /// The chart without a member; those who reported to it report to no other.
    pub fn without(&mut self, gone: &RosterId) -> bool {
        let before = self.members.len();
        self.members.retain(|member| member.roster_id != *gone);
        for member in &mut self.members {
            member.reports_to.take_if(|chief| chief == gone);
        }
        self.members.len() < before
    }

    /// A department with those who stand in it, and below it where that is asked for.
    pub fn department(&self, id: &str, depth: Depth) -> Option<(Department, Vec<Placement>)> {
        let found = self.departments.iter().find(|department| department.department_id == id)?;
        let mut within = BTreeSet::from([id]);
        let mut grows = depth == Depth::WholeTree;
        while grows {
            let before = within.len();
            let below = self.departments.iter().filter(|department| {
                let parent = department.parent_department_id.as_deref();
                parent.is_some_and(|parent| within.contains(parent))
            });
            let below: Vec<&str> = below.map(|department| &*department.department_id).collect();
            within.extend(below);
            grows = within.len() > before;
        }
        let is_within = |member: &&Placement| within.contains(member.department_id.as_str());
        Some((found.clone(), self.members.iter().filter(is_within).cloned().collect()))
    }
}

/// How far a look at a department goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    OnlyItself,
    WholeTree,
}

/// Whether every edge leads to something that is there, and none leads back.
fn is_forest(
    edges: &BTreeMap<&str, Option<&str>>,
    list: &str,
    field: &str,
) -> Result<(), ShapeError> {
    for (start, first) in edges {
        let (mut next, mut steps) = (*first, 0);
        while let Some(name) = next {
            steps += 1;
            let place = format!("{list}: {field} of {start}");
            ensure(steps <= edges.len(), &place, || "leads back to where it began".to_owned())?;
            next = match edges.get(name) {
                Some(further) => *further,
                None => return ensure(false, &place, || "is not in the chart".to_owned()),
            };
        }
    }
    Ok(())
}

fn is_text(text: &str, most: usize, place: &str) -> Result<(), ShapeError> {
    let length = text.chars().count();
    ensure((1..=most).contains(&length), place, || format!("must have 1 to {most} characters"))
}
