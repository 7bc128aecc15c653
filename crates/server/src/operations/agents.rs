//! Agents with their packs, and what they work with.

use super::OperationId::{
    ChangeDeployment, CreatePrompt, ExportPacks, FetchPack, InstallPack, ListAgents,
    ListDeployments, ListInstalledPacks, ListPacks, ListPrompts, ListTools, ReadAgent,
    ReadPackManifest, ReadPrompt, ReadTool, RemovePack, RemovePrompt, RenderPrompt, SearchPacks,
    UpdatePrompt,
};
use super::queries::{
    CATALOG_QUERY, INSTALL_QUERY, PACK_QUERY, PROMPT_QUERY, PROMPTS_QUERY, TOOLS_QUERY,
};
use super::{CREATED, Gives, NO_CONTENT, OK, Operation, delete, get, post, put};

/// A promotion, a rollback and a pause are allowed one by one.
const DEPLOY: &[&str] = &["deploy:promote", "deploy:rollback", "deploy:pause"];

pub(super) const AGENTS: &[Operation] = &[
    get(ListAgents, "GET /v1/agents", "List the agents that the caller can dispatch")
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentInventory")),
    get(ReadAgent, "GET /v1/agents/{agentId}", "Read one agent's entry")
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentInventoryEntry")),
    get(
        ListDeployments,
        "GET /v1/agents/{agentId}/deployments",
        "List an agent's versions with what became of them, the highest first",
    )
    .needs("manifest:read")
    .gives(OK, Gives::Json("AgentDeployments")),
    post(
        ChangeDeployment,
        "POST /v1/agents/{agentId}/deployments",
        "Promote, pause, deprecate or roll back a version, or change its share",
    )
    .needs_one_of(DEPLOY)
    .takes("AgentDeploymentTransition")
    .gives(OK, Gives::Json("AgentDeployment")),
    get(
        ListPacks,
        "GET /v1/packs",
        "List packs in their latest version, with their agents' manifests",
    )
    .needs("manifest:read")
    .query(CATALOG_QUERY)
    .gives(OK, Gives::Json("PackCatalog")),
    get(ExportPacks, "GET /v1/packs/export", "List agents with the manifests that they came from")
        .needs("manifest:read")
        .gives(OK, Gives::Json("PackExport")),
    get(SearchPacks, "GET /v1/packs/-/search", "Find installed packs by words")
        .open_to_all("manifest:read")
        .query(PACK_QUERY)
        .gives(OK, Gives::Json("PackSearch")),
    get(
        ReadPackManifest,
        "GET /v1/packs/{name}/-/{version}.json",
        "Read the manifest of an installed version, without prompts",
    )
    .open_to_all("manifest:read")
    .gives(OK, Gives::Json("PackPage")),
    get(ListInstalledPacks, "GET /v1/host/callboard/packs", "List every installed version")
        .needs("manifest:read")
        .gives(OK, Gives::Json("PackList")),
    post(InstallPack, "POST /v1/host/callboard/packs", "Install a pack; the same bytes again: 200")
        .needs("packs:install")
        .takes_archive()
        .query(INSTALL_QUERY)
        .gives(CREATED, Gives::Json("InstalledPack")),
    post(
        FetchPack,
        "POST /v1/host/callboard/packs/from-registry",
        "Install a pack from a registry that the operator named",
    )
    .needs("packs:install")
    .takes("FetchPack")
    .gives(CREATED, Gives::Json("InstalledPack")),
    delete(
        RemovePack,
        "DELETE /v1/host/callboard/packs/{name}/{version}",
        "Remove an installed version; runs that began with it go on",
    )
    .needs("packs:install")
    .gives(NO_CONTENT, Gives::Nothing),
    get(ListPrompts, "GET /v1/prompts", "List the prompts that the caller may use")
        .needs("manifest:read")
        .query(PROMPTS_QUERY)
        .gives(OK, Gives::Json("PromptList")),
    post(CreatePrompt, "POST /v1/prompts", "Add a prompt")
        .needs("workflows:write")
        .takes("PromptTemplate")
        .gives(CREATED, Gives::Json("PromptTemplate")),
    get(ReadPrompt, "GET /v1/prompts/{templateId}", "Read a prompt")
        .needs("manifest:read")
        .query(PROMPT_QUERY)
        .gives(OK, Gives::Json("PromptTemplate")),
    put(UpdatePrompt, "PUT /v1/prompts/{templateId}", "Add a newer version of a prompt")
        .needs("workflows:write")
        .takes("PromptTemplate")
        .gives(OK, Gives::Json("PromptTemplate")),
    delete(RemovePrompt, "DELETE /v1/prompts/{templateId}", "Remove a prompt with its versions")
        .needs("workflows:write")
        .gives(NO_CONTENT, Gives::Nothing),
    post(RenderPrompt, "POST /v1/prompts:render", "Show what a prompt would say")
        .needs("manifest:read")
        .takes("RenderPrompt")
        .gives(OK, Gives::Json("RenderedPrompt")),
    get(ListTools, "GET /v1/tools", "List the tools that agents of the caller may be given")
        .needs("manifest:read")
        .query(TOOLS_QUERY)
        .gives(OK, Gives::Json("ToolCatalog")),
    get(ReadTool, "GET /v1/tools/{toolId}", "Read one tool's description")
        .needs("manifest:read")
        .gives(OK, Gives::Json("ToolDescriptor")),
];
