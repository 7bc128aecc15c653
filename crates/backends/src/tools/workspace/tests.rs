//! A workspace whose files come from a model that tries things.

use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::path::PathBuf;

use super::*;

struct Given {
    /// Holds the workspace, with a secret beside it.
    around: tempfile::TempDir,
    workspace: Workspace,
}

fn given() -> Given {
    let around = tempfile::tempdir().unwrap();
    std::fs::write(around.path().join("secret"), "secret").unwrap();
    let workspace = Workspace::open_or_make(&around.path().join("tenant/run")).unwrap();
    Given { around, workspace }
}

impl Given {
    fn inside(&self, path: &str) -> PathBuf {
        self.around.path().join("tenant/run").join(path)
    }

    fn write(&self, path: &str, content: &str) -> Result<(), ToolFault> {
        self.workspace.write(path, content.as_bytes(), WriteMode::Overwrite)
    }

    fn read(&self, path: &str) -> Result<String, ToolFault> {
        self.workspace.read(path).map(|bytes| String::from_utf8(bytes).unwrap())
    }
}

fn is_refused<T>(result: &Result<T, ToolFault>) -> bool {
    matches!(result, Err(ToolFault::Refused(_)))
}

#[test]
fn what_is_written_is_read_and_found() {
    let given = given();
    given.write("notes/day/1.md", "one").unwrap();
    given.write("./a.txt", "two").unwrap();
    assert_eq!(given.read("notes/day/1.md"), Ok("one".to_owned()));
    assert_eq!(given.read("notes//day/./1.md"), Ok("one".to_owned()));
    let found: Vec<String> = given.workspace.files().unwrap().into_iter().map(|f| f.path).collect();
    assert_eq!(found, ["a.txt", "notes/day/1.md"]);
    let mode = given.inside("").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn two_who_write_at_once_lose_and_swap_nothing() {
    const ROUNDS: usize = 100;
    let given = given();
    let folder = given.inside("");
    let write = |name: &str| {
        let workspace = Workspace::open_or_make(&folder).unwrap();
        for round in 0..ROUNDS {
            let content = format!("{name} {round}");
            workspace.write(name, content.as_bytes(), WriteMode::Overwrite).unwrap();
            assert_eq!(workspace.read(name).unwrap(), content.as_bytes());
            workspace.write("both", b".", WriteMode::Append).unwrap();
        }
    };
    std::thread::scope(|threads| {
        threads.spawn(|| write("one"));
        threads.spawn(|| write("two"));
    });
    assert_eq!(given.read("both").unwrap().len(), 2 * ROUNDS);
}

#[test]
fn a_draft_is_nobodys_file() {
    let given = given();
    std::fs::write(given.inside(DRAFT), "left by a crash").unwrap();
    assert_eq!(given.workspace.files(), Ok(Vec::new()));
    assert!(is_refused(&given.read(DRAFT)) && is_refused(&given.write(DRAFT, "mine")));
    given.write("a", "1").unwrap();
    assert!(!given.inside(DRAFT).exists());
}

#[test]
fn modes_do_what_they_say() {
    let given = given();
    let write = |mode, text: &str| given.workspace.write("a", text.as_bytes(), mode);
    write(WriteMode::CreateOnly, "1").unwrap();
    assert!(is_refused(&write(WriteMode::CreateOnly, "2")));
    write(WriteMode::Append, "3").unwrap();
    assert_eq!(given.read("a"), Ok("13".to_owned()));
    write(WriteMode::Overwrite, "4").unwrap();
    assert_eq!(given.read("a"), Ok("4".to_owned()));
}

#[test]
fn no_path_leads_out() {
    let given = given();
    let outside = given.around.path().join("secret");
    for path in [
        "../../secret",
        "a/../../../secret",
        "..",
        "",
        ".",
        "/etc/passwd",
        outside.to_str().unwrap(),
        "..\\..\\secret",
        "a\0b",
        &"d/".repeat(40),
    ] {
        assert!(is_refused(&given.read(path)), "read {path:?}");
        assert!(is_refused(&given.write(path, "x")), "write {path:?}");
    }
    assert_eq!(std::fs::read_to_string(outside).unwrap(), "secret");
}

#[test]
fn links_are_neither_read_nor_written_through() {
    let given = given();
    symlink(given.around.path(), given.inside("out")).unwrap();
    symlink(given.around.path().join("secret"), given.inside("file")).unwrap();
    symlink(given.around.path().join("new"), given.inside("dangling")).unwrap();
    for path in ["out/secret", "file", "dangling", "out/new/deep"] {
        assert!(is_refused(&given.read(path)), "read {path}");
        assert!(is_refused(&given.write(path, "x")), "write {path}");
    }
    assert_eq!(given.workspace.files().unwrap(), []);
    assert_eq!(std::fs::read_to_string(given.around.path().join("secret")).unwrap(), "secret");
    assert!(!given.around.path().join("new").exists());
}

#[test]
fn a_link_where_the_draft_goes_is_not_written_through() {
    let given = given();
    symlink(given.around.path().join("secret"), given.inside(".callboard-draft")).unwrap();
    given.write("a", "x").unwrap();
    assert_eq!(std::fs::read_to_string(given.around.path().join("secret")).unwrap(), "secret");
}

#[test]
fn what_is_no_file_is_refused_and_does_not_hold_anybody_up() {
    let given = given();
    rustix::fs::mknodat(CWD, given.inside("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    assert!(given.inside("pipe").metadata().unwrap().file_type().is_fifo());
    assert!(is_refused(&given.read("pipe")));
    assert!(is_refused(&given.write("pipe", "x")));
    given.write("folder/a", "x").unwrap();
    assert!(is_refused(&given.read("folder")));
    assert!(is_refused(&given.write("folder", "x")));
    assert!(is_refused(&given.read("folder/a/b")));
    assert!(is_refused(&given.read("nothing")));
}

#[test]
fn sizes_have_bounds() {
    let given = given();
    let large = "x".repeat(MOST_FILE + 1);
    assert!(is_refused(&given.write("a", &large)));
    std::fs::write(given.inside("large"), &large).unwrap();
    assert!(is_refused(&given.read("large")));
    let sparse = std::fs::File::create(given.inside("sparse")).unwrap();
    sparse.set_len(MOST_BYTES).unwrap();
    assert_eq!(given.write("b", "x"), Err(ToolFault::refused("the workspace is full")));
}

#[test]
fn refusals_do_not_say_where_the_workspace_lies() {
    let given = given();
    let place = given.around.path().to_str().unwrap();
    for refused in [given.read("nothing"), given.read("../x"), given.read("a/b")] {
        let text = refused.unwrap_err().to_string();
        assert!(!text.contains(place), "{text}");
    }
}
