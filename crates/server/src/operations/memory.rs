//! What outlives a run: what it remembered, the files of its workspace.

use super::OperationId::{
    ForgetMemory, ListFiles, ListMemory, ReadFile, ReadMemory, ReadMemoryHistory, RemoveFile,
    RestoreMemory, WriteFile,
};
use super::queries::{FILE_QUERY, FILES_QUERY, MEMORY_QUERY};
use super::{Gives, NO_CONTENT, OK, Operation, delete, get, post, put};

pub(super) const MEMORY: &[Operation] = &[
    get(ListMemory, "GET /v1/host/callboard/memory", "List what is remembered, newest first")
        .needs("runs:read")
        .query(MEMORY_QUERY)
        .gives(OK, Gives::Json("MemoryList")),
    get(ReadMemory, "GET /v1/host/callboard/memory/{memoryId}", "Read an entry as it stands")
        .needs("runs:read")
        .gives(OK, Gives::Json("MemoryRecord")),
    delete(
        ForgetMemory,
        "DELETE /v1/host/callboard/memory/{memoryId}",
        "Erase an entry with all of its versions",
    )
    .needs("runs:create")
    .gives(NO_CONTENT, Gives::Nothing),
    get(
        ReadMemoryHistory,
        "GET /v1/host/callboard/memory/{memoryId}/history",
        "Read every version of an entry, newest first",
    )
    .needs("runs:read")
    .gives(OK, Gives::Json("MemoryHistory")),
    post(
        RestoreMemory,
        "POST /v1/host/callboard/memory/{memoryId}/restore",
        "Write an old version's content anew",
    )
    .needs("runs:create")
    .takes("RestoreMemory")
    .gives(OK, Gives::Json("MemoryRecord")),
    get(ListFiles, "GET /v1/host/workspace/files", "List the files of the caller's workspace")
        .needs("workspace:read")
        .query(FILES_QUERY)
        .gives(OK, Gives::Json("WorkspaceFileList")),
    get(ReadFile, "GET /v1/host/workspace/files/{path}", "Read a file, or one of its versions")
        .needs("workspace:read")
        .query(FILE_QUERY)
        .gives(OK, Gives::Json("WorkspaceFile")),
    put(
        WriteFile,
        "PUT /v1/host/workspace/files/{path}",
        "Write a file; with If-Match only as long as nobody else did",
    )
    .needs("workspace:write")
    .takes("WorkspaceFileCreate")
    .gives(OK, Gives::Json("WorkspaceFile")),
    delete(
        RemoveFile,
        "DELETE /v1/host/workspace/files/{path}",
        "Remove a file; its versions stay for the runs that saw them",
    )
    .needs("workspace:write")
    .gives(NO_CONTENT, Gives::Nothing),
];
