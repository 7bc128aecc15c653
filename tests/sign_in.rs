//! Signing in at the console with an issuer, and TLS in the process: from the browser's side, against the real binary.

#[path = "sign_in/certificate.rs"]
mod certificate;
#[expect(dead_code, reason = "these hosts are started from a command of their own")]
#[path = "support/host.rs"]
mod host;
#[path = "sign_in/issuer.rs"]
mod issuer;

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::tls::TlsInfo;
use reqwest::{Client, Response, Url};
use serde_json::{Value, json};

use certificate::Pair;
use host::{Host, KEY, serve};
use issuer::{Issuer, Trick};

/// Much longer than a reload takes.
const PATIENCE: Duration = Duration::from_secs(30);

fn browser() -> Result<Client> {
    let client = Client::builder().no_proxy().redirect(Policy::none());
    // The certificate is looked at by the test itself.
    Ok(client.danger_accept_invalid_certs(true).tls_info(true).build()?)
}

fn cookies(response: &Response) -> Vec<String> {
    let all = response.headers().get_all(SET_COOKIE).iter();
    all.filter_map(|value| value.to_str().ok()).map(str::to_owned).collect()
}

/// The name and the value of a cookie, as a browser sends them.
fn cookie(response: &Response, name: &str) -> Result<String> {
    let all = cookies(response);
    let found = all.iter().find(|it| it.starts_with(&format!("{name}=")));
    let found = found.with_context(|| format!("no {name} in {all:?}"))?;
    Ok(found.split(';').next().unwrap_or_default().to_owned())
}

fn location(response: &Response) -> Result<String> {
    let location = response.headers().get(LOCATION).context("no Location")?;
    Ok(location.to_str()?.to_owned())
}

fn configuration(issuer: &Issuer) -> String {
    format!(
        "[oidc.main]\nissuer = \"{}\"\naudience = \"callboard\"\nallow_private = true\nroles_claim = \"groups\"\n\
         client_id = \"console\"\nclient_secret_env = \"LOGIN_SECRET\"\ntitle = \"Acme\"\n",
        issuer.url
    )
}

fn start(folder: &Path, issuer: &Issuer) -> Result<Host> {
    std::fs::write(folder.join("callboard.toml"), configuration(issuer))?;
    let mut command = serve(&folder.join("data"));
    command.env("LOGIN_SECRET", "s3cret+/").args(["--api-key", KEY, "--test-seams"]);
    Host::of(command)
}

async fn put_role(browser: &Client, host: &Host, scopes: &[&str]) -> Result<()> {
    let path = format!("{}/v1/host/callboard/roles/desk", host.url());
    let put = browser.put(path).bearer_auth(KEY).json(&json!({ "scopes": scopes })).send().await?;
    ensure!(put.status().is_success(), "{}", put.text().await?);
    Ok(())
}

/// As far as the issuer's answer: the address that it sends the browser back to, and the cookie of who began.
async fn as_far_as_the_answer(
    browser: &Client,
    host: &Host,
    next: &str,
) -> Result<(String, String)> {
    let begin = format!("{}/console/oidc/main?next={next}", host.url());
    let left = browser.get(begin).send().await?;
    ensure!(left.status() == 303, "{left:?}");
    let kept = cookies(&left);
    let is_safe = |it: &String| it.contains("HttpOnly") && it.contains("SameSite=Lax");
    ensure!(kept.len() == 1 && kept.iter().all(is_safe), "{kept:?}");
    let page = location(&left)?;
    let asked = Url::parse(&page)?;
    let says = |name: &str| {
        asked.query_pairs().find(|(own, _)| own == name).map(|(_, value)| value.into_owned())
    };
    ensure!(says("code_challenge_method").as_deref() == Some("S256"), "{page}");
    ensure!(says("response_type").as_deref() == Some("code"), "{page}");
    let answered = browser.get(page).send().await?;
    Ok((location(&answered)?, cookie(&left, "callboard_sign_on")?))
}

async fn come_back(browser: &Client, to: &str, kept: &str) -> Result<Response> {
    Ok(browser.get(to).header(COOKIE, kept).send().await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn somebody_signs_in_at_the_console_and_is_out_when_the_role_is_gone() -> Result<()> {
    let (folder, issuer, browser) = (tempfile::tempdir()?, Issuer::start()?, browser()?);
    let host = start(folder.path(), &issuer)?;
    put_role(&browser, &host, &["runs:read", "manifest:read"]).await?;
    let page =
        browser.get(format!("{}/console/login?next=/console/runs", host.url())).send().await?;
    let page = page.text().await?;
    ensure!(
        page.contains("Sign in with Acme") && page.contains("/console/oidc/main?next="),
        "{page}"
    );

    let (back, kept) = as_far_as_the_answer(&browser, &host, "/console/runs").await?;
    // Another browser, and an answer to another question.
    ensure!(browser.get(&back).send().await?.status() == 403);
    let other = back.replace("state=", "state=x");
    ensure!(come_back(&browser, &other, &kept).await?.status() == 403);
    let signed_in = come_back(&browser, &back, &kept).await?;
    ensure!(signed_in.status() == 200, "{}", signed_in.text().await?);
    let session = cookie(&signed_in, "callboard_session")?;
    let all = cookies(&signed_in);
    let own = all.iter().find(|it| it.starts_with("callboard_session=")).context("a session")?;
    ensure!(own.contains("HttpOnly") && own.contains("SameSite=Strict"), "{own}");
    ensure!(all.iter().any(|it| it.starts_with("callboard_sign_on=;")), "{all:?}");
    ensure!(signed_in.text().await?.contains("0;url=/console/runs"));
    ensure!(come_back(&browser, &back, &kept).await?.status() == 403, "a code is used once");

    let runs =
        || browser.get(format!("{}/console/runs", host.url())).header(COOKIE, &session).send();
    let shown = runs().await?;
    ensure!(shown.status() == 200, "{}", shown.text().await?);
    let keys = format!("{}/v1/host/callboard/keys", host.url());
    let listed: Value = browser.get(&keys).bearer_auth(KEY).send().await?.json().await?;
    let line =
        listed["keys"].as_array().context("keys")?.iter().find(|it| it["origin"] == "issuer");
    ensure!(line.context("somebody")?["name"] == "ada@example.com", "{listed}");
    let path = format!("{}/v1/host/callboard/roles/desk", host.url());
    ensure!(browser.delete(path).bearer_auth(KEY).send().await?.status() == 204);
    let gone = runs().await?;
    ensure!(gone.status() == 303 && location(&gone)?.starts_with("/console/login"), "{gone:?}");
    put_role(&browser, &host, &["runs:read", "manifest:read"]).await?;
    ensure!(runs().await?.status() == 303, "a session that has ended stays so");
    ensure!(!host.log().contains("s3cret"), "{}", host.log());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_token_that_is_not_for_this_sign_in_signs_nobody_in() -> Result<()> {
    let (folder, issuer, browser) = (tempfile::tempdir()?, Issuer::start()?, browser()?);
    let host = start(folder.path(), &issuer)?;
    put_role(&browser, &host, &["runs:read"]).await?;
    for trick in [
        Trick::OtherNonce,
        Trick::OtherAudience,
        Trick::OtherParty,
        Trick::Unsigned,
        Trick::Expired,
        Trick::NoGroups,
        Trick::NoToken,
    ] {
        issuer.plays(trick);
        let (back, kept) = as_far_as_the_answer(&browser, &host, "/").await?;
        let refused = come_back(&browser, &back, &kept).await?;
        ensure!(refused.status() == 403, "{trick:?}: {refused:?}");
        let cookies = cookies(&refused);
        ensure!(!cookies.iter().any(|it| it.starts_with("callboard_session")), "{trick:?}");
        ensure!(refused.text().await?.contains("role=\"alert\""), "{trick:?}");
    }
    issuer.plays(Trick::None);
    let (back, kept) = as_far_as_the_answer(&browser, &host, "//evil.example").await?;
    let signed_in = come_back(&browser, &back, &kept).await?;
    ensure!(signed_in.text().await?.contains("\"0;url=/\""), "it leads nowhere else");
    let declined = format!("{}&error=access_denied", back.replace("code=", "x="));
    ensure!(come_back(&browser, &declined, &kept).await?.status() == 403);
    let nobody = browser.get(format!("{}/console/oidc/other", host.url())).send().await?;
    ensure!(nobody.status() == 404, "{nobody:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_starts_and_serves_keys_while_its_issuer_is_away() -> Result<()> {
    let (folder, issuer, browser) = (tempfile::tempdir()?, Issuer::start()?, browser()?);
    issuer.stops();
    let host = start(folder.path(), &issuer)?;
    let who = browser.get(format!("{}/v1/host/callboard/whoami", host.url())).bearer_auth(KEY);
    ensure!(who.send().await?.status() == 200);
    let away = browser.get(format!("{}/console/oidc/main", host.url())).send().await?;
    ensure!(away.status() == 503, "{away:?}");
    Ok(())
}

/// What the host shows whoever connects now.
async fn shown(host: &Host) -> Result<Vec<u8>> {
    // A connection of its own: one that goes on shows what it began with.
    let answer = browser()?.get(format!("{}/healthz", host.url())).send().await?;
    ensure!(answer.status() == 200);
    let info = answer.extensions().get::<TlsInfo>().context("no TLS")?;
    Ok(info.peer_certificate().context("no certificate")?.to_vec())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_is_renewed_without_a_stop_and_a_wrong_one_changes_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (first, second) = (Pair::make()?, Pair::make()?);
    let cert = folder.path().join("cert.pem");
    let key = folder.path().join("key.pem");
    let write = |pair: &Pair| -> Result<()> {
        std::fs::write(&cert, &pair.certificate)?;
        Ok(std::fs::write(&key, &pair.key)?)
    };
    let config = "[server.tls]\ncert = \"cert.pem\"\nkey = \"key.pem\"\n";
    std::fs::write(folder.path().join("callboard.toml"), config)?;
    let serving = || {
        let mut command = serve(&folder.path().join("data"));
        command.args(["--api-key", KEY]);
        command
    };
    // A pair that does not fit keeps the host from starting, and says which files.
    std::fs::write(&cert, &first.certificate)?;
    std::fs::write(&key, &second.key)?;
    let refused = serving().output()?;
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    ensure!(
        !refused.status.success() && said.contains("the key is not the certificate's"),
        "{said}"
    );

    write(&first)?;
    let host = Host::of(serving())?;
    ensure!(host.url().starts_with("https://127.0.0.1:"), "{}", host.url());
    ensure!(shown(&host).await? == first.der);
    let reload = async || -> Result<(u16, Value)> {
        let path = format!("{}/v1/host/callboard/reload", host.url());
        let answer = browser()?.post(path).bearer_auth(KEY).send().await?;
        Ok((answer.status().as_u16(), answer.json().await?))
    };
    std::fs::write(&cert, "nothing")?;
    let (status, said) = reload().await?;
    ensure!(status == 422 && said.to_string().contains("no certificate"), "{status} {said}");
    ensure!(shown(&host).await? == first.der, "the one before stays");
    write(&second)?;
    host.signal("HUP")?;
    let deadline = Instant::now() + PATIENCE;
    while shown(&host).await? != second.der {
        ensure!(Instant::now() < deadline, "SIGHUP renews nothing: {}", host.log());
    }
    let plain = browser()?.get(host.url().replace("https://", "http://")).send().await;
    ensure!(plain.is_err(), "without TLS there is nothing");
    ensure!(host.stop("TERM")?.success());
    Ok(())
}
