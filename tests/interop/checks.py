"""What is checked of a conversation between an editor and a server, with the proxy between them."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from processes import environment
from proxy import Id, Params, Proxy, Received, expect, shorten
from servers import ELICITED_NAME, REVISIONS, ROOT_URI, SAMPLED_TEXT, Call, OwnTools, Server, Tools

#: In the language of the protocol: what the editor can do.
CAPABILITIES: Params = {"sampling": {}, "roots": {"listChanged": True}, "elicitation": {}}

ANSWERS: dict[str, Callable[[Params], Params]] = {
    "ping": lambda params: {},
    "sampling/createMessage": lambda params: {
        "role": "assistant",
        "model": "the-driver",
        "content": {"type": "text", "text": SAMPLED_TEXT},
    },
    "roots/list": lambda params: {"roots": [{"uri": ROOT_URI, "name": "root"}]},
    "elicitation/create": lambda params: {"action": "accept", "content": {"name": ELICITED_NAME}},
}

#: A call of this length is still running when a quick one after it is answered, even on a busy machine.
SLOW = 1.0
#: How soon the editor hears of calls that a dying server took with it, counted from when the server is up again.
LOSS_PATIENCE = 5.0
#: How long the proxy may take to end once nothing is left to do.
END_PATIENCE = 5.0


@dataclass
class Conversation:
    """One run of the proxy against one server at one revision."""

    server: Server
    asked: str
    proxy: Proxy
    lost_call: Id = 0
    server_was_back_at: float = 0.0
    cancelled: list[tuple[Id, float]] = field(default_factory=list)

    @property
    def tools(self) -> Tools:
        return self.server.tools

    def start_call(self, call: Call, token: Id | None = None) -> Id:
        return self.proxy.send("tools/call", call.params(token))

    def call(self, call: Call, patience: float = 15.0) -> Received:
        received = self.proxy.response(self.start_call(call), patience)
        expect_text(received, call)
        return received

    def text(self, call: Call) -> str:
        return self.call(call).result["content"][0]["text"]


def own_tools(talk: Conversation) -> OwnTools:
    tools = talk.tools
    expect(isinstance(tools, OwnTools), "the server has no tool for this")
    return cast(OwnTools, tools)


def expect_text(received: Received, call: Call) -> None:
    result = received.result
    expect(not result.get("isError", False), f"the tool failed: {shorten(json.dumps(result))}")
    expect_said([content.get("text", "") for content in result["content"]], call)


def expect_said(texts: list[str], call: Call) -> None:
    # Some tools quote the text as JSON in their own.
    wanted = {call.text, json.dumps(call.text)[1:-1], json.dumps(call.text, ensure_ascii=False)[1:-1]}
    expect(any(want in text for want in wanted for text in texts), f"{call.text!r} is not in {shorten(str(texts))}")


def initialize(talk: Conversation) -> None:
    result = talk.proxy.ask("initialize", initialize_params(talk.asked)).result
    expected = talk.server.revision_for(talk.asked)
    got = result["protocolVersion"]
    expect(got == expected, f"revision {got} instead of {expected}")
    expect(
        "tools" in result["capabilities"] and "name" in result["serverInfo"], "what the server says of itself is lost"
    )


def initialize_params(revision: str) -> Params:
    return {
        "protocolVersion": revision,
        "capabilities": CAPABILITIES,
        "clientInfo": {"name": "interop", "version": "1"},
    }


def initialized(talk: Conversation) -> None:
    """A notification has no answer; what can be seen is that the session is usable after it."""
    talk.proxy.notify("notifications/initialized")
    expect(talk.proxy.ask("ping").result == {}, "the result of ping is not empty")


def list_tools(talk: Conversation) -> None:
    # server-everything registers some of its tools only when it has read that the editor is initialized.
    names = {tool["name"] for tool in talk.proxy.ask("tools/list").result["tools"]}
    for call in (talk.tools.echo(""), talk.tools.work(0, 1), talk.tools.failing()):
        expect(call.name in names, f"{call.name} is not among {sorted(names)}")


def progress(talk: Conversation) -> None:
    """Two calls at once, whose tokens differ in nothing but their type."""
    call = talk.tools.work(0.3, 3)
    tokens: tuple[Id, Id] = ("7", 7)
    for token, request in [(token, talk.start_call(call, token)) for token in tokens]:
        answer = talk.proxy.response(request)
        expect_text(answer, call)
        told = talk.proxy.progress(token)
        steps = [received.message["params"]["progress"] for received in told]
        expect(steps == [1, 2, 3], f"progress {steps} for the token {token!r}")
        expect(all(received.position < answer.position for received in told), "progress after the answer")
    talk.call(talk.tools.echo("after progress"))


def asks(method: str) -> Callable[[Conversation], None]:
    """The server asks the editor, whose answer shows in the result."""

    def check(talk: Conversation) -> None:
        talk.call(talk.tools.asking(method))
        expect(talk.proxy.asked(method) > 0, f"the result came without {method}")

    return check


def unknown_tool(talk: Conversation) -> None:
    """Servers differ: a result that is an error, or an error."""
    message = talk.proxy.ask("tools/call", {"name": "no-such-tool", "arguments": {}}).message
    is_refused = "error" in message or message["result"].get("isError") is True
    expect(is_refused, f"no error: {shorten(json.dumps(message))}")


def unknown_method(talk: Conversation) -> None:
    error = talk.proxy.ask("no/such/method", {}).error
    expect(error["code"] < 0 and error["message"] != "", f"no error of JSON-RPC: {error}")


def failing_tool(talk: Conversation) -> None:
    call = talk.tools.failing()
    message = talk.proxy.ask("tools/call", call.params()).message
    text = json.dumps(message.get("error") or message["result"])
    expect("error" in message or message["result"].get("isError") is True, f"no error: {shorten(text)}")
    expect(call.text in text, f"{call.text!r} is not in {shorten(text)}")


def ids(talk: Conversation) -> None:
    """The proxy's reader tells "1" from 1; both are open at once."""
    calls = [talk.tools.echo("text"), talk.tools.echo("number")]
    requests: list[Id] = ["1", 1]
    for request, call in zip(requests, calls, strict=True):
        talk.proxy.send("tools/call", call.params(), request)
    for request, call in zip(requests, calls, strict=True):
        expect_text(talk.proxy.response(request), call)


def concurrency(talk: Conversation) -> None:
    slow = talk.tools.work(SLOW, 2)
    request = talk.start_call(slow)
    quick = [talk.tools.echo(f"quick {number}") for number in range(10)]
    for open_request, call in [(talk.start_call(call), call) for call in quick]:
        expect_text(talk.proxy.response(open_request), call)
    expect(not talk.proxy.is_answered(request), "the quick calls waited for the slow one")
    expect_text(talk.proxy.response(request), slow)


def cancellation(talk: Conversation) -> None:
    """No answer may come, even when the server would have given one by the end of the conversation."""
    request = talk.start_call(talk.tools.work(SLOW, 2, talk.asked))
    # The server gets to read the call before it reads that it is cancelled.
    time.sleep(0.2)
    talk.proxy.cancel(request)
    talk.cancelled.append((request, time.monotonic() + SLOW))
    before = time.monotonic()
    talk.call(talk.tools.echo("next"))
    took = time.monotonic() - before
    expect(took < SLOW / 2, f"the next call waited {took:.2f} s")


def cancellation_seen(talk: Conversation) -> None:
    """The server itself stopped the call."""

    call = own_tools(talk).was_cancelled(talk.asked)
    talk.proxy.wait_until(lambda: talk.text(call) == "yes", "the cancellation of the call on the server", 3.0)


def ten_megabytes(talk: Conversation) -> None:
    contents = talk.proxy.ask("tools/call", talk.tools.big().params(), patience=40.0).result["content"]
    talk.tools.check_big(contents[0])


def resumption(talk: Conversation) -> None:
    """The server ends the stream of a call before the answer, which is to be fetched from another stream.

    Once the answer is there before the proxy comes back, and once it comes later.
    """
    tools = own_tools(talk)
    before = int(talk.text(tools.resumptions()))
    for seconds in (0.0, 0.5):
        talk.call(tools.hang_up(seconds))
    resumed = int(talk.text(tools.resumptions())) - before
    expect(resumed >= 2, f"only {resumed} of 2 streams were resumed")


def wait_for_loss(talk: Conversation) -> Received:
    rest = talk.server_was_back_at + LOSS_PATIENCE - time.monotonic()
    return talk.proxy.response(talk.lost_call, max(rest, 0.1))


def restart(talk: Conversation) -> None:
    """The server dies in the middle of a call, and one that knows nothing of the session takes its place."""
    talk.lost_call = talk.start_call(talk.tools.work(60.0, 600), "lost")
    time.sleep(0.3)
    talk.server.kill()
    talk.server.start()
    talk.server_was_back_at = time.monotonic()
    # Where the lost call's stream is resumed, the proxy may learn of the loss at this very moment, and every call that
    # is in flight then fails with it. This one is made after that, or is the one that learns of it.
    wait_for_loss(talk)
    talk.call(talk.tools.echo("after the restart"))


def lost_call(talk: Conversation) -> None:
    """The call that died with the server may have had effects, so it is not made again: it fails, and soon."""
    expect(talk.server_was_back_at > 0, "the server was not started again")
    message = wait_for_loss(talk).error["message"]
    expect(talk.server.url() in message, f"no URL in: {message}")


def end_of_input(talk: Conversation) -> None:
    # Until here, an answer to the cancelled call would have come.
    for _, answer_due in talk.cancelled:
        time.sleep(max(0.0, answer_due - time.monotonic()))
    call = talk.tools.work(0.5, 1)
    request = talk.start_call(call)
    # The call is on its way to the server, and not only in the pipe.
    time.sleep(0.1)
    talk.proxy.end_input()
    expect_text(talk.proxy.response(request), call)
    code = talk.proxy.wait_for_end(END_PATIENCE)
    expect(code == 0, f"exit code {code}")


def wire(talk: Conversation) -> None:
    """Every line was valid JSON-RPC, and every request has exactly one answer, but the cancelled ones none."""
    faults = talk.proxy.faults + [f"never answered: {request}" for request in talk.proxy.unanswered()]
    expect(not faults, "; ".join(faults))


#: In the order in which they are made.
CONVERSATION: dict[str, Callable[[Conversation], None]] = {
    "initialize": initialize,
    "initialized": initialized,
    "tools/list": list_tools,
    "progress": progress,
    "sampling": asks("sampling/createMessage"),
    "elicitation": asks("elicitation/create"),
    "unknown tool": unknown_tool,
    "unknown method": unknown_method,
    "failing tool": failing_tool,
    "ids": ids,
    "concurrency": concurrency,
    # Python servers ask for roots on the stream that belongs to no call, and without an event store they forget what
    # they say there before the proxy has opened it. After a call that takes a second, it is open.
    "roots": asks("roots/list"),
    "cancellation": cancellation,
    "cancellation seen": cancellation_seen,
    "10 MB": ten_megabytes,
    "resumption": resumption,
    "restart": restart,
    "lost call": lost_call,
    "sampling again": asks("sampling/createMessage"),
    "end of input": end_of_input,
    "wire": wire,
}


# What is checked once per server, or once.


def doctor(command: list[str], server: Server) -> None:
    """`--check` finds the server fine, and says which revision it speaks: the newest, and the newest with a handshake."""
    handshake = server.revision_for(REVISIONS[-1])
    for options, revision in ((), server.newest or handshake), (("--protocol", "legacy"), handshake):
        asked = [*command, "--check", *options]
        run = subprocess.run(asked, capture_output=True, text=True, env=environment(), timeout=60)
        expect(run.returncode == 0, f"exit code {run.returncode}: {run.stdout} {run.stderr}")
        lines = [line.split() for line in run.stdout.splitlines()]
        expect(["revision:", revision] in lines, f"no revision {revision} in {run.stdout}")


def unknown_authority(command: list[str]) -> None:
    """Without the private authority, the editor hears why."""
    proxy = Proxy(command, ANSWERS)
    try:
        message = proxy.ask("initialize", initialize_params(REVISIONS[-1])).error["message"]
        expect("certificate" in message.lower(), f"no word of the certificate: {message}")
        proxy.end_input()
        expect(proxy.wait_for_end(END_PATIENCE) == 0 and not proxy.faults, f"faults: {proxy.faults}")
    finally:
        proxy.finish()


def dead_server(command: list[str], server: Server) -> None:
    """An editor that comes before its server gets an error at once, and works when it asks again."""
    proxy = Proxy(command, ANSWERS)
    try:
        before = time.monotonic()
        message = proxy.ask("initialize", initialize_params(REVISIONS[-1]), patience=5.0).error["message"]
        expect(server.url() in message, f"no URL in: {message}")
        expect(time.monotonic() - before < 5.0, "the error came late")
        server.start()
        talk = Conversation(server, REVISIONS[-1], proxy)
        for check in (initialize, initialized, list_tools, ids):
            check(talk)
        proxy.end_input()
        expect(proxy.wait_for_end(END_PATIENCE) == 0 and not proxy.faults, f"faults: {proxy.faults}")
    finally:
        proxy.finish()
        server.kill()
