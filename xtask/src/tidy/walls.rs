//! Which crate may depend on which: dependencies point inwards, and each crate lacks what it must not use.

use super::Finding;
use crate::workspace::{Member, Role};

/// One crate's place in the picture.
struct Wall {
    name: &'static str,
    /// Crates of ours that lie further in.
    inwards: &'static [&'static str],
    /// Crates of others that it must not ask for, not even in tests.
    never: &'static [&'static str],
    why: &'static str,
}

const PROTOCOL: &str = "callboard-protocol";
const CORE: &str = "callboard-core";
const ENGINE: &str = "callboard-engine";
const AGENTS: &str = "callboard-agents";
const STORE: &str = "callboard-store";
const BACKENDS: &str = "callboard-backends";
const SERVER: &str = "callboard-server";
const AGENT_API: &str = "callboard-agent-api";
const CONSOLE: &str = "callboard-console";
const DOORS: &str = "callboard-doors";
const CONFORMANCE: &str = "callboard-conformance";
const AUTHORING: &str = "callboard-authoring";

const ASYNC: [&str; 7] =
    ["tokio", "tokio-util", "async-trait", "futures-core", "futures-util", "futures", "async-std"];
const SQL: [&str; 5] = ["rusqlite", "refinery", "libsqlite3-sys", "sqlx", "deadpool-postgres"];
const POSTGRES: [&str; 1] = ["tokio-postgres"];
const HTTP_SERVER: [&str; 5] = ["axum", "hyper", "hyper-util", "tower", "tower-http"];
const HTTP_CLIENT: [&str; 3] = ["reqwest", "ureq", "genai"];
const CHANCE: [&str; 4] = ["getrandom", "rand", "uuid", "fastrand"];

const WALLS: [Wall; 14] = [
    Wall {
        name: PROTOCOL,
        inwards: &[],
        never: &["tracing", "metrics", "tempfile"],
        why: "types of the wire and nothing that acts",
    },
    Wall {
        name: CORE,
        inwards: &[PROTOCOL],
        never: &["tracing", "metrics", "chrono", "tempfile"],
        why: "a replay that cannot call anything cannot diverge by accident",
    },
    Wall {
        name: AUTHORING,
        inwards: &[PROTOCOL, CORE],
        never: &["tracing", "metrics", "clap", "tempfile"],
        why: "what people write is read the same way on a command line, in a folder and over HTTP",
    },
    Wall {
        name: ENGINE,
        inwards: &[PROTOCOL, CORE],
        never: &["tempfile", "clap"],
        why: "every loop is testable in memory; databases and HTTP are plugs",
    },
    Wall {
        name: AGENTS,
        inwards: &[PROTOCOL, CORE, ENGINE],
        never: &["clap", "getrandom", "uuid", "rand"],
        why: "packs are read and judged in one room, and time and chance are arguments there",
    },
    Wall {
        name: STORE,
        inwards: &[PROTOCOL, CORE, ENGINE],
        never: &["clap"],
        why: "SQL in one place, and nothing but SQL in that place",
    },
    Wall {
        name: AGENT_API,
        inwards: &[],
        never: &["clap", "tracing", "metrics"],
        why: "it is a crate for anybody, who brings a host of their own",
    },
    Wall {
        name: BACKENDS,
        inwards: &[PROTOCOL, CORE, ENGINE, AGENTS, AGENT_API],
        never: &["clap"],
        why: "foreign code stays outside the room that owns the truth",
    },
    Wall {
        name: SERVER,
        inwards: &[PROTOCOL, CORE, AUTHORING, ENGINE, AGENTS],
        never: &["clap"],
        why: "HTTP could be removed and the engine would not notice",
    },
    Wall {
        name: CONSOLE,
        inwards: &[PROTOCOL],
        never: &["clap", "metrics", "tempfile", "uuid", "rand"],
        why: "what a page shows comes from the public API and nowhere else",
    },
    Wall {
        name: DOORS,
        inwards: &[PROTOCOL, CORE],
        never: &["clap", "metrics", "tempfile", "getrandom", "uuid", "rand"],
        why: "whoever comes through a door is a client of the public API like any other",
    },
    Wall {
        name: CONFORMANCE,
        inwards: &[PROTOCOL, CORE, ENGINE, AGENTS, SERVER],
        never: &["clap", "getrandom", "uuid", "rand"],
        why: "what only the test suite asks for is a plug like any other",
    },
    Wall {
        name: "callboard",
        inwards: &[
            PROTOCOL,
            CORE,
            AUTHORING,
            ENGINE,
            AGENTS,
            STORE,
            BACKENDS,
            SERVER,
            CONSOLE,
            DOORS,
            CONFORMANCE,
        ],
        never: &[],
        why: "it wires the others and holds no logic of its own",
    },
    Wall {
        name: "xtask",
        inwards: &[AUTHORING],
        never: &[],
        why: "it looks at the product from outside, and makes pages from its tables",
    },
];

/// A kind of dependency and the only crates that may ask for it.
struct Reserved {
    crates: &'static [&'static str],
    to: &'static [&'static str],
    why: &'static str,
}

const RESERVED: [Reserved; 6] = [
    Reserved {
        crates: &ASYNC,
        to: &[
            ENGINE,
            AGENTS,
            STORE,
            AGENT_API,
            BACKENDS,
            SERVER,
            CONSOLE,
            DOORS,
            CONFORMANCE,
            "callboard",
            "xtask",
        ],
        why: "core and protocol have no async",
    },
    // xtask measures the bare database, and a bare handler, beside the host.
    Reserved { crates: &SQL, to: &[STORE, "xtask"], why: "only store knows a database" },
    // The tests of the binary start a database server of their own; that its source names none, `rules.rs` holds.
    Reserved { crates: &POSTGRES, to: &[STORE, "callboard"], why: "only store knows a database" },
    Reserved {
        crates: &HTTP_SERVER,
        to: &[SERVER, CONSOLE, DOORS, CONFORMANCE, "xtask"],
        why: "only server, console, doors and the endpoints of the test suite speak HTTP to clients",
    },
    Reserved {
        crates: &HTTP_CLIENT,
        to: &[BACKENDS, "callboard"],
        why: "only backends and client commands call out",
    },
    Reserved {
        crates: &CHANCE,
        to: &[ENGINE, STORE, BACKENDS, SERVER, CONSOLE, "callboard"],
        why: "core and protocol know no chance",
    },
];

pub(super) fn check(members: &[Member]) -> Vec<Finding> {
    members.iter().flat_map(check_member).collect()
}

fn check_member(member: &Member) -> Vec<Finding> {
    let place = format!("{} (Cargo.toml)", member.name);
    let Some(wall) = WALLS.iter().find(|wall| wall.name == member.name) else {
        return vec![Finding::fault(place, "a new crate needs its row in xtask/src/tidy/walls.rs")];
    };
    let mut findings = Vec::new();
    for dependency in &member.dependencies {
        let name = dependency.name.as_str();
        if wall.never.contains(&name) {
            findings.push(Finding::fault(&place, format!("depends on {name}, but {}", wall.why)));
        }
        // Tests may look outwards: a router is best tested with real activities behind it.
        let is_ours = WALLS.iter().any(|other| other.name == name);
        if is_ours && dependency.role != Role::Dev && !wall.inwards.contains(&name) {
            findings.push(Finding::fault(
                &place,
                format!("depends on {name}, which does not lie further in"),
            ));
        }
        for reserved in RESERVED.iter().filter(|reserved| reserved.crates.contains(&name)) {
            let testing = dependency.role == Role::Dev && !SQL.contains(&name);
            if !testing && !reserved.to.contains(&member.name.as_str()) {
                findings.push(Finding::fault(
                    &place,
                    format!("depends on {name}, but {}", reserved.why),
                ));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::workspace::{Dependency, Member, Role};

    fn faults(name: &str, dependencies: &[(&str, Role)]) -> Vec<String> {
        let dependencies = dependencies
            .iter()
            .map(|(name, role)| Dependency { name: (*name).into(), role: *role })
            .collect();
        check(&[Member { name: name.into(), dependencies }])
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn a_crossed_wall_is_found() {
        for (name, dependency) in [
            ("callboard-core", "tokio"),
            ("callboard-core", "async-trait"),
            ("callboard-core", "rusqlite"),
            ("callboard-core", "uuid"),
            ("callboard-core", "callboard-engine"),
            ("callboard-protocol", "tokio"),
            ("callboard-protocol", "callboard-core"),
            ("callboard-engine", "rusqlite"),
            ("callboard-engine", "axum"),
            ("callboard-engine", "reqwest"),
            ("callboard-engine", "callboard-store"),
            ("callboard-server", "rusqlite"),
            ("callboard-server", "refinery"),
            ("callboard-server", "reqwest"),
            ("callboard-server", "callboard-store"),
            ("callboard-agents", "reqwest"),
            ("callboard-agents", "genai"),
            ("callboard-agents", "callboard-backends"),
            ("callboard-agents", "rusqlite"),
            ("callboard-agents", "callboard-store"),
            ("callboard-store", "axum"),
            ("callboard-agent-api", "callboard-protocol"),
            ("callboard-agent-api", "callboard-engine"),
            ("callboard-agent-api", "uuid"),
            ("callboard-engine", "callboard-agent-api"),
            ("callboard-console", "callboard-engine"),
            ("callboard-console", "callboard-server"),
            ("callboard-console", "callboard-store"),
            ("callboard-console", "reqwest"),
            ("callboard-doors", "callboard-engine"),
            ("callboard-doors", "callboard-server"),
            ("callboard-doors", "reqwest"),
            ("callboard-console", "rusqlite"),
            ("callboard", "rusqlite"),
            ("callboard-utils", "serde"),
        ] {
            let found = faults(name, &[("serde", Role::Normal), (dependency, Role::Normal)]);
            assert_eq!(found.len(), 1, "{name} with {dependency}: {found:?}");
        }
    }

    #[test]
    fn tests_may_look_outwards_but_not_at_a_database() {
        assert_eq!(faults("callboard-server", &[("callboard-backends", Role::Dev)]), [""; 0]);
        assert_eq!(faults("callboard-server", &[("rusqlite", Role::Dev)]).len(), 1);
    }
}
