//! Secrets from a terminal: stored from standard input, listed by name, removed.

use anyhow::Result;
use insta::assert_snapshot;

use crate::terminal::Terminal;

#[test]
fn secrets_are_set_listed_and_removed() -> Result<()> {
    let terminal = Terminal::new()?;
    let host = terminal.host(&["--api-key", "cbtest_reader=default+runs:read"])?;
    let user = terminal.at(host.url());
    let set = ["secrets", "set", "openai"];
    assert_snapshot!("secrets_1_nothing", user.run(&["secrets", "list"])?);
    assert_snapshot!("secrets_2_stored", user.run_with("hunter2-hunter2\n", &set)?);
    assert_snapshot!("secrets_3_replaced", user.run_with("hunter3-hunter3", &set)?);
    assert_snapshot!(
        "secrets_4_json",
        user.run_with("line\nline\r\n", &["secrets", "set", "pem", "--json"])?
    );
    assert_snapshot!("secrets_5_short", user.run_with("1234567", &["secrets", "set", "pin"])?);
    assert_snapshot!("secrets_6_list", user.run(&["secrets", "list"])?);
    assert_snapshot!("secrets_7_list_json", user.run(&["secrets", "list", "--json"])?);
    assert_snapshot!("secrets_8_remove", user.run(&["secrets", "remove", "pin"])?);
    assert_snapshot!("secrets_9_gone", user.run(&["secrets", "remove", "pin"])?);
    let removed = user.run(&["secrets", "remove", "pem", "--json"])?;
    assert_snapshot!("secrets_10_remove_json", removed);
    assert_snapshot!("secrets_11_no_value", user.run_with("\n", &set)?);
    let misnamed = user.run_with("hunter2-hunter2", &["secrets", "set", "open ai"])?;
    assert_snapshot!("secrets_12_misnamed", misnamed);
    let refused = user.run(&["secrets", "list", "--api-key", "cbtest_reader"])?;
    assert_snapshot!("secrets_13_not_allowed", refused);
    Ok(())
}
