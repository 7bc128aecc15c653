//! TLS to a real server, with certificates that the test makes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde_json::json;
use tempfile::TempDir;

use crate::database::Database;
use crate::host::KEY;
use crate::stage::{LONG_LEASE, command_on, finish, host_on};
use crate::{register, workflow};

fn openssl(folder: &Path, arguments: &[&str]) -> Result<()> {
    let output = Command::new("openssl").args(arguments).current_dir(folder).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// An authority of this name, whose certificate is the answer.
fn authority(folder: &Path, name: &str) -> Result<PathBuf> {
    let (key, certificate) = (format!("{name}.key"), format!("{name}.crt"));
    let subject = format!("/CN={name}");
    openssl(
        folder,
        &[
            "req",
            "-x509",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-days",
            "2",
            "-subj",
            &subject,
            "-keyout",
            &key,
            "-out",
            &certificate,
        ],
    )?;
    Ok(folder.join(certificate))
}

/// A server's certificate for `localhost` alone.
fn certify(folder: &Path, by: &str) -> Result<(Vec<u8>, Vec<u8>)> {
    std::fs::write(folder.join("names"), "subjectAltName=DNS:localhost\n")?;
    openssl(
        folder,
        &[
            "req",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-subj",
            "/CN=localhost",
            "-keyout",
            "server.key",
            "-out",
            "server.csr",
        ],
    )?;
    let (certificate, key) = (format!("{by}.crt"), format!("{by}.key"));
    openssl(
        folder,
        &[
            "x509",
            "-req",
            "-in",
            "server.csr",
            "-days",
            "2",
            "-CA",
            &certificate,
            "-CAkey",
            &key,
            "-CAcreateserial",
            "-extfile",
            "names",
            "-out",
            "server.crt",
        ],
    )?;
    Ok((std::fs::read(folder.join("server.crt"))?, std::fs::read(folder.join("server.key"))?))
}

/// `verify-full` against the right authority and name; another name and another authority are refused at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_verified_or_refused() -> Result<()> {
    let Some(mut database) = Database::start()? else { return Ok(()) };
    crate::server::connect(&database.address()).await?;
    let folder = TempDir::new()?;
    let (ours, others) = (authority(folder.path(), "ours")?, authority(folder.path(), "others")?);
    let (certificate, key) = certify(folder.path(), "ours")?;
    for (setting, name, bytes) in
        [("ssl_cert_file", "server.crt", certificate), ("ssl_key_file", "server.key", key)]
    {
        let path = database.file(name, &bytes)?;
        database.set(format!("{setting}={}", path.display()));
    }
    database.set("ssl=on".to_owned());
    database.crash()?;
    database.come_up()?;
    crate::server::connect(&database.address()).await?;

    let address = |name: &str, authority: &Path| {
        let address = database.address().replace("127.0.0.1", name);
        format!("{address}?sslmode=verify-full&sslrootcert={}", authority.display())
    };
    let (_host, api) = host_on(&folder, "one", &address("localhost", &ours), LONG_LEASE)?;
    register(&api, &workflow("noop", "core.noop", json!({}))).await?;
    let run = api.create(&json!({ "workflowId": "noop" }), "once").await?;
    ensure!(finish(&api, &run).await? == "completed");
    for (name, refused) in [
        ("of-another-name", address("127.0.0.1", &ours)),
        ("of-another-authority", address("localhost", &others)),
    ] {
        let started = Instant::now();
        let output = command_on(&folder, name, &refused, LONG_LEASE).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.code() == Some(1), "{name}: {said}");
        ensure!(said.contains("certificate") && !said.contains(KEY), "{name}: {said}");
        ensure!(started.elapsed() < Duration::from_secs(15), "{name} was waited for: {said}");
    }
    Ok(())
}
