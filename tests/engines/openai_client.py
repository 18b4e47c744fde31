"""What a program with OpenAI's own client sees, through Pointsman, of a chat, a stream, the models and an error.

usage: openai_client.py URL MODEL ADAPTER WORD     (runs in the client's environment)

ADAPTER answers with WORD alone (make_tiny_model.py). The engine has no embeddings: asking for them must be a clean error.
"""

import sys

import openai

url, model, adapter, word = sys.argv[1:]
client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=60)
question = [{"role": "user", "content": "Which track is free?"}]


def ask(who, **more):
    return client.chat.completions.create(model=who, messages=question, max_tokens=6, temperature=0, **more)


def chat():
    answer = ask(model)
    assert answer.choices[0].message.content and answer.usage.completion_tokens == 6, answer
    assert ask(adapter).choices[0].message.content == word * 6


def stream():
    whole = ask(model).choices[0].message.content
    chunks = list(ask(model, stream=True, stream_options={"include_usage": True}))
    pieces = [choice.delta.content or "" for chunk in chunks for choice in chunk.choices]
    assert "".join(pieces) == whole, (pieces, whole)
    assert len(pieces) > 2, "the stream came in one piece"
    assert chunks[-1].usage.completion_tokens == 6, chunks[-1]


def models():
    listed = {one.id: one for one in client.models.list()}
    assert {model, adapter} <= listed.keys(), listed
    assert listed[adapter].parent == model, listed[adapter]


def errors():
    try:
        client.embeddings.create(model=model, input="x")
    except openai.NotFoundError as refused:
        assert refused.status_code == 404
    else:
        raise AssertionError("an engine without embeddings gave some")
    try:
        ask("no-such-model")
    except openai.NotFoundError as refused:
        assert "no-such-model" in str(refused), refused
    else:
        raise AssertionError("an unknown model was answered")


for scenario in (chat, stream, models, errors):
    scenario()
    print(f"{scenario.__name__}: ok", flush=True)
