//! What to do about a run that failed, by the code of its failure.

/// Short enough for one line below the failure, which has said what is wrong.
pub(crate) fn mend(code: &str) -> Option<&'static str> {
    Some(match code {
        "credential_forbidden" => {
            "a run's own key is the secret in ai.credentialRef; the host's own is in its \
             environment, where `callboard doctor` tries it"
        }
        "credential_required" => {
            "set the provider's key, as in ANTHROPIC_API_KEY, where the host is started"
        }
        "credential_not_found" => {
            "`callboard secrets set NAME` stores one; `callboard secrets list` shows the others"
        }
        "no_model_available" => {
            "see that CALLBOARD_MODEL, [models] or ai.model is right; `callboard doctor` asks the \
             provider for the host's models"
        }
        "rate_limited" => {
            "wait, or ask the provider for a higher limit; [models] fallback names who is asked \
             meanwhile"
        }
        "service_unavailable" => {
            "try again later; [models] fallback names who is asked meanwhile, and `callboard \
             doctor` where the host is tries the way to the provider"
        }
        "handoff_task_schema_violation" => {
            "--input is the task; the agent's pack describes it in the file of its taskSchemaRef"
        }
        _ => return None,
    })
}
