//! After a crash of the host nothing is left running.

use std::fs;

use callboard_agent_api::{Exit, FailureClass, Leftovers, backends};
use futures_util::StreamExt;
use serde_json::Value;

use crate::stage::{DONE, INIT, Stage, finish, is_running, run, say, start};

#[tokio::test]
async fn a_run_is_on_record_while_it_lasts() {
    let stage = Stage::new();
    let mut config =
        stage.config(&(say(&[INIT]) + "ls \"$RECORDS\" > \"$FAKE_DIR/records\"; " + &say(&[DONE])));
    config.leftovers = Some(Leftovers::at(stage.path("running")));
    config.env.insert("RECORDS".into(), stage.path("running").to_str().unwrap().into());
    run(&backends::claude_code::backend(config)).await.1.unwrap();
    assert_eq!(fs::read_dir(stage.path("running")).unwrap().count(), 0);
}

#[tokio::test]
async fn what_a_dead_host_left_is_ended_at_the_next_start() {
    let stage = Stage::new();
    let running = Leftovers::at(stage.path("running"));
    let mut config = stage.config(
        &("sleep 1000 & echo $! > \"$FAKE_DIR/child\"; ".to_owned() + &say(&[INIT]) + "wait"),
    );
    config.leftovers = Some(running.clone());
    let mut control = start(&backends::claude_code::backend(config)).await;
    control.handle.events.next().await.unwrap();
    let child = stage.process("child").await;
    // While we live, it is ours.
    assert_eq!(running.clean_up().unwrap(), 0);
    assert!(is_running(child));
    // The same record as a host with our number would have left that started at another time.
    let file = fs::read_dir(stage.path("running")).unwrap().next().unwrap().unwrap().path();
    let mut record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    record["host_started"] = 1.into();
    fs::write(&file, record.to_string()).unwrap();
    assert_eq!(running.clean_up().unwrap(), 1);
    assert_eq!(running.clean_up().unwrap(), 0);
    let error = finish(control).await.1.unwrap_err();
    assert_eq!(error.class(), Some(FailureClass::Crashed));
    let killed = Exit { code: None, signal: Some(9) };
    assert!(format!("{error:?}").contains(&format!("{killed:?}")));
    assert!(!is_running(child));
}

#[test]
fn records_that_cannot_be_understood_are_left_alone() {
    let stage = Stage::new();
    assert_eq!(Leftovers::at(stage.path("missing")).clean_up().unwrap(), 0);
    fs::write(stage.path("1-1.agent"), "garbage").unwrap();
    fs::write(stage.path("notes.txt"), "mine").unwrap();
    assert_eq!(Leftovers::at(stage.path("")).clean_up().unwrap(), 0);
    assert!(stage.path("1-1.agent").exists() && stage.path("notes.txt").exists());
}
