//! What is decided before a program is started: its session's name, whether it may be started at all.

use super::*;

fn agents(root: &std::path::Path) -> CliAgents {
    let folders = RunFolders::at(root.join("cli"));
    let surroundings = CliSurroundings {
        environment: BTreeMap::new(),
        folders,
        records: None,
        sessions: None,
        hidden: Vec::new(),
        scratch: None,
        launcher: None,
    };
    CliAgents::new(CliSettings::default(), surroundings)
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn an_effect_gives_its_session_one_name() {
    let name = session_name("effect");
    assert_eq!(name, session_name("effect"));
    assert_ne!(name, session_name("another"));
    let groups: Vec<usize> = name.split('-').map(str::len).collect();
    assert_eq!(groups, [8, 4, 4, 4, 12]);
    assert_eq!(name.as_bytes()[14], b'4');
}

#[test]
fn who_cannot_be_held_is_refused_with_the_reason() {
    let root = tempfile::tempdir().unwrap();
    let agents = agents(root.path());
    let reads = list(&["openwop:core.files.read"]);
    for kind in ["codex", "opencode", "aider"] {
        let refused = agents.admit(kind, &reads).unwrap_err();
        assert_eq!(refused.fault, CodingFault::NotHeld, "{kind}");
        assert!(refused.message.contains(kind), "{refused}");
    }
    for kind in ["claude-code", "gemini-cli"] {
        let admitted = agents.admit(kind, &reads).unwrap();
        assert_eq!((admitted.tools.as_slice(), admitted.changes_things), (&*reads, false));
        assert!(admitted.names_sessions, "{kind}");
    }
    let shell = agents.admit("codex", &list(&["cli:codex.shell", "mcp:a.b"])).unwrap();
    assert_eq!(shell.unknown, ["mcp:a.b"]);
    assert!(shell.changes_things && !shell.names_sessions);
    assert_eq!(agents.admit("claude", &[]).unwrap_err().fault, CodingFault::Missing);
}

#[test]
fn every_kind_says_what_it_needs() {
    let goose =
        CliAgentSettings { acp: Some(list(&["/opt/goose", "acp"])), ..CliAgentSettings::default() };
    let agents = [("goose".to_owned(), goose)].into();
    let kinds = CliSettings { agents, ..CliSettings::default() }.kinds();
    let needs: Vec<_> = kinds.iter().map(|kind| (kind.name.as_str(), kind.needs.clone())).collect();
    let (read, write) = ("openwop:core.files.read", "openwop:core.files.write");
    assert_eq!(
        needs,
        [
            ("claude-code", list(&[])),
            ("codex", list(&["cli:codex.shell"])),
            ("gemini-cli", list(&[])),
            ("opencode", list(&["cli:opencode.shell"])),
            ("aider", list(&[read, write, "cli:aider.shell"])),
            ("goose", list(&["cli:goose.shell"])),
        ]
    );
    assert_eq!(kinds[5].program, "/opt/goose");
}

#[test]
fn codex_is_held_to_the_same_when_it_asks() {
    let asking = CliAgentSettings { approvals: true, ..CliAgentSettings::default() };
    let agents = [("codex".to_owned(), asking)].into();
    let kinds = CliSettings { agents, ..CliSettings::default() }.kinds();
    assert_eq!(kinds[1].needs, list(&["cli:codex.shell"]));
    assert!(kinds[1].resumes() && !kinds[1].forks());
}
