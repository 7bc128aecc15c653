//! The order of the checks, and what is reported of each.

use callboard_agents::{Announced, Offer, Outcome, Report, Sri, verify, vet};
use serde_json::json;

use crate::given::{good, unsigned};

fn outcomes(report: &Report) -> Vec<(&'static str, Outcome)> {
    report.checks.iter().map(|check| (check.check, check.outcome)).collect()
}

#[test]
fn a_good_pack_has_a_line_for_each_check() {
    let archive = good().archive();
    let integrity = Some(Announced::Caller(Sri::of(&archive).to_string()));
    let found = verify(Ok(Offer { integrity, ..Offer::plain(archive) }), &unsigned());
    assert_eq!(
        outcomes(&found.report),
        [
            ("integrity", Outcome::Passed),
            ("archive", Outcome::Passed),
            ("manifest", Outcome::Passed),
            ("signature", Outcome::Skipped),
            ("contents", Outcome::Passed),
            ("agents", Outcome::Passed),
            ("host", Outcome::Passed),
        ]
    );
    assert!(found.result.is_ok());
}

#[test]
fn a_report_ends_with_what_failed() {
    let mut draft = good();
    draft.agent()["systemPromptRef"] = json!("prompts/gone.md");
    let found = verify(Ok(Offer::plain(draft.archive())), &unsigned());
    let last = found.report.checks.last().unwrap();
    assert_eq!((last.check, last.outcome), ("agents", Outcome::Failed));
    assert_eq!(last.detail, found.result.unwrap_err().to_string());
}

#[test]
fn what_was_asked_for_must_be_inside() {
    let offer = Offer::plain(good().archive());
    for (name, version) in [("vendor.acme.other", "1.0.0"), ("vendor.acme.desk", "1.0.1")] {
        let expected = Some((name.parse().unwrap(), version.parse().unwrap()));
        let offer = Offer { expected, ..offer.clone() };
        let error = vet(offer, &unsigned(), &mut Report::default()).unwrap_err();
        assert_eq!(error.code(), "manifest_mismatch");
    }
}
