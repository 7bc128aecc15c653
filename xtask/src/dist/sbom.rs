//! The list of everything that is compiled into the binary, as CycloneDX: name, version, licence, digest of the source.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

pub(super) fn document(root: &Path, version: &str) -> Result<Vec<u8>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--locked"])
        .current_dir(root)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let checksums = checksums(&fs::read_to_string(root.join("Cargo.lock"))?);
    let packages = metadata["packages"].as_array().context("no packages")?;
    let package = |id: &str| packages.iter().find(|package| package["id"] == id);
    let mut components = Vec::new();
    for id in compiled_in(&metadata)? {
        let package = package(&id).context("a package that is not listed")?;
        components.push(component(package, &checksums)?);
    }
    components.sort_by_key(|it| it["purl"].as_str().unwrap_or_default().to_owned());
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": {
            "type": "application",
            "name": "callboard",
            "version": version,
            "purl": format!("pkg:cargo/callboard@{version}"),
        } },
        "components": components,
    });
    Ok(serde_json::to_vec_pretty(&document)?)
}

/// What is reached from the binary without dependencies of tests.
fn compiled_in(metadata: &Value) -> Result<BTreeSet<String>> {
    let nodes = metadata["resolve"]["nodes"].as_array().context("no resolved graph")?;
    let edges: BTreeMap<&str, Vec<&str>> = nodes
        .iter()
        .filter_map(|node| {
            let below = node["deps"].as_array()?.iter().filter(|it| is_compiled(it));
            Some((node["id"].as_str()?, below.filter_map(|it| it["pkg"].as_str()).collect()))
        })
        .collect();
    let packages = metadata["packages"].as_array().context("no packages")?;
    let binary = packages.iter().find(|package| package["name"] == "callboard");
    let binary = binary.and_then(|it| it["id"].as_str()).context("no package callboard")?;
    let mut found = BTreeSet::new();
    let mut next = VecDeque::from([binary]);
    while let Some(id) = next.pop_front() {
        for below in edges.get(id).into_iter().flatten() {
            if found.insert((*below).to_owned()) {
                next.push_back(below);
            }
        }
    }
    Ok(found)
}

fn is_compiled(dependency: &Value) -> bool {
    let kinds = dependency["dep_kinds"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().any(|it| it["kind"] != "dev"))
}

fn component(package: &Value, checksums: &BTreeMap<String, String>) -> Result<Value> {
    let name = package["name"].as_str().context("a package without a name")?;
    let version = package["version"].as_str().context("a package without a version")?;
    let mut component = json!({
        "type": "library",
        "name": name,
        "version": version,
        "purl": format!("pkg:cargo/{name}@{version}"),
    });
    if let Some(license) = package["license"].as_str() {
        // The form of old manifests, which is no expression.
        component["licenses"] = json!([{ "expression": license.replace('/', " OR ") }]);
    }
    if let Some(checksum) = checksums.get(&format!("{name} {version}")) {
        component["hashes"] = json!([{ "alg": "SHA-256", "content": checksum }]);
    }
    Ok(component)
}

/// Digests by name and version, as the lock file has them.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let field = |block: &str, name: &str| {
        let start = format!("{name} = \"");
        let line = block.lines().find_map(|line| line.strip_prefix(&start))?;
        line.strip_suffix('"').map(str::to_owned)
    };
    let entry = |block: &str| {
        let (name, version) = (field(block, "name")?, field(block, "version")?);
        Some((format!("{name} {version}"), field(block, "checksum")?))
    };
    lock.split("[[package]]").filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn the_list_has_what_is_compiled_in_and_nothing_of_the_tests() -> Result<()> {
        let document: Value = serde_json::from_slice(&document(&workspace::root()?, "1.2.3")?)?;
        let components = document["components"].as_array().context("components")?;
        let names: Vec<&str> = components.iter().filter_map(|it| it["name"].as_str()).collect();
        ensure!(names.contains(&"rusqlite") && names.contains(&"callboard-core"), "{names:?}");
        ensure!(!names.contains(&"insta") && !names.contains(&"assert_cmd"), "{names:?}");
        let sqlite = components.iter().find(|it| it["name"] == "rusqlite").context("rusqlite")?;
        ensure!(
            sqlite["hashes"][0]["content"].as_str().is_some_and(|it| it.len() == 64),
            "{sqlite}"
        );
        ensure!(sqlite["licenses"][0]["expression"] == "MIT", "{sqlite}");
        Ok(())
    }
}
