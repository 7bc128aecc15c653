//! What is refused before anything is started, with the words in which it is refused.

use std::fs;

use serde_json::json;

use super::*;

const KIND: &str = "claude_code";

fn all() -> AgentCapabilities {
    [
        NON_INTERACTIVE,
        EXTERNAL_SANDBOX,
        MODEL,
        ADD_DIRS,
        SESSION_RESUME,
        SESSION_FORK,
        "agent_api.run",
        "backend.claude_code.exec.tools.v1",
        "backend.claude_code.session.new_id.v1",
    ]
    .into_iter()
    .collect()
}

fn check_in(folder: &Path, extensions: &[(&str, Value)]) -> Result<RunOptions, AgentError> {
    let mut request = AgentRunRequest::new("do it");
    for (key, value) in extensions {
        request = request.extension(*key, value.clone());
    }
    validate(&AgentKind::known(KIND), &all(), &request, folder)
}

fn check(extensions: &[(&str, Value)]) -> Result<RunOptions, AgentError> {
    check_in(Path::new("/"), extensions)
}

fn refusal(extensions: &[(&str, Value)]) -> String {
    match check(extensions) {
        Err(AgentError::InvalidRequest { message }) => message,
        other => panic!("{extensions:?}: {other:?}"),
    }
}

fn unsupported(extensions: &[(&str, Value)]) -> String {
    match check(extensions) {
        Err(AgentError::UnsupportedCapability { capability, .. }) => capability,
        other => panic!("{extensions:?}: {other:?}"),
    }
}

// T10
#[test]
fn a_blank_prompt_is_refused_before_its_keys_are_read() {
    for prompt in ["", " \n"] {
        let request = AgentRunRequest::new(prompt).extension("nonsense", 1);
        let refused = validate(&AgentKind::known(KIND), &all(), &request, Path::new("/"));
        assert!(matches!(refused, Err(AgentError::InvalidRequest { .. })), "{prompt:?}");
    }
}

// T11, T12
#[test]
fn an_unknown_key_is_refused_before_any_value_is_read() {
    let bad_model = (MODEL, json!(7));
    assert_eq!(unsupported(&[bad_model.clone(), ("zzz.unknown", json!(1))]), "zzz.unknown");
    assert_eq!(
        unsupported(&[("backend.codex.exec.sandbox_mode", json!("read-only"))]),
        "backend.codex.exec.sandbox_mode"
    );
    // A capability that is no key.
    assert_eq!(unsupported(&[("agent_api.run", json!(true))]), "agent_api.run");
    // The first in the order of keys.
    assert_eq!(unsupported(&[("b.b", json!(1)), ("a.a", json!(1))]), "a.a");
}

// T13
#[test]
fn a_model_is_a_trimmed_string_of_128_bytes() {
    for bad in [json!(7), json!(null), json!(""), json!("  "), json!("m".repeat(129)), json!("--x")]
    {
        assert_eq!(refusal(&[(MODEL, bad)]), "invalid agent_api.config.model.v1");
    }
    let longest = "m".repeat(128);
    assert_eq!(check(&[(MODEL, json!(longest))]).unwrap().model, Some(longest));
    assert_eq!(check(&[(MODEL, json!(" m \n"))]).unwrap().model.as_deref(), Some("m"));
}

// T14
#[test]
fn folders_are_refused_by_their_place() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("a")).unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    let refusal = |value: Value| match check_in(folder.path(), &[(ADD_DIRS, value)]) {
        Err(AgentError::InvalidRequest { message }) => message,
        other => panic!("{other:?}"),
    };
    let key = "invalid agent_api.exec.add_dirs.v1";
    assert_eq!(refusal(json!([])), key);
    assert_eq!(refusal(json!({ "dirs": ["a"], "more": 1 })), key);
    assert_eq!(refusal(json!({})), format!("{key}.dirs"));
    assert_eq!(refusal(json!({ "dirs": [] })), format!("{key}.dirs"));
    assert_eq!(refusal(json!({ "dirs": vec!["a"; 17] })), format!("{key}.dirs"));
    let entries = [json!(1), json!(" "), json!("x".repeat(1025)), json!("missing"), json!("file")];
    for bad in entries {
        assert_eq!(refusal(json!({ "dirs": ["a", bad] })), format!("{key}.dirs[1]"));
    }
}

// T14
#[test]
fn folders_are_absolute_folded_and_named_once() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::create_dir(folder.path().join(name)).unwrap();
    }
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    let dirs = json!({ "dirs": ["b", " a ", "a/../b/.", b.to_str().unwrap(), "a"] });
    assert_eq!(check_in(folder.path(), &[(ADD_DIRS, dirs)]).unwrap().add_dirs, [b, a]);
    let most = json!({ "dirs": vec!["a"; 16] });
    assert_eq!(check_in(folder.path(), &[(ADD_DIRS, most)]).unwrap().add_dirs.len(), 1);
}

// T15
#[test]
fn a_selector_has_two_shapes() {
    for key in [SESSION_RESUME, SESSION_FORK] {
        for bad in [
            json!("last"),
            json!({}),
            json!({ "selector": "first" }),
            json!({ "selector": "id" }),
            json!({ "selector": "id", "id": " " }),
            json!({ "selector": "id", "id": 7 }),
            json!({ "selector": "id", "id": "--print" }),
            json!({ "selector": "last", "id": "x" }),
            json!({ "selector": "last", "more": 1 }),
            json!({ "id": "x" }),
        ] {
            assert_eq!(refusal(&[(key, bad)]), format!("invalid {key}"));
        }
    }
    let last = check(&[(SESSION_RESUME, json!({ "selector": "last" }))]).unwrap();
    assert_eq!(last.origin, Origin::Resume(Selector::Last));
    let id = check(&[(SESSION_FORK, json!({ "selector": "id", "id": " s-1 " }))]).unwrap();
    assert_eq!(id.origin, Origin::Fork(Selector::Id("s-1".into())));
}

// T15
#[test]
fn a_session_is_either_resumed_or_forked() {
    let last = json!({ "selector": "last" });
    let both = [(SESSION_RESUME, last.clone()), (SESSION_FORK, last)];
    assert_eq!(refusal(&both), "a session is either resumed or forked");
}

// T16
#[test]
fn an_external_sandbox_contradicts_questions_and_inner_walls() {
    let sandbox = (EXTERNAL_SANDBOX, json!(true));
    assert_eq!(refusal(&[(EXTERNAL_SANDBOX, json!("yes"))]), format!("invalid {EXTERNAL_SANDBOX}"));
    assert!(refusal(&[sandbox.clone(), (NON_INTERACTIVE, json!(false))]).contains("contradicts"));
    let tools = ("backend.claude_code.exec.tools.v1", json!([]));
    assert!(refusal(&[sandbox.clone(), tools.clone()]).contains("contradicts"));
    assert!(check(&[sandbox]).unwrap().external_sandbox);
    assert!(check(&[(EXTERNAL_SANDBOX, json!(false)), tools]).is_ok());
}

#[test]
fn tools_are_a_list_of_known_names() {
    let key = "backend.claude_code.exec.tools.v1";
    assert_eq!(check(&[]).unwrap().grants, None);
    assert_eq!(check(&[(key, json!([]))]).unwrap().grants, Some([].into()));
    let two = check(&[(key, json!(["shell", "files.read"]))]).unwrap();
    assert_eq!(two.grants, Some([Grant::Shell, Grant::ReadFiles].into()));
    for bad in [json!("shell"), json!(["everything"]), json!([1])] {
        assert_eq!(refusal(&[(key, bad)]), format!("invalid {key}"));
    }
}

#[test]
fn a_new_session_may_have_a_uuid_unless_it_is_resumed() {
    let key = "backend.claude_code.session.new_id.v1";
    let id = json!("3F074E59-53fd-406d-9513-4e8c519d5748");
    let named = check(&[(key, id.clone())]).unwrap().new_session_id;
    assert_eq!(named.as_deref(), Some("3f074e59-53fd-406d-9513-4e8c519d5748"));
    for bad in [json!("x"), json!(1), json!("3f074e59-53fd-406d-9513-4e8c519d574g")] {
        assert_eq!(refusal(&[(key, bad)]), format!("invalid {key}"));
    }
    let last = json!({ "selector": "last" });
    assert!(refusal(&[(key, id), (SESSION_RESUME, last)]).contains("already"));
}
