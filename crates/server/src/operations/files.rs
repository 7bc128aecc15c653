//! The rows of a workspace's files.

use axum::http::StatusCode;

use super::OperationId::{ListFiles, ReadFile, RemoveFile, WriteFile};
use super::queries::{FILE_QUERY, FILES_QUERY};
use super::{Gives, Operation, delete, get, put};

pub(super) const LIST_FILES: Operation =
    get(ListFiles, "GET /v1/host/workspace/files", "List the files of the caller's workspace")
        .needs("workspace:read")
        .query(FILES_QUERY)
        .gives(StatusCode::OK, Gives::Json("WorkspaceFileList"));
pub(super) const READ_FILE: Operation =
    get(ReadFile, "GET /v1/host/workspace/files/{path}", "Read a file, or one of its versions")
        .needs("workspace:read")
        .query(FILE_QUERY)
        .gives(StatusCode::OK, Gives::Json("WorkspaceFile"));
pub(super) const WRITE_FILE: Operation = put(
    WriteFile,
    "PUT /v1/host/workspace/files/{path}",
    "Write a file; with If-Match only as long as nobody else did",
)
.needs("workspace:write")
.takes("WorkspaceFileCreate")
.gives(StatusCode::OK, Gives::Json("WorkspaceFile"));
pub(super) const REMOVE_FILE: Operation = delete(
    RemoveFile,
    "DELETE /v1/host/workspace/files/{path}",
    "Remove a file; its versions stay for the runs that saw them",
)
.needs("workspace:write")
.gives(StatusCode::NO_CONTENT, Gives::Nothing);
