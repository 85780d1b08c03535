"""What the Python clients do at the server with every shape (`tests/src/zoo.rs`)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

Json = dict[str, Any]


def answer(schema: Json) -> Json:
    """The entries of a user in a form, as `tests::zoo::answer` gives them."""
    entered: Json = {}
    plain = {"string": "text", "integer": 7, "number": 1.5, "boolean": True}
    for name, field in schema["properties"].items():
        if "oneOf" in field:
            entered[name] = field["oneOf"][0]["const"]
        elif "enum" in field:
            entered[name] = field["enum"][0]
        elif field["type"] == "array":
            items = field["items"]
            entered[name] = [items["anyOf"][0]["const"] if "anyOf" in items else items["enum"][0]]
        elif field.get("format") == "email":
            entered[name] = "ada@example.org"
        else:
            entered[name] = plain[field["type"]]
    return entered


def same(left: Any, right: Any, what: Any) -> None:
    assert left == right, f"{what}: {left!r} instead of {right!r}"


async def visit(
    tools: list[Any],
    prompts: list[Any],
    templates: list[Any],
    read: Callable[[str], Awaitable[str]],
    call: Callable[[str, Json], Awaitable[tuple[bool, str, Any]]],
    prompt: Callable[[str, dict[str, str]], Awaitable[str]],
) -> None:
    """`call` returns whether it is an error, the text, and the structured content."""
    samples = json.loads(await read("zoo:///samples"))
    names = [tool.name for tool in tools]
    for sample in samples["tools"]:
        assert sample["name"] in names, sample
        is_error, text, content = await call(sample["name"], sample["arguments"])
        if "error" in sample:
            same((is_error, text), (True, sample["error"]), sample)
        else:
            same(content, sample["result"], sample)
    for sample in samples["forms"]:
        same(json.loads((await call(sample["name"], {}))[1]), sample["result"], sample)
    expected = samples["prompt"]
    same([argument.name for argument in prompts[0].arguments], expected["arguments"], "the order of arguments")
    arguments = dict(zip(expected["arguments"], expected["values"], strict=True))
    same(await prompt(expected["name"], arguments), expected["text"], "the prompt")
    same(len(templates), 1, "templates")
    same(await read(samples["resource"]["uri"]), samples["resource"]["text"], "the template")
