//! The one stylesheet, the one script and the icon, in the program. Their names change with their content.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use sha2::{Digest as _, Sha256};

pub(crate) const STYLE_TEXT: &str = include_str!("../assets/console.css");
const SCRIPT_TEXT: &str = include_str!("../assets/console.js");
const ICON_TEXT: &str = include_str!("../assets/icon.svg");

pub(crate) struct Asset {
    pub(crate) path: String,
    text: &'static str,
    media: &'static str,
}

pub(crate) static STYLE: LazyLock<Asset> =
    LazyLock::new(|| asset("console", "css", STYLE_TEXT, "text/css; charset=utf-8"));
pub(crate) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| asset("console", "js", SCRIPT_TEXT, "text/javascript; charset=utf-8"));
pub(crate) static ICON: LazyLock<Asset> =
    LazyLock::new(|| asset("icon", "svg", ICON_TEXT, "image/svg+xml"));

fn asset(name: &str, ending: &str, text: &'static str, media: &'static str) -> Asset {
    let digest = Sha256::digest(text.as_bytes());
    let hash: String = digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    Asset { path: format!("/console/assets/{name}-{hash}.{ending}"), text, media }
}

pub(crate) async fn serve(Path(name): Path<String>) -> Response {
    let path = format!("/console/assets/{name}");
    let found = [&STYLE, &SCRIPT, &ICON].into_iter().find(|asset| asset.path == path);
    let Some(asset) = found else { return StatusCode::NOT_FOUND.into_response() };
    let headers: [(HeaderName, HeaderValue); 2] = [
        (header::CONTENT_TYPE, HeaderValue::from_static(asset.media)),
        (header::CACHE_CONTROL, HeaderValue::from_static("public, max-age=31536000, immutable")),
    ];
    (headers, asset.text).into_response()
}
