//! The templates that can be named in a scope: the host's own, those on the shelf of its workspace, the whole tenant's,
//! those of packs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use callboard_engine::{Prompts, Realm, Scope, Store, StoreError};
use callboard_protocol::{
    PackVersion, PromptMeta, PromptOrigin, PromptRef, PromptTemplate, Timestamp,
};

use crate::inventory::AgentRegistry;

/// All templates of a host.
#[derive(Debug, Clone)]
pub struct PromptLibrary {
    store: Prompts,
    /// Every version that the host brings along, by id, the oldest first.
    built_in: Arc<BTreeMap<String, Vec<PromptTemplate>>>,
    /// The templates of installed packs.
    packs: Option<Arc<AgentRegistry>>,
}

/// What every host brings along.
pub fn built_in_prompts() -> Vec<PromptTemplate> {
    let brief = "Answer in as few words as the question allows. Say so where you do not know.";
    let json_only = "Answer with one JSON value that matches the schema, and with nothing else.";
    [("callboard.brief", "system", brief), ("callboard.json-only", "schema-hint", json_only)]
        .into_iter()
        .filter_map(|(id, kind, text)| {
            let template =
                json!({ "templateId": id, "version": "1.0.0", "kind": kind, "text": text });
            serde_json::from_value(template).ok()
        })
        .collect()
}

/// Why a library does not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error("there is no prompt {0}, or none that you may see")]
    NotFound(String),
    #[error("several packs have a prompt {0}; name one as libraryId")]
    Ambiguous(String),
    #[error("there is a prompt {0} already")]
    Exists(String),
    #[error("prompt {0} is the host's own or a pack's, and does not change")]
    ReadOnly(String),
    #[error("prompt {0} is the whole tenant's; change it with a key that has no workspace")]
    OfTenant(String),
    #[error("version {given} must be greater than {stored}")]
    NotNewer { given: PackVersion, stored: PackVersion },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl PromptLibrary {
    /// A library with the host's own templates; the last of one id and version wins.
    pub fn new(store: Arc<dyn Store>, built_in: impl IntoIterator<Item = PromptTemplate>) -> Self {
        let mut shelves: BTreeMap<String, Vec<PromptTemplate>> = BTreeMap::new();
        for mut template in built_in {
            template.meta.get_or_insert_default().source = Some(PromptOrigin::Host);
            let versions = shelves.entry(template.template_id.clone()).or_default();
            versions.retain(|known| known.version != template.version);
            versions.push(template);
            versions.sort_by(|a, b| a.version.cmp(&b.version));
        }
        Self { store: Prompts::new(store), built_in: Arc::new(shelves), packs: None }
    }

    /// The same library with what packs bring.
    #[must_use]
    pub fn with_packs(self, packs: Arc<AgentRegistry>) -> Self {
        Self { packs: Some(packs), ..self }
    }

    /// The template that a ref names: exactly its version, or the newest.
    pub async fn find(
        &self,
        reader: &Scope,
        reference: &PromptRef,
    ) -> Result<PromptTemplate, LibraryError> {
        let id = reference.template_id.as_str();
        let versions = match &reference.library_id {
            Some(pack) => self.of_packs(&reader.realm(), id, Some(pack.as_str()))?,
            None => self.versions(reader, id).await?.1,
        };
        let wanted = reference.version.as_ref();
        let found = match wanted {
            Some(wanted) => versions.into_iter().find(|it| it.version == *wanted),
            None => versions.into_iter().last(),
        };
        found.ok_or_else(|| LibraryError::NotFound(reference.as_text()))
    }

    /// The newest version of everything that a reader can see, by id.
    pub async fn list(&self, reader: &Scope) -> Result<Vec<PromptTemplate>, LibraryError> {
        let mut seen: BTreeMap<String, PromptTemplate> = BTreeMap::new();
        for (id, versions) in self.built_in.iter() {
            if let Some(newest) = versions.last() {
                seen.insert(id.clone(), newest.clone());
            }
        }
        for shelf in reader.shelves() {
            for template in self.store.newest_prompts(&shelf).await? {
                seen.entry(template.template_id.clone()).or_insert(template);
            }
        }
        if let Some(packs) = &self.packs {
            for template in packs.snapshot().prompts(&reader.realm()) {
                let id = &template.template_id;
                match seen.get_mut(id) {
                    None => drop(seen.insert(id.clone(), template.clone())),
                    Some(known) if is_of_pack(known) && known.version < template.version => {
                        *known = template.clone();
                    }
                    Some(_) => {}
                }
            }
        }
        Ok(seen.into_values().collect())
    }

    /// Adds a template with a new id.
    pub async fn create(
        &self,
        reader: &Scope,
        template: PromptTemplate,
        author: Option<String>,
        at: Timestamp,
    ) -> Result<PromptTemplate, LibraryError> {
        let (_, versions) = self.versions(reader, &template.template_id).await?;
        if !versions.is_empty() {
            return Err(LibraryError::Exists(template.template_id));
        }
        let meta = PromptMeta {
            author,
            created_at: Some(at.to_string()),
            source: Some(PromptOrigin::User),
            ..PromptMeta::default()
        };
        self.put(reader, template, meta, 0).await
    }

    /// Adds a newer version. Older ones stay for those who name them.
    pub async fn update(
        &self,
        reader: &Scope,
        template: PromptTemplate,
        at: Timestamp,
    ) -> Result<PromptTemplate, LibraryError> {
        let id = template.template_id.clone();
        let (shelf, versions) = self.versions(reader, &id).await?;
        let newest = versions.last().ok_or_else(|| LibraryError::NotFound(id.clone()))?;
        let shelf = own(reader, shelf, &id)?;
        if template.version <= newest.version {
            let (given, stored) = (template.version, newest.version.clone());
            return Err(LibraryError::NotNewer { given, stored });
        }
        let first = newest.meta.clone().unwrap_or_default();
        let meta = PromptMeta { updated_at: Some(at.to_string()), ..first };
        self.put(&shelf, template, meta, versions.len()).await
    }

    pub async fn remove(&self, reader: &Scope, id: &str) -> Result<(), LibraryError> {
        let (shelf, versions) = self.versions(reader, id).await?;
        if versions.is_empty() {
            return Err(LibraryError::NotFound(id.to_owned()));
        }
        let shelf = own(reader, shelf, id)?;
        self.store.remove_prompt(&shelf, id).await?;
        Ok(())
    }

    async fn put(
        &self,
        shelf: &Scope,
        template: PromptTemplate,
        meta: PromptMeta,
        expected: usize,
    ) -> Result<PromptTemplate, LibraryError> {
        let template = PromptTemplate { meta: Some(meta), ..template };
        self.store.put_prompt(shelf, template.clone(), expected).await?;
        Ok(template)
    }

    /// All versions of the first template of this id that a reader meets, with the shelf that it stands on.
    async fn versions(
        &self,
        reader: &Scope,
        id: &str,
    ) -> Result<(Option<Scope>, Vec<PromptTemplate>), LibraryError> {
        if let Some(versions) = self.built_in.get(id) {
            return Ok((None, versions.clone()));
        }
        for shelf in reader.shelves() {
            let versions = self.store.prompt_versions(&shelf, id).await?;
            if !versions.is_empty() {
                return Ok((Some(shelf), versions));
            }
        }
        Ok((None, self.of_packs(&reader.realm(), id, None)?))
    }

    /// All versions of a template that came in packs, or in one pack, the oldest first.
    fn of_packs(
        &self,
        realm: &Realm,
        id: &str,
        pack: Option<&str>,
    ) -> Result<Vec<PromptTemplate>, LibraryError> {
        let Some(packs) = &self.packs else { return Ok(Vec::new()) };
        let snapshot = packs.snapshot();
        let mut found: BTreeMap<PackVersion, PromptTemplate> = BTreeMap::new();
        let mut names = BTreeSet::new();
        for template in snapshot.prompts(realm) {
            let name = template.meta.as_ref().and_then(|meta| meta.pack_name.as_deref());
            if template.template_id != id || pack.is_some_and(|pack| name != Some(pack)) {
                continue;
            }
            names.insert(name);
            found.entry(template.version.clone()).or_insert_with(|| template.clone());
        }
        match names.len() {
            0 | 1 => Ok(found.into_values().collect()),
            _ => Err(LibraryError::Ambiguous(id.to_owned())),
        }
    }
}

/// The owner of a template, if it may be changed from here: a caller changes only what is in its own scope.
fn own(reader: &Scope, shelf: Option<Scope>, id: &str) -> Result<Scope, LibraryError> {
    match shelf {
        None => Err(LibraryError::ReadOnly(id.to_owned())),
        Some(shelf) if shelf == *reader => Ok(shelf),
        Some(_) => Err(LibraryError::OfTenant(id.to_owned())),
    }
}

fn is_of_pack(template: &PromptTemplate) -> bool {
    template.meta.as_ref().and_then(|meta| meta.source) == Some(PromptOrigin::Pack)
}

#[cfg(test)]
mod tests {
    use callboard_engine::{InMemoryStore, KeyMode};

    use super::*;

    fn template(id: &str, version: &str) -> PromptTemplate {
        let text = format!("{id} {version}");
        let value = json!({ "templateId": id, "version": version, "kind": "user", "text": text });
        serde_json::from_value(value).unwrap()
    }

    fn reference(text: &str) -> PromptRef {
        PromptRef::read(&json!(text)).unwrap()
    }

    fn scope(workspace: Option<&str>) -> Scope {
        let workspace = workspace.map(Into::into);
        Scope { tenant: "acme".into(), workspace, mode: KeyMode::Live }
    }

    fn library() -> PromptLibrary {
        PromptLibrary::new(Arc::new(InMemoryStore::new()), built_in_prompts())
    }

    #[tokio::test]
    async fn a_version_that_is_named_stays_what_it_was() {
        let (library, reader) = (library(), &scope(None));
        let at = Timestamp::from_millis(1);
        library.create(reader, template("w", "1.9.0"), None, at).await.unwrap();
        for same_or_older in ["1.9.0", "1.10.0-rc.1", "0.9.9"] {
            let refused = library.update(reader, template("w", same_or_older), at).await;
            let is_newer = same_or_older == "1.10.0-rc.1";
            assert_eq!(refused.is_ok(), is_newer, "{same_or_older}");
        }
        library.update(reader, template("w", "1.10.0"), at).await.unwrap();
        let newest = library.find(reader, &reference("prompt:w")).await.unwrap();
        assert_eq!(newest.text, "w 1.10.0");
        let first = library.find(reader, &reference("prompt:w@1.9.0")).await.unwrap();
        assert_eq!(first.text, "w 1.9.0");
        assert_eq!(first.meta.unwrap().source, Some(PromptOrigin::User));
    }

    #[tokio::test]
    async fn what_the_host_brings_along_does_not_change() {
        let (library, reader) = (library(), &scope(None));
        let at = Timestamp::from_millis(1);
        let id = "callboard.brief";
        let taken = library.create(reader, template(id, "2.0.0"), None, at).await;
        assert!(matches!(taken, Err(LibraryError::Exists(_))), "{taken:?}");
        let fixed = library.update(reader, template(id, "2.0.0"), at).await;
        assert!(matches!(fixed, Err(LibraryError::ReadOnly(_))), "{fixed:?}");
        let kept = library.remove(reader, id).await;
        assert!(matches!(kept, Err(LibraryError::ReadOnly(_))), "{kept:?}");
    }

    #[tokio::test]
    async fn a_workspace_sees_its_own_and_its_tenants() {
        let (library, whole, part) = (library(), &scope(None), &scope(Some("north")));
        let at = Timestamp::from_millis(1);
        library.create(whole, template("all", "1.0.0"), None, at).await.unwrap();
        library.create(part, template("own", "1.0.0"), None, at).await.unwrap();
        let ids = |list: Vec<PromptTemplate>| -> Vec<String> {
            list.into_iter().map(|it| it.template_id).filter(|it| !it.contains('.')).collect()
        };
        assert_eq!(ids(library.list(whole).await.unwrap()), ["all"]);
        assert_eq!(ids(library.list(part).await.unwrap()), ["all", "own"]);
        let unseen = library.find(whole, &reference("prompt:own")).await;
        assert!(matches!(unseen, Err(LibraryError::NotFound(_))), "{unseen:?}");
    }

    #[tokio::test]
    async fn nobody_changes_what_is_not_in_its_own_place() {
        let (library, whole, part) = (library(), &scope(None), &scope(Some("north")));
        let test = &Scope { mode: KeyMode::Test, ..whole.clone() };
        let at = Timestamp::from_millis(1);
        library.create(whole, template("all", "1.0.0"), None, at).await.unwrap();
        for version in ["0.9.0", "2.0.0"] {
            let refused = library.update(part, template("all", version), at).await;
            assert!(matches!(refused, Err(LibraryError::OfTenant(_))), "{refused:?}");
        }
        let refused = library.remove(part, "all").await;
        assert!(matches!(refused, Err(LibraryError::OfTenant(_))), "{refused:?}");
        let unseen = library.update(test, template("all", "2.0.0"), at).await;
        assert!(matches!(unseen, Err(LibraryError::NotFound(_))), "{unseen:?}");
        library.create(test, template("all", "9.0.0"), None, at).await.unwrap();
        library.remove(test, "all").await.unwrap();
        let there = library.find(part, &reference("prompt:all")).await.unwrap();
        assert_eq!(there.text, "all 1.0.0");
    }
}
