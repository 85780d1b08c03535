"""MCP Inspector's command line: inspector.py FOLDER COMMAND…, where it is installed in FOLDER. It answers no forms, and sends no
request of an extension."""

import json
import pathlib
import subprocess
import sys

folder, *target = sys.argv[1:]
modules = pathlib.Path(folder, "node_modules")
node = next((str(path) for path in modules.glob("node-*/bin/node")), "node")
command = [node, str(modules / ".bin" / "mcp-inspector"), "--cli", *target]


def ask(*options):
    """The result that it prints, and its exit code."""
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
    try:
        return json.loads(done.stdout)
    except ValueError:
        raise AssertionError(f"{options}: {done.stdout}{done.stderr}") from None


samples = json.loads(ask("--method", "resources/read", "--uri", "zoo:///samples")["contents"][0]["text"])
names = [tool["name"] for tool in ask("--method", "tools/list")["tools"]]
assert {sample["name"] for sample in samples["tools"]} <= set(names), names
# Each call is a process, so one call of each tool must do.
seen = set()
for sample in samples["tools"]:
    if sample["name"] in seen or "error" in sample:
        continue
    seen.add(sample["name"])
    arguments = [f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in sample["arguments"].items()]
    options = ["--tool-arg", *arguments] if arguments else []
    called = ask("--method", "tools/call", "--tool-name", sample["name"], *options)
    assert called["structuredContent"] == sample["result"], (sample, called)
prompt = samples["prompt"]
arguments = [f"{name}={value}" for name, value in zip(prompt["arguments"], prompt["values"])]
found = ask("--method", "prompts/get", "--prompt-name", prompt["name"], "--prompt-args", *arguments)
assert found["messages"][0]["content"]["text"] == prompt["text"], found
assert ask("--method", "resources/read", "--uri", samples["resource"]["uri"])["contents"][0]["text"] == samples["resource"]["text"]
app = samples["app"]
linked = next(tool for tool in ask("--method", "tools/list")["tools"] if tool["name"] == app["tool"])
assert linked["_meta"]["ui"]["resourceUri"] == app["uri"], linked
page = ask("--method", "resources/read", "--uri", app["uri"])["contents"][0]
assert (page["mimeType"], page["text"]) == (app["mimeType"], app["text"]), page
