"""Signing in at real authorization servers with a real browser: what each cell does and expects."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable
from pathlib import Path

from authorization.world import Editor, Protected, World, output_of, wait_until
from proxy import Failure, expect
from servers import Call, free_port

#: How many proxies are started at once.
PROXIES = 5
#: A lifetime of access tokens that ends during a cell, in seconds.
SHORT = 3
WRITE = Call("write", {}, "written")
SIGNED_IN = {"registration": 1, "authorization": 1, "token authorization_code": 1}


def expect_counts(server: Protected, expected: dict[str, int]) -> None:
    """That these requests were made to the authorization server."""
    counts = server.counts()
    kinds = ("registration", "authorization", "device_authorization", "token", "revocation")
    found = {kind: number for kind, number in counts.items() if kind.split(" ")[0] in kinds}
    expect(found == expected, f"the authorization server has counted {found} instead of {expected}")


def signed_in(world: World, server: Protected, *options: str) -> Editor:
    """An editor whose proxy was signed in to by a person."""
    editor = world.editor(server, *options)
    page = world.sign_in()
    expect("/callback?" in page.url, f"the browser has ended at {page.url.split('?')[0]}: {page.text}")
    editor.wait_until_ready()
    editor.call()
    return editor


def first_call(world: World) -> None:
    server = world.provider()
    editor = signed_in(world, server)
    editor.call()
    expect_counts(server, SIGNED_IN)
    # Another proxy uses the stored tokens from its first request on.
    refusals = server.counts()["mcp 401"]
    other = world.editor(server)
    other.wait_until_ready()
    other.call()
    expect(server.counts()["mcp 401"] == refusals, "the stored token was not used from the first request on")
    expect_counts(server, SIGNED_IN)
    world.expect_windows(1)


def refreshed(world: World) -> None:
    server = world.provider()
    editor = signed_in(world, server)
    # The second refresh needs the refresh token that the first one has returned: the earlier one was consumed.
    for number in (1, 2):
        server.refuse_tokens()
        editor.call()
        expect_counts(server, SIGNED_IN | {"token refresh_token": number})
    world.expect_windows(1)


def expired(world: World) -> None:
    server = world.provider(lifetime=SHORT)
    editor = signed_in(world, server)
    refreshes = "token refresh_token"

    def is_refreshed() -> bool:
        editor.call()
        return server.counts().get(refreshes, 0) >= 2

    wait_until(is_refreshed, "the second refresh")
    # A proxy that starts later finds an expired token.
    wait_until(lambda: re.search("expires: +now", world.run("whoami", server)) is not None, "the end of the token")
    other = world.editor(server)
    other.wait_until_ready()
    other.call()
    expect_counts(server, SIGNED_IN | {refreshes: server.counts()[refreshes]})
    world.expect_windows(1)


def account(world: World) -> None:
    server = world.provider()
    login = world.command("login", server)
    world.sign_in()
    said = output_of(login)
    expect(said.startswith("signed in"), said)
    said = world.run("whoami", server)
    for text in (server.issuer, server.url, "tools:call", "it is renewed without a sign-in"):
        expect(text in said, f"{text!r} is not in {said}")
    editor = world.editor(server)
    editor.wait_until_ready()
    editor.call()
    said = world.run("logout", server)
    expect("the tokens were revoked and removed" in said, said)
    expect_counts(server, SIGNED_IN | {"revocation": server.counts()["revocation"]})
    expect("not signed in" in world.run("whoami", server, code=1), "whoami still finds tokens")
    # The token in use was revoked too: the next call needs a person again.
    request = editor.begin_call()
    world.sign_in()
    editor.end_call(request)
    world.expect_windows(2)


def elsewhere(world: World) -> None:
    server = world.provider()
    login = world.command("login", server)
    page = world.sign_in("elsewhere")
    assert login.stdin is not None
    login.stdin.write(f"{page.url}\n")
    login.stdin.flush()
    said = output_of(login)
    expect(said.startswith("signed in"), said)
    expect_counts(server, SIGNED_IN)


def checked(world: World) -> None:
    server = world.provider()
    said = world.run("--check", server, code=1)
    expect(server.issuer in said, f"the issuer is not in {said}")
    world.expect_windows(0)


def denied(world: World) -> None:
    server = world.provider()
    editor = world.editor(server)
    world.sign_in("deny")
    message = editor.refusal().error["message"]
    expect("access was denied" in message, f"the reason is not in {message!r}")
    world.expect_windows(1)


def not_interactive(world: World) -> None:
    server = world.provider()
    editor = world.editor(server, MCP_PROXY_NONINTERACTIVE="1")
    message = editor.refusal().error["message"]
    expect(f"mcp-proxy login {server.url}" in message, f"the command is not in {message!r}")
    world.expect_windows(0)


def step_up(world: World) -> None:
    server = world.provider(unlisted=True)
    editor = signed_in(world, server)
    request = editor.begin_call(WRITE)
    world.sign_in()
    editor.end_call(request, WRITE)
    editor.call()
    again = {"registration refused": 1, "authorization": 2, "token authorization_code": 2}
    expect_counts(server, SIGNED_IN | again)
    world.expect_windows(2)


def registered_scopes(world: World) -> None:
    server = world.provider()
    editor = signed_in(world, server)
    request = editor.begin_call(WRITE)
    # The client was registered for other scopes, which shows only in the browser; then it is registered anew.
    world.sign_in()
    world.sign_in()
    editor.end_call(request, WRITE)
    editor.call()
    expect_counts(server, {"registration": 2, "authorization": 3, "token authorization_code": 2})
    world.expect_windows(3)


def several(world: World) -> None:
    server = world.provider()
    editors = [world.editor(server) for _ in range(PROXIES)]
    world.sign_in()
    for editor in editors:
        editor.wait_until_ready()
        editor.call()
    expect_counts(server, SIGNED_IN)
    world.expect_windows(1)
    # All are refused at once, and the authorization server accepts each refresh token once.
    server.refuse_tokens()
    requests = [editor.begin_call() for editor in editors]
    for editor, request in zip(editors, requests, strict=True):
        editor.end_call(request)
    expect_counts(server, SIGNED_IN | {"token refresh_token": 1})
    world.expect_windows(1)


def unlisted_scopes(world: World) -> None:
    server = world.provider(unlisted=True)
    signed_in(world, server)
    # The first registration names the scopes of the server.
    expect_counts(server, SIGNED_IN | {"registration refused": 1})
    world.expect_windows(1)


def killed(world: World) -> None:
    server = world.provider()
    first = world.editor(server)
    world.window()
    second = world.editor(server)
    world.expect_windows(1)
    first.proxy.kill()
    world.sign_in()
    second.wait_until_ready()
    second.call()
    # The registration of the first one is used again.
    expect_counts(server, SIGNED_IN)
    world.expect_windows(2)


def proven(world: World) -> None:
    server = world.provider(dpop=True)
    editor = signed_in(world, server)
    server.refuse_tokens()
    editor.call()
    expect_counts(server, SIGNED_IN | {"token refresh_token": 1})
    world.expect_windows(1)


def other_device(world: World) -> None:
    server = world.provider()
    editor = world.editor(server, "--device-code")
    url, code = shown_code(editor)
    page = world.browser.sign_in(url, code=code)
    expect("success" in page.text.lower(), f"the browser has ended at {page.url}: {page.text}")
    editor.wait_until_ready()
    editor.call()
    counts = server.counts()
    expect(counts["registration"] == counts["device_authorization"] == 1, f"the counts are {counts}")
    expect("authorization" not in counts, "a browser of this machine was used")
    world.expect_windows(0)


def shown_code(editor: Editor) -> tuple[str, str]:
    """The URL and the code that the proxy shows on standard error."""
    found: list[tuple[str, str]] = []

    def is_shown() -> bool:
        text = " ".join(editor.proxy.transcript(50))
        found.extend(re.findall(r"open (\S+) in a browser.* enter the code ([A-Z-]+)", text))
        return bool(found)

    wait_until(is_shown, "a code on standard error")
    return found[0]


def own_server(world: World) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    provider = world.provider(jwtResource=url)
    with urllib.request.urlopen(f"{provider.issuer}/jwks") as response:
        keys = world.folder / "keys.json"
        keys.write_bytes(response.read())
    program = str(world.install / "protected_server")
    world.start("protected_server", [program, f"127.0.0.1:{port}", provider.issuer, str(keys)], [port])
    signed_in(world, Protected(url, provider.issuer, Call("whoami", {}, "Hello, ada!")))
    expect_counts(provider, SIGNED_IN)
    world.expect_windows(1)


def typescript_sdk(world: World, *options: str) -> None:
    issuer, port = free_port(), free_port()
    script = world.install / "npm/node_modules/@modelcontextprotocol/sdk/dist/esm/examples/server/simpleStreamableHttp.js"
    preload = Path(__file__).resolve().parents[1] / "servers" / "loopback.cjs"
    variables = {"MCP_PORT": str(port), "MCP_AUTH_PORT": str(issuer)}
    command = ["node", "--require", str(preload), str(script), "--oauth", *options]
    world.start("typescript-sdk", command, [issuer, port], **variables)
    call = Call("greet", {"name": "Ada"}, "Hello, Ada!")
    server = Protected(f"http://localhost:{port}/mcp", f"http://localhost:{issuer}", call)
    signed_in(world, server)
    world.expect_windows(1)


def simple_auth(world: World, module: str, ports: list[int], *options: str) -> None:
    """Starts a part of the example `simple-auth` of the Python SDK."""
    # The virtual environment of FastMCP has the same version of the SDK, and all that the example imports.
    python = str(world.install / "fastmcp-4" / "bin" / "python")
    examples = world.install / "python-sdk" / "examples" / "servers" / "simple-auth"
    command = [python, "-B", "-m", f"mcp_simple_auth.{module}", f"--port={ports[0]}", *options]
    world.start(module, command, ports, PYTHONPATH=str(examples))


def python_sdk(world: World) -> None:
    issuer, port = free_port(), free_port()
    simple_auth(world, "auth_server", [issuer])
    simple_auth(world, "server", [port], f"--auth-server=http://localhost:{issuer}", "--oauth-strict")
    server = Protected(f"http://localhost:{port}/mcp", f"http://localhost:{issuer}", Call("get_time", {}, "timezone"))
    signed_in(world, server)
    world.expect_windows(1)


def python_sdk_legacy(world: World) -> None:
    port = free_port()
    simple_auth(world, "legacy_as_server", [port])
    origin = f"http://localhost:{port}"
    signed_in(world, Protected(f"{origin}/mcp", origin, Call("get_time", {}, "timezone")))
    world.expect_windows(1)


#: What each cell is about. `README.md` lists what must hold.
CELLS: dict[str, Callable[[World], None]] = {
    "first-call": first_call,
    "refresh": refreshed,
    "expiry": expired,
    "account": account,
    "elsewhere": elsewhere,
    "check": checked,
    "denied": denied,
    "not-interactive": not_interactive,
    "step-up": step_up,
    "registered-scopes": registered_scopes,
    "unlisted-scopes": unlisted_scopes,
    "five-proxies": several,
    "killed": killed,
    "device-code": other_device,
    "dpop": proven,
    "own-server": own_server,
    "typescript-sdk": typescript_sdk,
    "typescript-strict": lambda world: typescript_sdk(world, "--oauth-strict"),
    "python-sdk": python_sdk,
    "python-sdk-legacy": python_sdk_legacy,
}
