"""Drives a host with the official client of the Model Context Protocol.

    python mcp.py URL KEY MODE BINARY

MODE is "auto" (the newest version, without sessions), "legacy" (with a session) or "stdio" (through `callboard mcp`). The last
line of the output is "all of it".
"""

import asyncio
import json
import os
import sys

# This file has the name of the package that it uses.
sys.path.pop(0)

import httpx2
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

URL, KEY, MODE, BINARY = sys.argv[1:5]
asked = []


async def elicit(context, params):
    asked.append(params.message)
    fields = params.requested_schema["properties"]
    filled = {"action": "accept", "remark": "fine"} if "action" in fields else {"q1": "red"}
    return types.ElicitResult(action="accept", content=filled)


def told(result):
    return result.meta["callboard/result"]


def transport():
    if MODE == "stdio":
        env = {"CALLBOARD_URL": URL, "CALLBOARD_API_KEY": KEY, "PATH": os.environ["PATH"]}
        return stdio_client(StdioServerParameters(command=BINARY, args=["mcp"], env=env))
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {KEY}"}, timeout=90)
    return streamable_http_client(f"{URL}/mcp", http_client=http)


async def use(client):
    tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    triager = tools["agent_community_callboard_starter_triager"]
    assert triager.input_schema["properties"]["message"]["maxLength"] == 50000, triager
    assert triager.input_schema["required"] == ["message"], triager
    assert {"callboard_wait", "callboard_answer", "callboard_cancel", "workflow_echo"} <= set(tools), tools

    news = []

    async def progress(done, total, message):
        news.append((done, message))

    key = {"callboard_key": f"triage-{MODE}"}
    first = await client.call_tool(triager.name, {"message": "hello", **key}, progress_callback=progress)
    assert told(first)["status"] == "completed" and not first.is_error, first
    assert "confidence" in told(first)["output"], first
    assert any("completed" in message for _, message in news), news
    assert [done for done, _ in news] == sorted(done for done, _ in news), news
    again = await client.call_tool(triager.name, {"message": "hello", **key})
    assert told(again)["run"] == told(first)["run"], again

    approved = await client.call_tool("workflow_release", {})
    assert told(approved)["status"] == "completed", approved
    coloured = await client.call_tool("workflow_colour", {})
    assert told(coloured)["status"] == "completed", coloured
    assert len(asked) == 2 and "Ship it?" in asked[0] and "Which colour?" in asked[1], asked

    failed = await client.call_tool("workflow_failing", {})
    assert failed.is_error and told(failed)["status"] == "failed", failed
    wrong = await client.call_tool(triager.name, {"message": "x", "unknown": 1})
    assert wrong.is_error, wrong

    run = told(first)["run"]
    resources = await client.list_resources()
    assert f"callboard://runs/{run}" in [str(it.uri) for it in resources.resources], resources
    log = await client.read_resource(f"callboard://runs/{run}/log")
    log = json.loads(log.contents[0].text)
    assert log["contentTrust"] == "untrusted", log
    assert log["content"]["events"][-1]["type"] == "run.completed", log
    templates = (await client.list_resource_templates()).resource_templates
    assert "callboard://memory/{id}" in [it.uri_template for it in templates], templates

    prompts = [prompt.name for prompt in (await client.list_prompts()).prompts]
    assert "callboard.brief" in prompts, prompts
    prompt = await client.get_prompt("callboard.brief")
    assert "few words" in prompt.messages[0].content.text, prompt
    return tools


async def cancel(client):
    """A call that its client cancels ends its run."""
    before = {str(it.uri) for it in (await client.list_resources()).resources}
    call = asyncio.create_task(client.call_tool("workflow_delay", {"delayMs": 60000}))
    started = None
    for _ in range(300):
        listed = (await client.list_resources(cache_mode="bypass")).resources
        started = [it for it in listed if str(it.uri) not in before]
        if started:
            break
        await asyncio.sleep(0.1)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    run = started[0].name
    if MODE == "auto":
        # The newest version has no word for it over HTTP: a stream that ends may be a client that comes back.
        await client.call_tool("callboard_cancel", {"run": run})
    for _ in range(300):
        ended = await client.call_tool("callboard_wait", {"run": run})
        if told(ended)["status"] == "cancelled":
            return
        await asyncio.sleep(0.1)
    raise AssertionError(ended)


async def main():
    mode = "legacy" if MODE == "legacy" else "auto"
    async with Client(transport(), mode=mode, elicitation_callback=elicit) as client:
        print(MODE, client.protocol_version)
        await use(client)
        await cancel(client)
    print("all of it")


asyncio.run(main())
