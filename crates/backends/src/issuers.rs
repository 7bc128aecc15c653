//! Issuers of tokens, asked through the guarded client.

use std::time::Duration;

use async_trait::async_trait;

use callboard_engine::{IssuerAway, IssuerHttp};

use crate::egress::{Answer, Egress, EgressError, Method, Outgoing};

/// A request of somebody waits for it.
const WITHIN: Duration = Duration::from_secs(5);

#[async_trait]
impl IssuerHttp for Egress {
    async fn get(&self, url: &str, most: usize) -> Result<Vec<u8>, IssuerAway> {
        let answer = ask(self, Method::Get, url, Vec::new(), Vec::new(), most).await?;
        match answer.status {
            200 if answer.is_cut => {
                Err(IssuerAway(format!("its answer has more than {most} bytes")))
            }
            200 => Ok(answer.body),
            status => Err(IssuerAway(format!("it answered {status}"))),
        }
    }

    async fn post_form(
        &self,
        url: &str,
        form: String,
        authorization: Option<String>,
        most: usize,
    ) -> Result<(u16, Vec<u8>), IssuerAway> {
        let mut headers =
            vec![("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned())];
        headers.extend(authorization.map(|value| ("authorization".to_owned(), value)));
        let answer = ask(self, Method::Post, url, headers, form.into_bytes(), most).await?;
        if answer.is_cut {
            return Err(IssuerAway(format!("its answer has more than {most} bytes")));
        }
        Ok((answer.status, answer.body))
    }
}

async fn ask(
    egress: &Egress,
    method: Method,
    url: &str,
    mut headers: Vec<(String, String)>,
    body: Vec<u8>,
    most: usize,
) -> Result<Answer, IssuerAway> {
    let agent = concat!("callboard/", env!("CARGO_PKG_VERSION"));
    headers.push(("user-agent".to_owned(), agent.to_owned()));
    headers.push(("accept".to_owned(), "application/json".to_owned()));
    let outgoing = Outgoing { method, url: url.to_owned(), headers, body, within: WITHIN, most };
    egress.send(outgoing).await.map_err(|error| match error {
        EgressError::Refused(why) | EgressError::NoAnswer(why) => IssuerAway(why),
    })
}
