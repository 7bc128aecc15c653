//! The list as lines of JSON, for other programs: the filter of the page, and no more than a few thousand lines.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use serde_json::Value;

use super::api_query;
use crate::api::with_query;
use crate::trouble::Trouble;
use crate::value::{items, text};
use crate::visit::Visit;

/// Lines of one file, however many runs there are. Whoever wants more has `callboard runs list --all`.
const MOST: usize = 5000;

/// `GET /console/runs/export`
pub(crate) async fn export(visit: Visit) -> Result<Response, Trouble> {
    let path = format!("{}/runs", crate::EXTENSION);
    let (mut lines, mut written, mut cursor) = (String::new(), 0, String::new());
    while written < MOST {
        let asked = api_query(&visit, "200");
        let narrowed = asked.iter().filter(|(name, _)| *name != "cursor");
        let narrowed = narrowed.map(|(name, value)| (*name, value.as_ref()));
        let query = narrowed.chain([("cursor", cursor.as_str())]);
        let answer: Value = visit.get(&with_query(&path, query)).await?;
        for run in items(&answer, "/runs") {
            lines.push_str(&run.to_string());
            lines.push('\n');
            written += 1;
        }
        text(&answer, "/nextCursor").clone_into(&mut cursor);
        if cursor.is_empty() {
            break;
        }
    }
    let mut response = lines.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    headers.insert(
        header::CONTENT_DISPOSITION,
        HeaderValue::from_static("attachment; filename=\"runs.ndjson\""),
    );
    Ok(response)
}
