//! `cargo xtask dist`: what a release consists of. A Debian package, an archive, the list of what is in the binary, and
//! their digests. The same binary gives the same bytes: nothing here asks for the time, and lists are sorted.

mod manual;
mod packed;
mod sbom;
mod signed;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use clap::{Args, Subcommand};
use sha2::{Digest as _, Sha256};

use crate::{say, workspace};
use packed::{Item, deb, gzip, tarball};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    #[command(subcommand)]
    action: Option<Action>,
    /// Pack this binary instead of building one with the profile `dist`, which takes a quarter of an hour
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Folder for the results
    #[arg(long, value_name = "DIR", default_value = "target/dist")]
    out: PathBuf,
    /// Version of the package, where it is not the workspace's
    #[arg(long, value_name = "VERSION")]
    package_version: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Compare a release with its list of digests, and the list with its signature
    Verify {
        /// Folder with the files of the release
        folder: PathBuf,
        /// Public key of whoever releases, as 64 hexadecimal digits
        #[arg(long, value_name = "HEX")]
        key: String,
    },
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if let Some(Action::Verify { folder, key }) = &options.action {
        let files = signed::verify(folder, key)?;
        say::line(format_args!("{files} files are as they were signed"));
        return Ok(ExitCode::SUCCESS);
    }
    let root = workspace::root()?;
    let binary = match &options.binary {
        Some(binary) => binary.clone(),
        None => build(&root)?,
    };
    ensure!(binary.is_file(), "{} is not there", binary.display());
    let version = options.package_version.clone().unwrap_or(env!("CARGO_PKG_VERSION").to_owned());
    let is_plain = |c: char| c.is_ascii_alphanumeric() || ".+~-".contains(c);
    ensure!(!version.is_empty() && version.chars().all(is_plain), "{version} is no version");
    let architecture = architecture()?;
    let epoch = epoch(&root)?;
    let files = files(&root, &binary, &version)?;
    let out = root.join(&options.out);
    fs::create_dir_all(&out)?;
    let name = format!("callboard-{version}-linux-{architecture}");
    let inside: Vec<Item> = files.iter().map(|item| item.below(&name)).collect();
    let scripts = ["postinst", "prerm", "postrm"]
        .map(|script| Ok(Item::program(script, fs::read(root.join("packaging").join(script))?)));
    let scripts = scripts.into_iter().collect::<Result<Vec<_>>>()?;
    let control = control(&version, architecture, &files);
    let results = [
        (format!("callboard_{version}_{architecture}.deb"), deb(&control, scripts, &files, epoch)?),
        (format!("{name}.tar.gz"), gzip(&tarball(&inside, epoch)?)?),
        (format!("callboard-{version}.cdx.json"), sbom::document(&root, &version)?),
    ];
    let mut sums = String::new();
    for (name, bytes) in &results {
        fs::write(out.join(name), bytes)?;
        sums += &format!("{}  {name}\n", hex(&Sha256::digest(bytes)));
        say::line(format_args!("{} ({} KiB)", out.join(name).display(), bytes.len() / 1024));
    }
    fs::write(out.join(signed::SUMS), sums)?;
    match std::env::var(signed::KEY) {
        Ok(seed) => {
            let public = signed::sign(&out, &seed)?;
            say::line(format_args!(
                "signed; verify with: cargo xtask dist verify DIR --key {public}"
            ));
        }
        Err(_) => say::line(format_args!("not signed: {} is not set", signed::KEY)),
    }
    Ok(ExitCode::SUCCESS)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// With link-time optimisation and without symbols: smaller and a little faster, for a long build.
fn build(root: &Path) -> Result<PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--locked", "--profile", "dist", "--bin", "callboard"])
        .current_dir(root)
        .status()?;
    ensure!(status.success(), "the build failed");
    Ok(workspace::target(root)?.join("dist/callboard"))
}

/// As Debian calls it.
fn architecture() -> Result<&'static str> {
    match std::env::consts::ARCH {
        "x86_64" => Ok("amd64"),
        "aarch64" => Ok("arm64"),
        other => bail!("no Debian name for {other} is known here"),
    }
}

/// The time that every packed file gets: that of the last commit, or what reproducible builds set.
fn epoch(root: &Path) -> Result<u64> {
    if let Ok(set) = std::env::var("SOURCE_DATE_EPOCH") {
        return set.parse().context("SOURCE_DATE_EPOCH");
    }
    let output =
        Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root).output()?;
    String::from_utf8(output.stdout)?.trim().parse().context("the time of the last commit")
}

/// Everything that is installed, sorted by path.
fn files(root: &Path, binary: &Path, version: &str) -> Result<Vec<Item>> {
    let packaging = root.join("packaging");
    let doc = |name: &str| format!("usr/share/doc/callboard/{name}");
    let mut files = vec![
        Item::program("usr/bin/callboard", fs::read(binary)?),
        Item::file(
            "usr/lib/systemd/system/callboard.service",
            fs::read(packaging.join("callboard.service"))?,
        ),
        Item::file("etc/callboard/callboard.toml", fs::read(packaging.join("callboard.toml"))?),
        Item::file(doc("README.md"), fs::read(root.join("README.md"))?),
        Item::file(doc("changelog.gz"), gzip(&fs::read(root.join("CHANGELOG.md"))?)?),
        Item::file(
            doc("configuration.md"),
            fs::read(root.join("docs/reference/configuration.md"))?,
        ),
        Item::file(doc("operating.md"), fs::read(root.join("docs/guides/operating.md"))?),
        Item::file(doc("copyright"), copyright(root)?),
    ];
    for (shell, path) in [
        ("bash", "usr/share/bash-completion/completions/callboard"),
        ("zsh", "usr/share/zsh/vendor-completions/_callboard"),
        ("fish", "usr/share/fish/vendor_completions.d/callboard.fish"),
    ] {
        files.push(Item::file(path, said(binary, &["completions", shell])?.into_bytes()));
    }
    for (name, page) in manual::pages(binary, version)? {
        files.push(Item::file(format!("usr/share/man/man1/{name}.1.gz"), gzip(page.as_bytes())?));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn copyright(root: &Path) -> Result<Vec<u8>> {
    let mut text = fs::read(root.join("LICENSE-MIT"))?;
    text.extend_from_slice(b"\nor, at your option:\n\n");
    text.extend(fs::read(root.join("LICENSE-APACHE"))?);
    Ok(text)
}

/// What the binary prints, in an environment that says nothing.
fn said(binary: &Path, arguments: &[&str]) -> Result<String> {
    let output = Command::new(binary).env_clear().env("COLUMNS", "100").args(arguments).output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn control(version: &str, architecture: &str, files: &[Item]) -> String {
    let kibibytes = files.iter().map(|item| item.bytes.len()).sum::<usize>().div_ceil(1024);
    format!(
        "Package: callboard\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: Callboard maintainers <callboard@localhost>\n\
         Installed-Size: {kibibytes}\n\
         Depends: libc6, passwd\n\
         Recommends: ca-certificates\n\
         Section: net\n\
         Priority: optional\n\
         Description: host for standing AI agents\n \
         One process with durable runs, schedules, triggers, approvals and a console,\n \
         which any OpenWOP client can read.\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The package's binary is a script here: what is packed and how does not depend on it.
    #[test]
    fn two_packings_of_one_binary_give_the_same_bytes_and_dpkg_reads_them() -> Result<()> {
        let files = [
            Item::program("usr/bin/callboard", b"#!/bin/sh\n".to_vec()),
            Item::file("etc/callboard/callboard.toml", b"[server]\n".to_vec()),
        ];
        let control = control("1.2.3", "amd64", &files);
        let make = || {
            deb(
                &control,
                vec![Item::program("postinst", b"#!/bin/sh\n".to_vec())],
                &files,
                1_000_000_000,
            )
        };
        let (first, second) = (make()?, make()?);
        ensure!(first == second, "two packings differ");
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("callboard.deb");
        fs::write(&path, first)?;
        let Ok(output) = Command::new("dpkg-deb").arg("--contents").arg(&path).output() else {
            say::line("dpkg-deb is not there; the package was not read");
            return Ok(());
        };
        let listed = String::from_utf8(output.stdout)?;
        ensure!(
            listed.contains("-rwxr-xr-x root/root") && listed.contains(" usr/bin/callboard"),
            "{listed}"
        );
        let output = Command::new("dpkg-deb").arg("--field").arg(&path).arg("Version").output()?;
        ensure!(output.stdout == b"1.2.3\n", "{output:?}");
        Ok(())
    }
}
