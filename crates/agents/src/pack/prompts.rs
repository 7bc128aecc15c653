//! Packs of prompts: every template is checked before any is used.

use std::collections::BTreeSet;

use callboard_protocol::{
    PackManifest, PromptMeta, PromptOrigin, PromptPackManifest, PromptTemplate, ShapeError,
    VersionRange, parse_value,
};

use super::Pack;
use crate::error::PackError;

/// Reads `pack.json` of kind `prompt`. Its templates say which pack they came in.
pub(super) fn read(bytes: &[u8]) -> Result<PackManifest, PackError> {
    let mut declared = PromptPackManifest::parse(bytes).map_err(PackError::Manifest)?;
    let mut templates = Vec::with_capacity(declared.prompts.len());
    for (place, value) in std::mem::take(&mut declared.prompts).into_iter().enumerate() {
        let wrong = |why: ShapeError| PackError::PromptTemplate { place, why };
        let template: PromptTemplate = parse_value(value).map_err(wrong)?;
        template.check().map_err(wrong)?;
        templates.push(template);
    }
    let mut seen = BTreeSet::new();
    for (place, template) in templates.iter().enumerate() {
        if !seen.insert((&template.template_id, &template.version)) {
            let (path, message) = ("templateId".to_owned(), "is there twice".to_owned());
            return Err(PackError::PromptTemplate { place, why: ShapeError { path, message } });
        }
    }
    let mut manifest = declared.with(templates).map_err(PackError::Manifest)?;
    let (name, version) = (manifest.name.to_string(), manifest.version.to_string());
    for template in &mut manifest.prompts {
        template.meta = Some(PromptMeta {
            author: template.meta.take().and_then(|meta| meta.author),
            source: Some(PromptOrigin::Pack),
            pack_name: Some(name.clone()),
            pack_version: Some(version.clone()),
            ..PromptMeta::default()
        });
    }
    Ok(manifest)
}

/// Refuses a pack of prompts that builds on a pack which is not there.
pub(crate) fn check_dependencies<'a>(
    pack: &Pack,
    there: impl Iterator<Item = &'a Pack> + Clone,
) -> Result<(), PackError> {
    if pack.manifest.prompts.is_empty() {
        return Ok(());
    }
    for (name, wanted) in &pack.manifest.dependencies {
        let range: Option<VersionRange> = wanted.parse().ok();
        let fits = |other: &Pack| {
            let is_wanted = |range: &VersionRange| range.includes(other.version().as_str());
            other.name().as_str() == name && range.as_ref().is_some_and(is_wanted)
        };
        if !there.clone().any(fits) {
            let (name, wanted) = (name.clone(), wanted.clone());
            return Err(PackError::PromptDependency { name, wanted });
        }
    }
    Ok(())
}
