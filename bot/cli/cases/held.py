"""Held results in cases of a policy, and the references to them in the call of a case.

A case gives each held result an id of its own. Its call is taken apart and decided as the gate does it. A call that the
gate refuses before it asks the policy is no case, so it is an error with the reason.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, cast

from pydantic import JsonValue

from bot.access.decision_context import Call
from bot.cli.cases.tools import called_tool
from bot.config.model import Config
from bot.core.errors import OperatorError
from bot.gate.references import holds, referring
from bot.mcp.shapes import shape, takes
from bot.sessions.background.delegation import FieldKind
from bot.sessions.log.event_types import HeldAnswer
from bot.sessions.log.events import DeferredResult
from bot.tools.arguments import strings
from bot.tools.base import Arguments, RefusedCallError
from bot.tools.held.conditions import IF, NO_EFFECT
from bot.tools.held.entries import identifiers
from bot.tools.held.handles import TakenKind, is_handle
from bot.tools.references import Asked, asked, may_hold, mentions, pointing, referred
from policy.document.model import Document
from policy.errors import nearest
from policy.labels import PUBLIC, Label
from policy.request import Effect, Request, ToolFacts

DESCRIBE: Final = "describe it under `request.held`, as `ID: {label: LABEL, tool: TOOL}`"
"""The next step for a reference to a result that the case does not have."""


@dataclass(frozen=True, slots=True)
class CalledTool:
    """The tool of a case, as far as the arguments of its call are taken apart."""

    name: str
    effect: Effect
    server: str
    arguments: type[Arguments]
    takes: Mapping[str, TakenKind]


def held_result(
    config: Config, ref: str, label: Label, *, tool: str, answer: Mapping[str, FieldKind]
) -> DeferredResult:
    """Return a held result of a case, of which nothing but its label is known.

    `tool` is the tool that gave it, in a call that the conversation itself fixed; empty for none in particular.
    `answer` has the fields of a bounded answer.

    Raises OperatorError: the configuration has no such tool.
    """
    known = called_tool(config, tool)
    if tool and known is None:
        raise OperatorError(
            f"the held result `{ref}` is of an unknown tool `{tool}`",
            next_step="name a tool of this program or of `mcp_servers`, or leave it out",
        )
    described = None if known is None or known.described is None else shape(known.described.output)
    listed = () if described is None else identifiers(described, None, str, own=True)
    fields = tuple((name, kind is FieldKind.BOOLEAN) for name, kind in answer.items())
    held = DeferredResult(ref, "", label, label, server="" if known is None or not listed else known.server)
    return replace(held, listed=listed, tool=tool, answer=HeldAnswer(fields, counted=True) if fields else None)


def with_references(
    request: Request, config: Config, policy: Document, held: tuple[DeferredResult, ...], *, heard: bool
) -> Request:
    """Return the request of a case as the gate makes it of a call with references, `_hold` or `_if`; any other as is.

    `heard` says whether the conversation heard a bounded answer.

    Raises OperatorError: a reference names no held result of the case, or the gate refuses the call.
    """
    given = cast("dict[str, JsonValue]", dict(request.arguments))
    if request.tool is None or not (mentions(given) or IF in given):
        return request
    tool = request.tool
    given = dict(pointing(Call("case", tool.name, given)).arguments or {})
    names = [one.ref for one in held]
    for ref in referred(given):
        if ref not in names:
            raise OperatorError(f"the case has no held result `{ref}`{nearest(ref, names)}", next_step=DESCRIBE)
    called = _called(config, tool)
    try:
        taken = _taken_apart(called, tool, given, held)
        hold = holds(policy, called, taken, untrusted=request.taint.untrusted)
    except RefusedCallError as refusal:
        raise OperatorError(
            f"the gate refuses this call under every policy: {refusal}",
            next_step="mend its arguments, or `request.held`",
        ) from None
    opened = taken.opened()
    return replace(
        referring(request, policy.bounds(tool.name), taken, heard=heard),
        arguments=tuple(opened.items()),
        content="\n".join(strings(opened)),
        held=hold,
        carried=taken.content_floor.join(taken.floor.secrecy),
    )


def _taken_apart(
    called: CalledTool, tool: ToolFacts, given: Mapping[str, JsonValue], held: tuple[DeferredResult, ...]
) -> Asked:
    """Return a call taken apart. Raises RefusedCallError: the gate refuses it."""
    if not (may_hold(called) or called.takes):
        raise RefusedCallError("a tool of the effect `none` takes no references, so give `request.tool` its `effect`")
    taken = asked(called, given, (*held, *_handles(called, given)))
    if taken.condition is not None and not tool.consequential:
        raise RefusedCallError(NO_EFFECT)
    return taken


def _called(config: Config, tool: ToolFacts) -> CalledTool:
    known = called_tool(config, tool.name)
    if known is None:
        return CalledTool(tool.name, tool.effect, tool.server, Arguments, {})
    taken = takes({} if known.described is None else known.described.arguments)
    return CalledTool(tool.name, tool.effect, tool.server or known.server, known.arguments, taken)


def _handles(called: CalledTool, given: Mapping[str, JsonValue]) -> Iterator[DeferredResult]:
    """Yield the handles in a call. Each counts as one of its conversation, where its level was read already."""
    kinds = {kind.kind for kind in called.takes.values()}
    for text in dict.fromkeys(strings(dict(given))):
        kind = next((one for one in kinds if is_handle(one, text)), "")
        if kind:
            yield DeferredResult(text, '""', PUBLIC, PUBLIC, kind, called.server)
