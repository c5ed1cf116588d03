"""The fixed rules: the laws of flow as far as one request can tell, in force under every configuration.

A rule's id is the name of its law. Each rule is a function of the request, the session's taint and
the label that would result, and answers with one of a few constant outcomes, beside which stand the
remedies it offers. `LAWS` gives each hook the label that would result there and the rules that judge
it. The taint is an argument of its own so that a request can be judged as if after a reset. An approval lifts
`untrusted_cannot_command` and nothing else here; a confirmation lifts `reset_is_confirmed` alone.
Whether a reset would help is not a rule's to know: the engine finds out by deciding again.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from policy.decision import Outcome, Remedy, Verdict
from policy.labels import PUBLIC, Label
from policy.request import Destination, Effect, Hook, Request

LabelAfter = Callable[[Request, Label, Label], Label]
FixedRule = Callable[[Request, Label, Label], Outcome]
FixedLaws = tuple[LabelAfter, tuple[FixedRule, ...]]

APPROVED: Final = "approved"

# Bound once: looking a member up on its class takes ten times as long as comparing with it.
_PRE_OUTPUT = Hook.PRE_OUTPUT
_WRITE = Effect.WRITE
_SEND = Effect.SEND


def outgoing(request: Request, taint: Label) -> Label:
    """Return the label of what would leave: the session's taint, joined with the item of an output."""
    return taint.join(request.item) if request.item is not None and request.hook is _PRE_OUTPUT else taint


def _unchanged(_request: Request, taint: Label, _top: Label) -> Label:
    return taint


def _with_result(request: Request, taint: Label, _top: Label) -> Label:
    """Join what the call would return; a tool without a label is left to `unknown_is_worst`."""
    tool = request.tool
    return taint if tool is None or tool.result is None else taint.join(tool.result)


def _with_item(request: Request, taint: Label, top: Label) -> Label:
    """Join what would enter the context; what has no label enters as the highest of the configuration."""
    return taint.join(top if request.item is None else request.item)


def _reset(_request: Request, _taint: Label, _top: Label) -> Label:
    return PUBLIC


def _allow(rule: str, message: str = "") -> Outcome:
    return Outcome(rule, Verdict.ALLOW, fixed=True, message=message)


def _block(rule: str, message: str, *remedies: Remedy) -> Outcome:
    return Outcome(rule, Verdict.BLOCK, fixed=True, message=message, remedies=remedies)


def _ask(rule: str, message: str, *remedies: Remedy) -> Outcome:
    return Outcome(rule, Verdict.REQUIRE_APPROVAL, fixed=True, message=message, remedies=remedies)


_KNOWN = _allow("unknown_is_worst")
_NO_TOOL = _block("unknown_is_worst", "this tool is not known", Remedy.DECLARE_TOOL)
_NO_RESULT = _block("unknown_is_worst", "this tool declares no label for its result", Remedy.DECLARE_TOOL)
_NO_DESTINATION = _block("unknown_is_worst", "the destination is not known", Remedy.OTHER_DESTINATION)


def _tool_is_known(request: Request, _taint: Label, _after: Label) -> Outcome:
    tool = request.tool
    if tool is None:
        return _NO_TOOL
    return _NO_RESULT if tool.result is None else _KNOWN


def _destination_is_known(request: Request, _taint: Label, _after: Label) -> Outcome:
    return _NO_DESTINATION if request.destination is None else _KNOWN


_FLOWS = _allow("no_write_down")
_OUTPUT_DOWN = _block(
    "no_write_down",
    "this holds more than its readers may know",
    Remedy.OTHER_DESTINATION,
    Remedy.RECLASSIFY,
)
_CALL_DOWN = _block(
    "no_write_down",
    "this session has read more than may be known where the tool writes or sends",
    Remedy.OTHER_DESTINATION,
    Remedy.RECLASSIFY,
)


def _cleared(destination: Destination | None) -> Label:
    """Return the clearance of a destination, PUBLIC when nothing is known."""
    return PUBLIC if destination is None or destination.clearance is None else destination.clearance


def _output_flows(request: Request, taint: Label, _after: Label) -> Outcome:
    return _FLOWS if outgoing(request, taint).flows_to(_cleared(request.destination)) else _OUTPUT_DOWN


def _call_flows(request: Request, taint: Label, _after: Label) -> Outcome:
    """Compare what was read with every sink of the call: the tool's own and the address it sends to."""
    tool = request.tool
    if tool is None:
        return _FLOWS
    outward = tool.effect is _WRITE or tool.effect is _SEND
    if tool.clearance is None and not outward:
        return _FLOWS
    if not taint.flows_to(tool.clearance or PUBLIC):
        return _CALL_DOWN
    if outward and request.destination is not None and not taint.flows_to(_cleared(request.destination)):
        return _CALL_DOWN
    return _FLOWS


_READABLE = _allow("read_is_decided_before_it_happens")
_ABOVE_CEILING = _block(
    "read_is_decided_before_it_happens",
    "this session would know more than the person it acts for may",
    Remedy.RECLASSIFY,
)
_ABOVE_PROVIDER = _block(
    "read_is_decided_before_it_happens",
    "this session would know more than its model provider may",
    Remedy.OTHER_MODEL,
    Remedy.RECLASSIFY,
)


def _may_be_read(request: Request, _taint: Label, after: Label) -> Outcome:
    if not after.flows_to(request.ceiling):
        return _ABOVE_CEILING
    return _READABLE if after.flows_to(request.provider) else _ABOVE_PROVIDER


_SPEAKABLE = _allow("overshoot")
_OVERSHOT = _block("overshoot", "after reading this the session could not answer here", Remedy.RECLASSIFY)


def _stays_speakable(request: Request, _taint: Label, after: Label) -> Outcome:
    return _SPEAKABLE if request.overshoot == "allow" or after.flows_to(request.home) else _OVERSHOT


_MAY_COMMAND = _allow("untrusted_cannot_command")
_WAS_APPROVED = _allow("untrusted_cannot_command", APPROVED)
_MAY_NOT_COMMAND = _ask(
    "untrusted_cannot_command",
    "this session has read something that anybody may have written",
    Remedy.APPROVER,
)


def _may_command(request: Request, taint: Label, _after: Label) -> Outcome:
    tool = request.tool
    if tool is None or not tool.consequential or not taint.untrusted:
        return _MAY_COMMAND
    return _WAS_APPROVED if request.approved else _MAY_NOT_COMMAND


_CONFIRMED = _allow("reset_is_confirmed")
_NOT_CONFIRMED = _ask("reset_is_confirmed", "a reset forgets this conversation and its workspace", Remedy.CONFIRM)


def _reset_is_confirmed(request: Request, _taint: Label, _after: Label) -> Outcome:
    return _CONFIRMED if request.confirmed else _NOT_CONFIRMED


NAMES: Final = frozenset(
    {
        "unknown_is_worst",
        "no_write_down",
        "read_is_decided_before_it_happens",
        "overshoot",
        "untrusted_cannot_command",
        "reset_is_confirmed",
        "fails_closed",
    },
)

_CALL: FixedLaws = (_with_result, (_tool_is_known, _call_flows, _may_be_read, _stays_speakable, _may_command))

LAWS: Final[Mapping[Hook, FixedLaws]] = MappingProxyType(
    {
        Hook.PRE_CONTEXT_INJECTION: (_with_item, (_may_be_read, _stays_speakable)),
        Hook.PRE_TOOL_CALL: _CALL,
        Hook.MCP_TOOL_CALL: _CALL,
        Hook.POST_TOOL_RESPONSE: (_with_item, (_tool_is_known, _may_be_read, _stays_speakable)),
        Hook.PRE_OUTPUT: (_unchanged, (_destination_is_known, _output_flows)),
        Hook.SECRET_ACCESS: (_unchanged, (_tool_is_known,)),
        Hook.SESSION_RESET: (_reset, (_reset_is_confirmed,)),
        Hook.AGENT_INVOCATION: (_unchanged, (_may_be_read,)),
    },
)
