//! Everything that this host answers, one row for each operation.

mod agents;
mod host;
mod interrupts;
mod memory;
mod queries;
mod roster;
mod runs;
mod sources;
mod webhooks;
mod workflows;

use axum::http::StatusCode;

use crate::operations::{Family, Operation};
use agents::AGENTS;
use host::HOST;
use interrupts::INTERRUPTS;
use memory::MEMORY;
use roster::ROSTER;
use runs::RUNS;
use sources::SOURCES;
use webhooks::WEBHOOKS;
use workflows::WORKFLOWS;

const OK: StatusCode = StatusCode::OK;
const CREATED: StatusCode = StatusCode::CREATED;
const ACCEPTED: StatusCode = StatusCode::ACCEPTED;
const NO_CONTENT: StatusCode = StatusCode::NO_CONTENT;

static FAMILIES: [&Family; 9] =
    [&HOST, &WORKFLOWS, &RUNS, &INTERRUPTS, &WEBHOOKS, &MEMORY, &AGENTS, &ROSTER, &SOURCES];

/// Every row of the table.
pub fn operations() -> impl Iterator<Item = &'static Operation> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::operations;
    use crate::operations::Access;
    use crate::scopes::SCOPES;

    #[test]
    fn every_row_is_well_formed() {
        let mut names = BTreeSet::new();
        for operation in operations() {
            assert_eq!(operation.name, format!("{} {}", operation.method.as_str(), operation.path));
            assert!(operation.path.starts_with('/'), "{}", operation.name);
            assert!(names.insert(operation.name), "{} twice", operation.name);
            assert!(names.insert(operation.id), "{} twice", operation.id);
            let scopes = match operation.access {
                Access::Scope(scope) | Access::Anyone(scope) => vec![scope],
                Access::OneOf(scopes) => scopes.to_vec(),
                Access::Public | Access::Link => Vec::new(),
            };
            for scope in scopes {
                assert!(SCOPES.contains(&scope), "{}: {scope}", operation.name);
            }
            for parameter in operation.query {
                let schema = serde_json::from_str::<serde_json::Value>(parameter.schema);
                assert!(schema.is_ok_and(|schema| schema.is_object()), "{}", parameter.name);
            }
        }
    }
}
