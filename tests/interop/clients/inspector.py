"""MCP Inspector's command line against a server: inspector.py FOLDER TARGET…, where it is installed in FOLDER, and the
target is a URL or a command. Exits with 0 if the server did all it was asked."""

import json
import pathlib
import subprocess
import sys

folder, *target = sys.argv[1:]
modules = pathlib.Path(folder, "node_modules")
# The Node that was installed with it, where npm has one for this platform.
node = next((str(path) for path in modules.glob("node-*/bin/node")), "node")
command = [node, str(modules / ".bin" / "mcp-inspector"), "--cli", *target]


def run(*options):
    """What it prints for these options, and its exit code."""
    done = subprocess.run([*command, *options], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def ask(*options):
    """The result that it prints."""
    code, output = run(*options)
    assert code == 0, output
    return json.loads(output)


tools = [tool["name"] for tool in ask("--method", "tools/list")["tools"]]
assert "test_simple_text" in tools, tools
called = ask("--method", "tools/call", "--tool-name", "test_simple_text")
assert called["content"][0]["text"].startswith("This is a simple text"), called
called = ask("--method", "tools/call", "--tool-name", "test_tool_with_progress")
assert called["content"][0]["text"] == "The work is done.", called
failed = run("--method", "tools/call", "--tool-name", "test_error_handling")[1]
assert "intentionally returns an error" in failed, failed
resources = ask("--method", "resources/list")["resources"]
# Three, and the SKILL.md of two skills.
assert len(resources) == 6, resources
read = ask("--method", "resources/read", "--uri", "test://static-text")
assert "static text resource" in read["contents"][0]["text"], read
prompts = ask("--method", "prompts/list")["prompts"]
assert len(prompts) == 5, prompts
prompt = ask("--method", "prompts/get", "--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=a", "arg2=b")
assert prompt["messages"][0]["content"]["text"].endswith("arg1='a', arg2='b'"), prompt
assert ask("--method", "logging/setLevel", "--log-level", "warning") == {}
code, output = run("--method", "resources/read", "--uri", "test://nothing")
assert code != 0 and "not found" in output, output
