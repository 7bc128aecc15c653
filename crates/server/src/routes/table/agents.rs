//! Agents with their packs, and what they work with.

use super::queries::{
    CATALOG_QUERY, INSTALL_QUERY, PACK_QUERY, PROMPT_QUERY, PROMPTS_QUERY, TOOLS_QUERY,
};
use super::{CREATED, NO_CONTENT, OK};
use crate::operations::{Family, Gives, delete, get, post, put};
use crate::routes::{agents, deployments, packs, prompts, registry, tools};
use crate::v2::answer;

/// A promotion, a rollback and a pause are allowed one by one.
const DEPLOY: &[&str] = &["deploy:promote", "deploy:rollback", "deploy:pause"];

pub(super) static AGENTS: Family = Family::new(|| {
    vec![
        get(
            "listAgents",
            agents::list,
            "GET /v1/agents",
            "List the agents that the caller can dispatch",
        )
        .in_both()
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentInventory")),
        get("readAgent", agents::read, "GET /v1/agents/{agentId}", "Read one agent's entry")
            .in_both()
            .needs("manifest:read")
            .gives(OK, Gives::Json("AgentInventoryEntry")),
        get(
            "readAgentDefinition",
            agents::definition,
            "GET /v1/host/callboard/agents/{agentId}",
            "Read the schemas of an agent's tasks and results and, with the scope artifacts:read, its prompt",
        )
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentDefinition")),
        get(
            "listDeployments",
            deployments::list,
            "GET /v1/agents/{agentId}/deployments",
            "List an agent's versions with what became of them, the highest first",
        )
        .second_gives(answer::deployment)
        .needs("manifest:read")
        .gives(OK, Gives::Json("AgentDeployments")),
        post(
            "changeDeployment",
            deployments::change,
            "POST /v1/agents/{agentId}/deployments",
            "Promote, pause, deprecate or roll back a version, or change its share",
        )
        .second_gives(answer::deployment)
        .needs_one_of(DEPLOY)
        .takes("AgentDeploymentTransition")
        .gives(OK, Gives::Json("AgentDeployment")),
        get(
            "listPacks",
            packs::catalog,
            "GET /v1/packs",
            "List packs in their latest version, with their agents' manifests",
        )
        .needs("manifest:read")
        .query(CATALOG_QUERY)
        .gives(OK, Gives::Json("PackCatalog")),
        get(
            "exportPacks",
            packs::export,
            "GET /v1/packs/export",
            "List agents with the manifests that they came from",
        )
        .needs("manifest:read")
        .gives(OK, Gives::Json("PackExport")),
        get(
            "searchPacks",
            registry::search,
            "GET /v1/packs/-/search",
            "Find installed packs by words",
        )
        .open_to_all("manifest:read")
        .query(PACK_QUERY)
        .gives(OK, Gives::Json("PackSearch")),
        get(
            "readPackManifest",
            registry::manifest,
            "GET /v1/packs/{name}/-/{version}.json",
            "Read the manifest of an installed version, without prompts",
        )
        .open_to_all("manifest:read")
        .gives(OK, Gives::Json("PackPage")),
        get(
            "listInstalledPacks",
            packs::list,
            "GET /v1/host/callboard/packs",
            "List every installed version",
        )
        .needs("manifest:read")
        .gives(OK, Gives::Json("PackList")),
        post(
            "installPack",
            packs::install,
            "POST /v1/host/callboard/packs",
            "Install a pack; the same bytes again: 200",
        )
        .needs("packs:install")
        .takes_archive()
        .query(INSTALL_QUERY)
        .gives(CREATED, Gives::Json("InstalledPack")),
        post(
            "fetchPack",
            packs::fetch,
            "POST /v1/host/callboard/packs/from-registry",
            "Install a pack from a registry that the operator named",
        )
        .needs("packs:install")
        .takes("FetchPack")
        .gives(CREATED, Gives::Json("InstalledPack")),
        delete(
            "removePack",
            packs::remove,
            "DELETE /v1/host/callboard/packs/{name}/{version}",
            "Remove an installed version; runs that began with it go on",
        )
        .needs("packs:install")
        .gives(NO_CONTENT, Gives::Nothing),
        get(
            "listPrompts",
            prompts::list,
            "GET /v1/prompts",
            "List the prompts that the caller may use",
        )
        .in_both()
        .needs("manifest:read")
        .query(PROMPTS_QUERY)
        .gives(OK, Gives::Json("PromptList")),
        post("createPrompt", prompts::create, "POST /v1/prompts", "Add a prompt")
            .in_both()
            .needs("workflows:write")
            .takes("PromptTemplate")
            .gives(CREATED, Gives::Json("PromptTemplate")),
        get("readPrompt", prompts::read, "GET /v1/prompts/{templateId}", "Read a prompt")
            .in_both()
            .needs("manifest:read")
            .query(PROMPT_QUERY)
            .gives(OK, Gives::Json("PromptTemplate")),
        put(
            "updatePrompt",
            prompts::update,
            "PUT /v1/prompts/{templateId}",
            "Add a newer version of a prompt",
        )
        .in_both()
        .needs("workflows:write")
        .takes("PromptTemplate")
        .gives(OK, Gives::Json("PromptTemplate")),
        delete(
            "removePrompt",
            prompts::remove,
            "DELETE /v1/prompts/{templateId}",
            "Remove a prompt with its versions",
        )
        .in_both()
        .needs("workflows:write")
        .gives(NO_CONTENT, Gives::Nothing),
        post(
            "renderPrompt",
            prompts::render,
            "POST /v1/prompts:render",
            "Show what a prompt would say",
        )
        .in_both()
        .needs("manifest:read")
        .takes("RenderPrompt")
        .gives(OK, Gives::Json("RenderedPrompt")),
        get(
            "listTools",
            tools::list,
            "GET /v1/tools",
            "List the tools that agents of the caller may be given",
        )
        .in_both()
        .needs("manifest:read")
        .query(TOOLS_QUERY)
        .gives(OK, Gives::Json("ToolCatalog")),
        get("readTool", tools::read, "GET /v1/tools/{toolId}", "Read one tool's description")
            .in_both()
            .needs("manifest:read")
            .gives(OK, Gives::Json("ToolDescriptor")),
    ]
});
