"""Drives a host with the official client of the OpenAI API.

    python openai.py URL KEY

The last line of the output is "all of it".
"""

import sys

# This file has the name of the package that it uses.
sys.path.pop(0)

import openai

URL, KEY = sys.argv[1:3]
TRIAGER = "community.callboard.starter.triager"
client = openai.OpenAI(base_url=f"{URL}/openai/v1", api_key=KEY, max_retries=0, timeout=60)


def refused(act, kind, code):
    try:
        act()
    except kind as error:
        assert error.code == code, (error.code, error)
        return error
    raise AssertionError(f"{code} was expected")


models = {model.id: model for model in client.models.list()}
assert models[TRIAGER].owned_by == "callboard agent", models
assert client.models.retrieve(TRIAGER).id == TRIAGER
refused(lambda: client.models.retrieve("nobody"), openai.NotFoundError, "model_not_found")

talk = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello?"},
        {"role": "assistant", "content": "Hello!"}, {"role": "user", "content": "Where is my parcel?"}]
once = {"Idempotency-Key": "parcel-17"}
first = client.chat.completions.create(model=TRIAGER, messages=talk, extra_headers=once)
assert first.choices[0].finish_reason == "stop" and "urgency" in first.choices[0].message.content, first
assert first.usage.total_tokens == first.usage.prompt_tokens + first.usage.completion_tokens, first
assert first.created > 1_700_000_000, first
again = client.chat.completions.create(model=TRIAGER, messages=talk, extra_headers=once)
assert again == first, (again, first)
streamed = client.chat.completions.create(
    model=TRIAGER, messages=talk, extra_headers=once, stream=True, stream_options={"include_usage": True})
chunks = list(streamed)
assert {chunk.id for chunk in chunks} == {first.id}, chunks
text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
assert text == first.choices[0].message.content, text
assert chunks[-2].choices[0].finish_reason == "stop" and chunks[-1].usage == first.usage, chunks

response = client.responses.create(model=TRIAGER, input="Where is my parcel?", instructions="Be brief.")
assert response.status == "completed" and "urgency" in response.output_text, response
assert response.usage.total_tokens >= 0, response
assert client.responses.retrieve(response.id).output_text == response.output_text
events = list(client.responses.create(model=TRIAGER, input=talk, previous_response_id=response.id, stream=True))
kinds = [event.type for event in events]
assert kinds[0] == "response.created" and kinds[-1] == "response.completed", kinds
assert [event.sequence_number for event in events] == list(range(len(events))), events
deltas = "".join(event.delta for event in events if event.type == "response.output_text.delta")
assert deltas == events[-1].response.output_text and "urgency" in deltas, events
refused(lambda: client.responses.retrieve("resp_run_0"), openai.NotFoundError, "response_not_found")

user = [{"role": "user", "content": "Hi"}]
refused(lambda: client.chat.completions.create(model="nobody", messages=user), openai.NotFoundError, "model_not_found")
tool = {"type": "function", "function": {"name": "f"}}
refused(lambda: client.chat.completions.create(model=TRIAGER, messages=user, tools=[tool]),
        openai.BadRequestError, "invalid_request")
refused(lambda: client.chat.completions.create(model=TRIAGER, messages=user, extra_headers=once),
        openai.APIStatusError, "idempotency_key_mismatch")
too_long = [{"role": "user", "content": "x" * 60_000}]
failed = refused(lambda: client.chat.completions.create(model=TRIAGER, messages=too_long),
                 openai.UnprocessableEntityError, "handoff_task_schema_violation")
assert "/console/runs/run_" in failed.message, failed
try:
    list(client.chat.completions.create(model=TRIAGER, messages=too_long, stream=True))
    raise AssertionError("the stream of a run that fails raises")
except openai.APIError as error:
    assert "run" in error.message, error
stranger = openai.OpenAI(base_url=f"{URL}/openai/v1", api_key="nobody", max_retries=0)
refused(stranger.models.list, openai.AuthenticationError, "invalid_api_key")
print("all of it")
