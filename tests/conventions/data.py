"""The names that the conventions are about; the rules themselves are in `rules.py`. Extend the lists here."""

from dataclasses import dataclass
from typing import Final

PACKAGES: Final = ("bot", "channels", "lockgate", "policy")
"""The source packages, top-level folders."""

MAX_FILE_LINES: Final = 600
MAX_FUNCTION_LINES: Final = 50


@dataclass(frozen=True, slots=True)
class Reserved:
    """A function that only some modules may call, pass on or subclass, by its full name."""

    name: str
    modules: tuple[str, ...]
    why: str


RESERVED: Final = (
    Reserved(
        "policy.labels.Label", ("policy", "bot.access.labelling"), "labels are made by configuration and runtime facts"
    ),
    Reserved(
        "policy.labels.parse",
        (
            *("policy", "bot.access.labelling", "bot.config", "bot.store", "bot.cli", "bot.commands"),
            # these read labels they wrote themselves: beside files, in what events tell, in the audit, of what failed
            # in another process, in references to states of workflows
            *("bot.files", "bot.sessions.log.serialization", "bot.audit.visibility", "bot.failures"),
            # of connections in another process
            *("bot.lineage.loading", "bot.api.mcp_server.kept_taints"),
            # the facts of an audit row, for another policy to decide by
            "bot.operations.rehearsal.rehearsal",
            # what is read from an export counts under a known key alone, see `bot.operations.importing`
            "bot.sessions.exports",
        ),
        "a label's text is read from configuration, the store and a person's typing only",
    ),
)


BODY_READERS: Final = (
    # the one place that knows how events, messages and questions are written as JSON
    "bot.sessions.log.serialization",
    # a row of the audit is facts for people, of whatever kind: its body has no class
    "bot.audit",
)
"""Modules that may look into a `body` by the names of its fields."""


@dataclass(frozen=True, slots=True)
class Site:
    """A method or function that is called in one place of the whole application.

    `call` is the name after the last dot; whatever it is called on counts, but for the `harmless` names, which are
    known to hold something else. A `planned` site may still be missing; otherwise there must be exactly one.
    `apart_from` names modules that do not have the protected thing at hand.
    """

    call: str
    module: str
    harmless: frozenset[str] = frozenset()
    planned: bool = False
    apart_from: tuple[str, ...] = ("policy",)


SITES: Final = (
    Site("decide", "bot.gate.judge"),
    # the tool port's `run`; a new receiver of that name is either harmless and listed, or a way round the gate
    Site(
        "run",
        "bot.gate.gate",
        frozenset(
            {
                *("agent", "anyio", "asyncio", "calls", "command", "gate", "subprocess", "uvicorn"),
                "stateless",  # the library's server of MCP without connections
            }
        ),
        apart_from=("policy", "channels", "bot.store", "bot.cli", "bot.__main__"),
    ),
    # an MCP server is sent messages of its protocol, by a tool that the gate runs
    # ASGI, and the library of HTTP, call it `send` what they write to a program
    Site("send", "bot.delivery.outbox", frozenset({"messages", "stdin"}), apart_from=("policy", "channels", "bot.api")),
    Site("preview", "bot.delivery.previews", frozenset({"outbox"}), apart_from=("policy", "channels")),
    Site("mint_child", "bot.gate"),
    Site("mint_run", "bot.gate"),
)

PURE_IMPORTS: Final = frozenset(
    {
        *("abc", "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "difflib", "enum", "fnmatch"),
        *(
            "fractions",
            "functools",
            "hashlib",
            "heapq",
            "itertools",
            "json",
            "math",
            "numbers",
            "operator",
            "re",
            "string",
            "types",
        ),
        *("typing", "typing_extensions", "unicodedata"),
        *("cel", "phonenumbers", "pydantic", "pydantic_core", "re2", "stdnum"),
        "zoneinfo",  # reads the table of a time zone, when a policy is loaded and never when it decides
        "policy",
    }
)
"""All that `policy` may import: no name here does I/O by being imported or called as we call it."""

IMPURE_CALLS: Final = frozenset({"open", "print", "input", "eval", "exec", "compile", "__import__", "breakpoint"})
"""Builtins that `policy` may not call."""

IMMUTABLE_ANNOTATIONS: Final = frozenset({"Mapping", "Sequence", "Set", "AbstractSet", "Collection", "Iterable"})
"""Annotations under which the type checker refuses to change a module-level value."""
