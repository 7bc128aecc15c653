//! Prompt templates: one row per version.

use async_trait::async_trait;
use rusqlite::{Connection, params};

use callboard_engine::{Prompts, Scope, StoreError};
use callboard_protocol::{PromptTemplate, Timestamp};

use super::SqliteStore;
use super::fault::Fault;
use super::rows::{execute, place_params, signed};

#[async_trait]
impl Prompts for SqliteStore {
    async fn prompt_versions(
        &self,
        shelf: &Scope,
        template: &str,
    ) -> Result<Vec<PromptTemplate>, StoreError> {
        let (shelf, template) = (shelf.clone(), template.to_owned());
        self.readers.read(move |db| versions(db, &shelf, &template)).await
    }

    async fn newest_prompts(&self, shelf: &Scope) -> Result<Vec<PromptTemplate>, StoreError> {
        let shelf = shelf.clone();
        self.readers.read(move |db| newest(db, &shelf)).await
    }

    async fn put_prompt(
        &self,
        shelf: &Scope,
        template: PromptTemplate,
        expected: usize,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let shelf = shelf.clone();
        self.writer.write(move |db| put(db, &shelf, &template, expected, at)).await
    }

    async fn remove_prompt(&self, shelf: &Scope, template: &str) -> Result<bool, StoreError> {
        let (shelf, template) = (shelf.clone(), template.to_owned());
        self.writer.write(move |db| remove(db, &shelf, &template)).await
    }
}

fn versions(db: &Connection, shelf: &Scope, template: &str) -> Result<Vec<PromptTemplate>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT body FROM prompt_templates
         WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND template = ?4 ORDER BY place",
    )?;
    let (tenant, test, workspace) = place_params(shelf);
    let rows = select.query(params![tenant, test, workspace, template])?;
    read(rows)
}

fn newest(db: &Connection, shelf: &Scope) -> Result<Vec<PromptTemplate>, Fault> {
    let mut select = db.prepare_cached(
        "SELECT body FROM prompt_templates AS one WHERE tenant = ?1 AND test = ?2 AND workspace = ?3
         AND place = (SELECT max(place) FROM prompt_templates
                      WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND template = one.template)
         ORDER BY template",
    )?;
    let rows = select.query(place_params(shelf))?;
    read(rows)
}

fn read(mut rows: rusqlite::Rows<'_>) -> Result<Vec<PromptTemplate>, Fault> {
    let mut templates = Vec::new();
    while let Some(row) = rows.next()? {
        let body: String = row.get(0)?;
        templates.push(
            serde_json::from_str(&body)
                .map_err(|error| Fault::unreadable("a prompt template", error))?,
        );
    }
    Ok(templates)
}

fn put(
    db: &Connection,
    shelf: &Scope,
    template: &PromptTemplate,
    expected: usize,
    at: Timestamp,
) -> Result<(), Fault> {
    let id = template.template_id.as_str();
    let body = serde_json::to_string(template)
        .map_err(|error| Fault::unreadable("a prompt template", error))?;
    let (tenant, test, workspace) = place_params(shelf);
    let kept = execute(
        db,
        "INSERT INTO prompt_templates (tenant, test, workspace, template, place, body, created_at)
         SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7
         WHERE (SELECT count(*) FROM prompt_templates
                WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND template = ?4) = ?5",
        params![tenant, test, workspace, id, signed(expected as u64), body, at.as_millis()],
    )?;
    match kept {
        0 => Err(StoreError::Moved { what: format!("prompt {id}") }.into()),
        _ => Ok(()),
    }
}

fn remove(db: &Connection, shelf: &Scope, template: &str) -> Result<bool, Fault> {
    let (tenant, test, workspace) = place_params(shelf);
    let removed = execute(
        db,
        "DELETE FROM prompt_templates WHERE tenant = ?1 AND test = ?2 AND workspace = ?3 AND template = ?4",
        params![tenant, test, workspace, template],
    )?;
    Ok(removed > 0)
}
