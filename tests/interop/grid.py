"""The columns and the rows of the matrix, and what a row truly lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from servers import (
    EVERYTHING,
    HERE,
    MODERN,
    REVISIONS,
    EverythingTools,
    OwnTools,
    Server,
    all_servers,
    node,
    python,
    rmcp,
    typescript_2,
)

#: The features, and the letter of each in the matrix.
FEATURES = {
    "tools": "T",
    "progress": "P",
    "elicitation": "E",
    "sampling": "S",
    "cancel": "C",
    "list": "L",
    "subscription": "U",
}


@dataclass(frozen=True)
class Editor:
    """A client of an SDK in one of its ways to begin."""

    name: str
    title: str
    mode: str
    """`legacy` or `modern`."""
    program: Callable[[Path], list[str]]

    @property
    def revision(self) -> str:
        return MODERN if self.mode == "modern" else REVISIONS[-1]


def javascript(name: str) -> Callable[[Path], list[str]]:
    return lambda install: ["node", str(HERE / "editors" / f"{name}.mjs"), str(install / "npm")]


def interpreted(name: str) -> Callable[[Path], list[str]]:
    script = HERE / "editors" / f"{name.replace('-', '_')}.py"
    return lambda install: [str(install / name / "bin" / "python"), "-B", str(script)]


def compiled(install: Path) -> list[str]:
    return [str(install / "rmcp" / "rmcp-client")]


EDITORS = (
    Editor("ts1", "TypeScript 1.32", "legacy", javascript("typescript_1")),
    Editor("ts2-legacy", "TypeScript 2.4 legacy", "legacy", javascript("typescript_2")),
    Editor("ts2-modern", "TypeScript 2.4 modern", "modern", javascript("typescript_2")),
    Editor("py1", "Python 1.30", "legacy", interpreted("python-1")),
    Editor("py2-legacy", "Python 2.3 legacy", "legacy", interpreted("python-2")),
    Editor("py2-modern", "Python 2.3 modern", "modern", interpreted("python-2")),
    Editor("rmcp", "rmcp 3.11", "legacy", compiled),
    Editor("rmcp-modern", "rmcp 3.11 modern", "modern", compiled),
)


@dataclass
class Row:
    """A server, and how the proxy is told to reach it."""

    name: str
    title: str
    server: Server
    options: tuple[str, ...] = ()
    editors: tuple[str, ...] = ("legacy", "modern")
    """The editors whose cells say something that another row does not."""
    is_stdio: bool = False
    """Whether the proxy starts the server, and speaks with it over stdio."""
    forced: str = ""
    """The era that the options leave."""
    like: str = ""
    """The server behind the gateway, whose features the row has."""

    def era(self, editor: Editor) -> str:
        """The one that the proxy speaks with the server: the editor's own, if the server has it."""
        if self.forced:
            return self.forced
        has = {"legacy": bool(self.server.highest), "modern": bool(self.server.newest)}
        return editor.mode if has[editor.mode] else {"legacy": "modern", "modern": "legacy"}[editor.mode]

    def revision(self, editor: Editor) -> str:
        """The one that the proxy speaks with the server."""
        return self.server.newest if self.era(editor) == "modern" else self.server.highest

    def shown(self, editor: Editor) -> str:
        """The revision that the editor ends up with: the server's, but across the eras its own."""
        return self.revision(editor) if self.era(editor) == editor.mode else editor.revision


def rows() -> list[Row]:
    known = {server.name: server for server in all_servers()}
    own = OwnTools()
    python_2 = known["python-2-http"]
    fastmcp_4 = Server("fastmcp-4", "/mcp", own, python("fastmcp-4", "http"), newest=MODERN)
    ts2 = Server("typescript-2", "/mcp", own, typescript_2("http"), highest="", newest=MODERN)
    rust = Server("rmcp", "/mcp", own, rmcp("http"), newest=MODERN)
    over_http = [
        Row("every", "server-everything 2026.8.31", known["everything-http"]),
        Row("every-sse", "the same, HTTP+SSE", known["everything-sse"]),
        Row("mcp-hub", "mcp-hub 4.2, HTTP+SSE", known["mcp-hub"]),
        Row("python-1", "Python 1.30", known["python-1-http"]),
        Row("python-2", "Python 2.3", python_2),
        to_modern("python-2-modern", "Python 2.3", python_2),
        to_legacy("python-2-legacy", "Python 2.3", python_2),
        Row("fastmcp-4", "FastMCP 4.2", fastmcp_4),
        to_modern("fastmcp-4-modern", "FastMCP 4.2", fastmcp_4),
        Row("ts2", "TypeScript 2.4, modern only", ts2),
        Row("rmcp", "rmcp 3.11", rust),
        to_modern("rmcp-modern", "rmcp 3.11", rust),
        to_legacy("rmcp-legacy", "rmcp 3.11", rust),
    ]
    over_stdio = [Row(server.name, f"{title}, stdio", server, is_stdio=True) for title, server in stdio_servers()]
    return [*over_http, *over_stdio]


def stdio_servers() -> list[tuple[str, Server]]:
    """The servers over stdio, with their titles."""
    own, every = OwnTools(), EverythingTools()
    return [
        ("server-everything", Server("every-stdio", "", every, node(EVERYTHING, "stdio"))),
        ("Python 1.30", Server("python-1-stdio", "", own, python("python-1", "stdio"))),
        ("Python 2.3", Server("python-2-stdio", "", own, python("python-2", "stdio"), newest=MODERN)),
        ("TypeScript 2.4, modern only", Server("ts2-stdio", "", own, typescript_2("stdio"), highest="", newest=MODERN)),
        ("rmcp 3.11", Server("rmcp-stdio", "", own, rmcp("stdio"), newest=MODERN)),
    ]


def gateway_rows(gateway: list[str]) -> list[Row]:
    """The servers over stdio, each behind a gateway, which is started by this command."""
    return [behind(gateway, title, server) for title, server in stdio_servers()]


def behind(gateway: list[str], title: str, server: Server) -> Row:
    """Any server behind a gateway has sessions in every revision that begins with `initialize`."""

    def command(install: Path, folder: Path, port: int) -> list[str]:
        words = [word.replace("{address}", f"127.0.0.1:{port}") for word in gateway]
        return [*words, *server.command(install, folder, port)]

    name = server.name.replace("-stdio", "-gateway")
    served = replace(server, name=name, path="/mcp", command=command, highest=server.highest or REVISIONS[-1])
    return Row(name, f"{title}, gateway", served, like=server.name)


def to_modern(name: str, title: str, server: Server) -> Row:
    """For editors of the other era: where it is left to the proxy, it speaks theirs."""
    options = ("--protocol", "modern")
    return Row(name, f"{title}, `{' '.join(options)}`", server, options, ("legacy",), forced="modern")


def to_legacy(name: str, title: str, server: Server) -> Row:
    options = ("--protocol", "legacy")
    return Row(name, f"{title}, `{' '.join(options)}`", server, options, ("modern",), forced="legacy")


HUB_IS_A_CLIENT = "the hub is a client of its servers that offers them nothing, and passes on no progress token"
NO_SUBSCRIPTIONS = "the server takes no subscriptions"
NOT_SAID = "whatever a program does, the SDK says that it takes no subscriptions"
NO_LISTEN = "FastMCP does not answer subscriptions/listen"

#: What a server truly does not do, in which eras, and why: (server, feature) to (eras, reason).
LACKS: dict[tuple[str, str], tuple[tuple[str, ...], str]] = {
    ("mcp-hub", "progress"): (("legacy",), HUB_IS_A_CLIENT),
    ("mcp-hub", "elicitation"): (("legacy",), HUB_IS_A_CLIENT),
    ("mcp-hub", "sampling"): (("legacy",), HUB_IS_A_CLIENT),
    ("mcp-hub", "subscription"): (("legacy",), NO_SUBSCRIPTIONS),
    ("python-1-http", "subscription"): (("legacy",), NOT_SAID),
    ("python-1-stdio", "subscription"): (("legacy",), NOT_SAID),
    ("fastmcp-4", "subscription"): (("legacy", "modern"), NO_SUBSCRIPTIONS),
    ("fastmcp-4", "list"): (("modern",), NO_LISTEN),
}


def lacking(row: Row, editor: Editor, feature: str) -> str | None:
    eras, reason = LACKS.get((row.like or row.server.name, feature), ((), ""))
    return reason if row.era(editor) in eras else None
