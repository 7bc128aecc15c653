//! M-93…M-95, S-18: what a child leaves, attested and agreed to.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::enter;
use crate::interop::session::Session;
use crate::wire::Request;

/// Of the protocol's own vector.
const CHECKSUM: &str = "63a0014fbc71ddd0e41e568822b956dc0e1e22c1c0bdccdd64dc86d38538d55a";

pub(super) async fn check(session: &mut Session) {
    let outcome = checksum(session).await;
    enter(session, "M-93: a checksum does not depend on the order of keys", outcome);
    let outcome = consent(session).await;
    enter(session, "M-94: what a child leaves is merged with consent alone", outcome);
}

async fn attest(session: &mut Session, body: &Value) -> Result<Value> {
    session.expect(200, Request::post("/v1/host/sample/subrun/attest", body)).await
}

async fn checksum(session: &mut Session) -> Result<()> {
    for outputs in [
        json!({ "report": "done", "score": 0.9, "tags": ["a", "b"] }),
        json!({ "tags": ["a", "b"], "score": 0.9, "report": "done" }),
    ] {
        let body = json!({ "childOutputs": outputs, "outputAttestation": { "checksum": true } });
        let shown = attest(session, &body).await?;
        let expected = json!({ "checksum": CHECKSUM, "algorithm": "sha256" });
        ensure!(shown["attestation"] == expected, "{shown}");
        ensure!(shown["harvestedEvent"]["phase"] == "output.harvested", "{shown}");
        ensure!(shown["harvestedEvent"]["attestation"] == expected, "{shown}");
        ensure!(shown["merged"] == true && shown["mergedValues"] == outputs, "{shown}");
    }
    Ok(())
}

async fn consent(session: &mut Session) -> Result<()> {
    for (action, merges) in
        [(json!("accept"), true), (json!("reject"), false), (Value::Null, false)]
    {
        let mut body = json!({ "childOutputs": { "report": "done" },
            "outputAttestation": { "checksum": true, "requireApproval": true } });
        if !action.is_null() {
            body["approvalAction"] = action.clone();
        }
        let shown = attest(session, &body).await?;
        ensure!(shown["merged"] == merges, "{action}: {shown}");
        ensure!(shown["attestation"]["checksum"].is_string(), "{action}: {shown}");
    }
    let edited = json!({ "action": "edit-accept", "editedArtifactData": { "report": "better" } });
    let body = json!({ "childOutputs": { "report": "done" },
        "outputAttestation": { "requireApproval": true }, "approvalAction": edited });
    let shown = attest(session, &body).await?;
    ensure!(shown["mergedValues"] == json!({ "report": "better" }), "{shown}");
    Ok(())
}
