//! Files of pack registries, fetched through the guarded client.

use std::time::Duration;

use async_trait::async_trait;

use callboard_agents::{Fetch, FetchError, Limits};

use crate::egress::{Answer, Egress, EgressError, Method, Outgoing};

/// A pack is small; a registry that needs longer than this is not answering.
const WITHIN: Duration = Duration::from_secs(60);

/// Callers say what is fetched from registries, so this goes nowhere but where the guard lets it.
#[async_trait]
impl Fetch for Egress {
    async fn get(&self, url: &str) -> Result<Vec<u8>, FetchError> {
        let agent = concat!("callboard/", env!("CARGO_PKG_VERSION"));
        let outgoing = Outgoing {
            method: Method::Get,
            url: url.to_owned(),
            headers: vec![("user-agent".to_owned(), agent.to_owned())],
            body: Vec::new(),
            within: WITHIN,
            most: Limits::default().archive,
        };
        let answer = self.send(outgoing).await.map_err(|error| match error {
            EgressError::Refused(why) => FetchError::Refused(why),
            EgressError::NoAnswer(why) => FetchError::Unreachable(why),
        })?;
        bytes_of(answer)
    }
}

fn bytes_of(answer: Answer) -> Result<Vec<u8>, FetchError> {
    let said = |status: u16| format!("the registry answered {status}");
    match answer.status {
        200 if answer.is_cut => {
            Err(FetchError::Refused(format!("more than {} bytes", answer.body.len())))
        }
        200 => Ok(answer.body),
        404 | 410 => Err(FetchError::NotFound),
        status @ 500.. => Err(FetchError::Unreachable(said(status))),
        status => Err(FetchError::Refused(said(status))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_answer_is_a_file() {
        let of = |status, is_cut| {
            bytes_of(Answer { status, headers: Default::default(), body: b"file".to_vec(), is_cut })
        };
        assert_eq!(of(200, false), Ok(b"file".to_vec()));
        assert_eq!(of(200, true), Err(FetchError::Refused("more than 4 bytes".to_owned())));
        assert_eq!(of(404, false), Err(FetchError::NotFound));
        assert_eq!(of(410, false), Err(FetchError::NotFound));
        let moved = Err(FetchError::Refused("the registry answered 302".to_owned()));
        assert_eq!(of(302, false), moved, "where a redirect leads nobody has checked");
        let down = Err(FetchError::Unreachable("the registry answered 503".to_owned()));
        assert_eq!(of(503, false), down);
    }
}
