//! The workspace as cargo and the file system see it.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

/// The folder of the workspace's own Cargo.toml.
pub(crate) fn root() -> Result<PathBuf> {
    // Cargo sets the variable for `cargo run` and `cargo test`; the compiled-in path serves a bare call.
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    let root = package.parent().context("xtask has no parent folder")?;
    ensure!(root.join("Cargo.toml").is_file(), "{} is not the workspace", root.display());
    Ok(root.to_owned())
}

/// The protocol's data beside the checkout.
pub(crate) fn openwop(root: &Path) -> PathBuf {
    root.join("../shared/openwop")
}

/// Whether CI demands that this part be there.
pub(crate) fn requires(part: &str) -> bool {
    env::var("CALLBOARD_TEST_REQUIRE")
        .is_ok_and(|parts| parts.split(',').any(|named| named.trim() == part))
}

#[derive(Debug, Clone)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Normal,
    Build,
    Dev,
}

/// Where cargo puts what it builds.
pub(crate) fn target(root: &Path) -> Result<PathBuf> {
    let metadata = metadata(root)?;
    Ok(metadata["target_directory"]
        .as_str()
        .context("cargo metadata names no target folder")?
        .into())
}

/// The packages of the workspace with what their manifests ask for.
pub(crate) fn members(root: &Path) -> Result<Vec<Member>> {
    let metadata = metadata(root)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    packages.iter().map(member).collect()
}

fn metadata(root: &Path) -> Result<Value> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()?;
    if !output.status.success() {
        bail!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

fn member(package: &Value) -> Result<Member> {
    let name = package["name"].as_str().context("a package without a name")?.to_owned();
    let listed = package["dependencies"].as_array().context("a package without dependencies")?;
    let dependencies = listed
        .iter()
        .filter_map(|dependency| {
            let role = match dependency["kind"].as_str() {
                None => Role::Normal,
                Some("build") => Role::Build,
                Some(_) => Role::Dev,
            };
            Some(Dependency { name: dependency["name"].as_str()?.to_owned(), role })
        })
        .collect();
    Ok(Member { name, dependencies })
}

/// A text file of the project, its path relative to the root and with forward slashes. Pictures are listed, so that
/// links to them can be checked, with an empty text.
#[derive(Debug, Clone)]
pub(crate) struct TextFile {
    pub(crate) path: String,
    pub(crate) text: String,
}

const TEXT: [&str; 11] =
    ["rs", "md", "toml", "sql", "json", "jsonl", "sh", "yaml", "snap", "py", "ts"];

/// Every text file that belongs to the project, in the order of their paths.
pub(crate) fn files(root: &Path) -> Result<Vec<TextFile>> {
    let mut found = Vec::new();
    walk(root, root, &mut found)?;
    found.sort_by(|left, right| left.path.cmp(&right.path));
    Ok(found)
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<TextFile>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            // Hidden folders are tools' own, except the two that hold our settings.
            let ours = !name.starts_with('.') || matches!(name.as_str(), ".cargo" | ".ci");
            if ours && !matches!(name.as_str(), "target" | "node_modules" | "callboard-data") {
                walk(root, &path, found)?;
            }
            continue;
        }
        let extension = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        let is_text = TEXT.contains(&extension.as_str()) || path.ends_with(".ci/run");
        if is_text || extension == "png" {
            let relative = path.strip_prefix(root)?.to_string_lossy().replace('\\', "/");
            let text = if is_text {
                fs::read_to_string(&path).with_context(|| relative.clone())?
            } else {
                String::new()
            };
            found.push(TextFile { path: relative, text });
        }
    }
    Ok(())
}
