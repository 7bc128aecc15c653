//! What outlives a run: what it remembered, the files of its workspace.

use super::queries::{FILE_QUERY, FILES_QUERY, MEMORY_QUERY};
use super::{NO_CONTENT, OK};
use crate::operations::{Family, Gives, delete, get, post, put};
use crate::routes::{files, memory};

pub(super) static MEMORY: Family = Family::new(|| {
    vec![
        get(
            "listMemory",
            memory::list,
            "GET /v1/host/callboard/memory",
            "List what is remembered, newest first",
        )
        .needs("runs:read")
        .query(MEMORY_QUERY)
        .gives(OK, Gives::Json("MemoryList")),
        get(
            "readMemory",
            memory::read,
            "GET /v1/host/callboard/memory/{memoryId}",
            "Read an entry as it stands",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("MemoryRecord")),
        put(
            "editMemory",
            memory::edit,
            "PUT /v1/host/callboard/memory/{memoryId}",
            "Write another content over the version that was read",
        )
        .needs("runs:create")
        .takes("EditMemory")
        .gives(OK, Gives::Json("MemoryRecord")),
        delete(
            "forgetMemory",
            memory::forget,
            "DELETE /v1/host/callboard/memory/{memoryId}",
            "Erase an entry with all of its versions",
        )
        .needs("runs:create")
        .gives(NO_CONTENT, Gives::Nothing),
        get(
            "readMemoryHistory",
            memory::history,
            "GET /v1/host/callboard/memory/{memoryId}/history",
            "Read every version of an entry, newest first",
        )
        .needs("runs:read")
        .gives(OK, Gives::Json("MemoryHistory")),
        post(
            "restoreMemory",
            memory::restore,
            "POST /v1/host/callboard/memory/{memoryId}/restore",
            "Write an old version's content anew",
        )
        .needs("runs:create")
        .takes("RestoreMemory")
        .gives(OK, Gives::Json("MemoryRecord")),
        get(
            "listFiles",
            files::list,
            "GET /v1/host/workspace/files",
            "List the files of the caller's workspace",
        )
        .needs("workspace:read")
        .query(FILES_QUERY)
        .gives(OK, Gives::Json("WorkspaceFileList")),
        get(
            "readFile",
            files::read,
            "GET /v1/host/workspace/files/{path}",
            "Read a file, or one of its versions",
        )
        .needs("workspace:read")
        .query(FILE_QUERY)
        .gives(OK, Gives::Json("WorkspaceFile")),
        put(
            "writeFile",
            files::write,
            "PUT /v1/host/workspace/files/{path}",
            "Write a file; with If-Match only as long as nobody else did",
        )
        .needs("workspace:write")
        .takes("WorkspaceFileCreate")
        .gives(OK, Gives::Json("WorkspaceFile")),
        delete(
            "removeFile",
            files::remove,
            "DELETE /v1/host/workspace/files/{path}",
            "Remove a file; its versions stay for the runs that saw them",
        )
        .needs("workspace:write")
        .gives(NO_CONTENT, Gives::Nothing),
    ]
});
