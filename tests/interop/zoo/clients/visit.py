"""What the Python clients do at the server with every shape (`tests/src/zoo.rs`)."""

from __future__ import annotations

import json
import os
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
    capabilities: Any,
    read: Callable[[str], Awaitable[Any]],
    call: Callable[[str, Json], Awaitable[tuple[bool, str, Any]]],
    prompt: Callable[[str, dict[str, str]], Awaitable[str]],
    ask: Callable[[str, Json], Awaitable[Json]],
) -> None:
    """`call` returns whether it is an error, the text, and the structured content; `ask`, the result of a request of any
    method."""

    async def page(uri: str) -> Json:
        contents: Json = (await read(uri)).model_dump(by_alias=True, mode="json")
        return contents

    samples = json.loads((await page("zoo:///samples"))["text"])
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
    same((await page(samples["resource"]["uri"]))["text"], samples["resource"]["text"], "the template")
    app = samples["app"]
    linked = next(tool for tool in tools if tool.name == app["tool"]).model_dump(by_alias=True, mode="json")
    same(linked["_meta"]["ui"]["resourceUri"], app["uri"], "the link to a page")
    found = await page(app["uri"])
    same((found["mimeType"], found["text"]), (app["mimeType"], app["text"]), "the page")
    extension = samples["extension"]
    declared = capabilities.model_dump(by_alias=True, mode="json").get("extensions") or {}
    is_declared = os.environ["ZOO_EXTENSION_IS_DECLARED"] == "yes"
    expected = extension["settings"] if is_declared else None
    same(declared.get(extension["id"]), expected, "the settings of the extension")
    answered = await ask(extension["method"], extension["params"])
    same({name: answered[name] for name in extension["result"]}, extension["result"], "the method of the extension")
