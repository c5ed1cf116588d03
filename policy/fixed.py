"""The fixed rules: the laws of flow as far as one request can tell, in force under every configuration.

A rule's id is the name of its law. Each rule is a function of the request, the session's taint and the resulting label.
Its answer is one of a few constant outcomes, beside which stand the remedies it offers. `LAWS` gives each hook the
label that would result there and the rules that judge it. The taint is an argument of its own so that a request can be
judged as if after a reset. An approval lifts `untrusted_cannot_command`, `endorsed_cannot_steer`,
`others_cannot_command` and `standing_work_is_approved` and nothing else here, and a confirmation lifts
`reset_is_confirmed` alone. A person's release lifts `no_write_down` for one output, or for one call to the cleared sink
of its tool. A rule proposes remedies; whether one would help is not its to know: the engine finds out by deciding
again.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from policy.decision import Remedy, RuleOutcome, Verdict
from policy.labels import PUBLIC, Label
from policy.request import (
    ArgumentRole,
    Destination,
    Effect,
    Hook,
    Request,
    TakenEntry,
    ToolFacts,
    UntrustedContent,
)

LabelAfter = Callable[[Request, Label, Label], Label]
FixedRule = Callable[[Request, Label, Label], RuleOutcome]
FixedLaws = tuple[LabelAfter, tuple[FixedRule, ...]]

APPROVED: Final = "approved"
NO_TOOL: Final = "this tool is not known"

# Bound once: looking a member up on its class takes ten times as long as comparing with it.
_PRE_OUTPUT = Hook.PRE_OUTPUT
_WRITE = Effect.WRITE
_SEND = Effect.SEND
_NONE = Effect.NONE
_ASKS = UntrustedContent.ASK
_ENTRIES = frozenset({Hook.PRE_CONTEXT_INJECTION, Hook.POST_TOOL_RESPONSE})


def outgoing(request: Request, taint: Label) -> Label:
    """Return the label that leaves: the taint, the data passed by reference, and the item of an output."""
    leaving = taint.join(request.item) if request.item is not None and request.hook is _PRE_OUTPUT else taint
    return leaving if request.carried is PUBLIC else leaving.join(request.carried)


def _unchanged(_request: Request, taint: Label, _top: Label) -> Label:
    return taint


def _with_result(request: Request, taint: Label, _top: Label) -> Label:
    """Join the declared raise of the call, and its result, which may repeat data passed by reference.

    A held result enters no context, and of a spared one the level and compartments do. A tool without a label is left
    to `unknown_is_worst`.
    """
    tool = request.tool
    if tool is None or tool.result is None:
        return taint
    raised = taint if tool.raises is PUBLIC else taint.join(tool.raises)
    if request.held:
        return raised
    entering = tool.result.join(request.carried)
    return raised.join(entering.secrecy if tool.spared else entering)


def _with_item(request: Request, taint: Label, top: Label) -> Label:
    """Join the item that would enter the context; an unlabelled item counts as the highest and cannot be held."""
    if request.item is None:
        return taint.join(top)
    return taint if request.held else taint.join(request.item)


def _reset(_request: Request, _taint: Label, _top: Label) -> Label:
    return PUBLIC


def _allow(rule: str, message: str = "") -> RuleOutcome:
    return RuleOutcome(rule, Verdict.ALLOW, fixed=True, message=message)


def _block(rule: str, message: str, *remedies: Remedy) -> RuleOutcome:
    return RuleOutcome(rule, Verdict.BLOCK, fixed=True, message=message, remedies=remedies)


def _ask(rule: str, message: str, *remedies: Remedy) -> RuleOutcome:
    return RuleOutcome(rule, Verdict.REQUIRE_APPROVAL, fixed=True, message=message, remedies=remedies)


_KNOWN = _allow("unknown_is_worst")
_NO_TOOL = _block("unknown_is_worst", NO_TOOL)
_NO_RESULT = _block("unknown_is_worst", "this tool declares no label for its result", Remedy.DECLARE_TOOL)
_NO_DESTINATION = _block("unknown_is_worst", "the destination is not known", Remedy.OTHER_DESTINATION)


def _tool_is_known(request: Request, _taint: Label, _after: Label) -> RuleOutcome:
    tool = request.tool
    if tool is None:
        return _NO_TOOL
    return _NO_RESULT if tool.result is None else _KNOWN


def _destination_is_known(request: Request, _taint: Label, _after: Label) -> RuleOutcome:
    return _NO_DESTINATION if request.destination is None else _KNOWN


_FLOWS = _allow("no_write_down")
_OUTPUT_DOWN = _block(
    "no_write_down",
    "this holds more than its readers may know",
    Remedy.PRIVATE_CHAT,
    Remedy.OTHER_DESTINATION,
    Remedy.CLASSIFY_LOWER,
    Remedy.VOUCH,
    Remedy.RECLASSIFY,
    Remedy.CLEAR_READER,
)
_CALL_DOWN = _block(
    "no_write_down",
    "this session has read more than may be known where the tool writes or sends",
    Remedy.OTHER_DESTINATION,
    Remedy.VOUCH,
    Remedy.RECLASSIFY,
    Remedy.CLEAR_READER,
)
_CARRIED_DOWN = _block(
    "no_write_down",
    "the text or answer that this call refers to is above the clearance of its destination",
    Remedy.OTHER_DESTINATION,
    Remedy.VOUCH,
    Remedy.RECLASSIFY,
    Remedy.CLEAR_READER,
)
_CALL_WAITS = _ask(
    "no_write_down",
    "this is labelled above the place where the tool sends it, so a person may release exactly this call",
    Remedy.APPROVER,
)
# Where the text may be said at home, a person there can be shown it and release it.
_SEND_DOWN = replace(_CALL_DOWN, remedies=(*_CALL_DOWN.remedies, Remedy.RELEASE))


def _cleared(destination: Destination | None) -> Label:
    """Return the clearance of a destination, PUBLIC when nothing is known."""
    return PUBLIC if destination is None or destination.clearance is None else destination.clearance


def _output_flows(request: Request, taint: Label, _after: Label) -> RuleOutcome:
    if outgoing(request, taint).flows_to(_cleared(request.destination)):
        return _FLOWS
    return _released(request) if request.released else _OUTPUT_DOWN


def _released(request: Request) -> RuleOutcome:
    """Return the sole exception of the law: a person releases exactly this."""
    return _allow("no_write_down", f"released by {request.released}")


def _call_flows(request: Request, taint: Label, _after: Label) -> RuleOutcome:
    """Compare the taint and the data passed by reference with every sink: the tool's own and the destination.

    A person may release a call to the tool's own sink, if its clearance is known, and to no other destination.
    """
    tool = request.tool
    if tool is None:
        return _FLOWS
    outward = tool.effect is _WRITE or tool.effect is _SEND
    if tool.clearance is None and not outward:
        return _FLOWS
    sinks = [tool.clearance or PUBLIC]
    if outward and request.destination is not None:
        sinks.append(_cleared(request.destination))
    if request.releasable and tool.clearance is not None and _only_first_is_below(sinks, taint.join(request.carried)):
        return _released(request) if request.released else _CALL_WAITS
    if not all(taint.flows_to(sink) for sink in sinks):
        return _SEND_DOWN if tool.effect is _SEND and taint.flows_to(request.home) else _CALL_DOWN
    return _FLOWS if all(request.carried.flows_to(sink) for sink in sinks) else _CARRIED_DOWN


def _only_first_is_below(sinks: list[Label], leaving: Label) -> bool:
    """Say whether a label does not flow to the first of some sinks, and flows to all others."""
    return [leaving.flows_to(sink) for sink in sinks] == [False, *(True for _ in sinks[1:])]


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
_SHOWN_ABOVE_PROVIDER = _block(
    "read_is_decided_before_it_happens",
    "this would show a model more than its provider may know",
    Remedy.OTHER_MODEL,
    Remedy.RECLASSIFY,
)


def _held(request: Request) -> Label:
    """Return the label of the item to be held, PUBLIC if it is unknown or none is held."""
    if not request.held:
        return PUBLIC
    if request.hook in _ENTRIES:
        return PUBLIC if request.item is None else request.item
    known = None if request.tool is None else request.tool.result
    return PUBLIC if known is None else known.join(request.carried)


def _may_be_shown(request: Request, _taint: Label, after: Label) -> RuleOutcome:
    if not after.flows_to(request.ceiling):
        return _ABOVE_CEILING
    return _READABLE if after.flows_to(request.provider) else _ABOVE_PROVIDER


def _may_be_read(request: Request, taint: Label, after: Label) -> RuleOutcome:
    """Compare the label that the session would have, held or not, with its ceiling, and its context with the model.

    Data that a call shows a model are compared with the model as well.
    """
    if not _held(request).flows_to(request.ceiling):
        return _ABOVE_CEILING
    tool = request.tool
    if tool is not None and tool.shows and not request.carried.flows_to(request.provider):
        return _SHOWN_ABOVE_PROVIDER
    return _may_be_shown(request, taint, after)


_SPEAKABLE = _allow("overshoot")
_OVERSHOT = _block("overshoot", "after reading this the session could not answer here", Remedy.VOUCH, Remedy.RECLASSIFY)
# Nothing is read either; the asker is offered, alone, to have it read where it can be told.
_ELSEWHERE = replace(_OVERSHOT, remedies=(Remedy.PRIVATE_CHAT, *_OVERSHOT.remedies))


def _stays_speakable(request: Request, _taint: Label, after: Label) -> RuleOutcome:
    if request.overshoot == "allow" or after.flows_to(request.home):
        return _SPEAKABLE
    return _ELSEWHERE if request.overshoot == "ask" else _OVERSHOT


_MAY_COMMAND = _allow("untrusted_cannot_command")
_WAS_APPROVED = _allow("untrusted_cannot_command", APPROVED)
_MAY_NOT_COMMAND = _ask(
    "untrusted_cannot_command",
    "this session has read something that anybody may have written",
    Remedy.APPROVER,
)


def _asks_about_content(tool: ToolFacts) -> bool:
    said = tool.untrusted_content
    return bool(tool.server) if said is None else said is _ASKS


_MAY_NOT_CARRY = replace(_MAY_NOT_COMMAND, message="anybody may have written the text of this reference")


def _may_command(request: Request, taint: Label, _after: Label) -> RuleOutcome:
    tool = request.tool
    if tool is None or not tool.consequential:
        return _MAY_COMMAND
    if taint.untrusted:
        return _WAS_APPROVED if request.approved else _MAY_NOT_COMMAND
    if request.quotes and request.carried.untrusted and _asks_about_content(tool):
        return _WAS_APPROVED if request.approved else _MAY_NOT_CARRY
    return _MAY_COMMAND


_MAY_STEER = _allow("endorsed_cannot_steer")
_STEERING_APPROVED = _allow("endorsed_cannot_steer", APPROVED)
_MAY_NOT_STEER: Final[Mapping[ArgumentRole | None, RuleOutcome]] = MappingProxyType(
    {
        role: _ask(
            "endorsed_cannot_steer",
            f"a bounded answer from data that nobody vouches for was heard, and {words}",
            Remedy.APPROVER,
            Remedy.BOUND_TOOL,
        )
        for role, words in {
            **{role: f"its {role.value} is not within a bound of the operator" for role in ArgumentRole},
            None: "an argument without a role steers this call",
        }.items()
    }
)


_UNVOUCHED = _ask(
    "endorsed_cannot_steer", "a held value that nobody vouches for would steer this call", Remedy.APPROVER
)
_UNBOUND = _ask(
    "endorsed_cannot_steer",
    "an entry of a held list would steer this call, and no bound of the operator names it",
    Remedy.APPROVER,
    Remedy.BOUND_ENTRY,
)
_HEARD = _ask(
    "endorsed_cannot_steer",
    "an entry of a held list may depend on a bounded answer from data that nobody vouches for",
    Remedy.APPROVER,
)


def _may_steer(request: Request, _taint: Label, _after: Label) -> RuleOutcome:
    """Let endorsed values steer a call only within the operator's bounds, and a held value only if people vouch for it.

    The gate says which held values need that. An entry of a held list does if no bound names it, or if something was
    heard on which its place may depend.
    Any value may depend on an endorsed one, so all that steer the call count.
    In a call without consequences a held value only chooses the data that are read, and the result is held.
    """
    tool = request.tool
    if tool is None or not tool.consequential:
        return _MAY_STEER
    if request.unvouched:
        return _STEERING_APPROVED if request.approved else _UNVOUCHED
    if request.entry is not None and request.entry is not TakenEntry.BOUND:
        told = _UNBOUND if request.entry is TakenEntry.UNBOUND else _HEARD
        return _STEERING_APPROVED if request.approved else told
    outside = next((one for one in request.steered if one.outside), None)
    if outside is None:
        return _MAY_STEER
    return _STEERING_APPROVED if request.approved else _MAY_NOT_STEER[outside.role]


_NOBODY_ELSE = _allow("others_cannot_command")
_OTHERS_APPROVED = _allow("others_cannot_command", APPROVED)
_OTHERS_COMMAND = _ask(
    "others_cannot_command",
    "this conversation holds words of other people than the asker",
    Remedy.APPROVER,
    Remedy.ALONE,
)
_OTHERS_READ = replace(_OTHERS_COMMAND, message="this conversation holds words of people who may not know this")
_OTHERS_ROLE = replace(_OTHERS_COMMAND, message="this conversation holds words of people who may not use this tool")
_OTHERS_FOUND = _block(
    "others_cannot_command", "this conversation holds words of people who may not know what was found", Remedy.ALONE
)


def _others_may_have_it_made(request: Request, _taint: Label, _after: Label) -> RuleOutcome:
    """Let other people's words cause only calls that each of them could cause alone, to the same effect."""
    others, tool = request.others, request.tool
    if others is None or tool is None:
        return _NOBODY_ELSE
    if tool.consequential:
        asks = _OTHERS_COMMAND
    elif tool.roles is not None and not others.roles <= tool.roles:
        asks = _OTHERS_ROLE
    elif _reads(tool) and tool.result is not None and not tool.result.join(tool.raises).flows_to(others.clearance):
        asks = _OTHERS_READ
    else:
        return _NOBODY_ELSE
    return _OTHERS_APPROVED if request.approved else asks


def _reads(tool: ToolFacts) -> bool:
    """Say whether a call reads anything outside its session.

    An MCP server always counts, as its declared effect proves nothing.
    """
    return tool.effect is not _NONE or bool(tool.server)


def _others_may_know(request: Request, _taint: Label, after: Label) -> RuleOutcome:
    """Refuse a result above the declared label that is also above the clearance of an author in the context.

    An approval before the call covers this result too: the gate then leaves the others out.
    """
    others = request.others
    # An unlabelled item counts as the highest label, which is in the label after.
    found = after if request.item is None else request.item
    return _NOBODY_ELSE if others is None or found.flows_to(others.clearance) else _OTHERS_FOUND


_NOT_STANDING = _allow("standing_work_is_approved")
_STANDING_APPROVED = _allow("standing_work_is_approved", APPROVED)
_STANDING = _ask(
    "standing_work_is_approved",
    "this begins work that goes on after this turn, so a person decides",
    Remedy.APPROVER,
)


def _standing_is_approved(request: Request, _taint: Label, _after: Label) -> RuleOutcome:
    """Ask people about a call that starts work beyond its turn, at any taint of the session."""
    tool = request.tool
    if tool is None or not tool.asks:
        return _NOT_STANDING
    return _STANDING_APPROVED if request.approved else _STANDING


_FOR_THE_ROLE = _allow("tool_is_for_the_role")
_OTHER_ROLES = _block("tool_is_for_the_role", "this tool is for other roles", Remedy.GRANT_TOOL)


def _tool_is_for_the_role(request: Request, _taint: Label, _after: Label) -> RuleOutcome:
    tool = request.tool
    if tool is None or tool.roles is None or request.asker_role in tool.roles:
        return _FOR_THE_ROLE
    return _OTHER_ROLES


_AT_ANY_TIME: Final = frozenset({"session_get_state", "session_get_stats", "steering_heartbeat"})
_BEFORE: Final = _AT_ANY_TIME | {"session_initialize"}
_IN_ORDER = _allow("run_is_initialized")
_NOT_YET = _block("run_is_initialized", "this run is not initialized; call `session_initialize` first, in its own step")
_STOPPED = _block("run_is_initialized", "this run was stopped, so it calls no more tools")
_PAUSED = _block("run_is_initialized", "this run is paused after too many failures, so it calls no tools now")


def _run_is_initialized(request: Request, _taint: Label, _after: Label) -> RuleOutcome:
    """Let a run call the tools of its task between its `session_initialize` and its end, and while it is not paused.

    How it stood when its model was asked counts: a call beside the one that initializes it is not behind it.
    """
    run, tool = request.run, request.tool
    if run is None or tool is None or (not tool.server and tool.name in _AT_ANY_TIME):
        return _IN_ORDER
    if run.stopped:
        return _STOPPED
    if run.paused:
        return _PAUSED
    first = not tool.server and tool.name in _BEFORE
    return _IN_ORDER if run.initialized or first else _NOT_YET


_GRANTED = _allow("secret_is_granted")
_NOT_GRANTED = _block("secret_is_granted", "no such secret may be used by this tool for this host", Remedy.GRANT_SECRET)


def _secret_is_granted(request: Request, _taint: Label, _after: Label) -> RuleOutcome:
    secret = request.secret
    return _GRANTED if secret is not None and secret.granted else _NOT_GRANTED


_CONFIRMED = _allow("reset_is_confirmed")
_NOT_CONFIRMED = _ask("reset_is_confirmed", "a reset forgets this conversation and its workspace", Remedy.CONFIRM)


def _reset_is_confirmed(request: Request, _taint: Label, _after: Label) -> RuleOutcome:
    return _CONFIRMED if request.confirmed else _NOT_CONFIRMED


NAMES: Final = frozenset(
    {
        "unknown_is_worst",
        "no_write_down",
        "read_is_decided_before_it_happens",
        "overshoot",
        "untrusted_cannot_command",
        "endorsed_cannot_steer",
        "others_cannot_command",
        "standing_work_is_approved",
        "tool_is_for_the_role",
        "run_is_initialized",
        "secret_is_granted",
        "reset_is_confirmed",
        "fails_closed",
    },
)
"""The names of the rules that the engine knows."""

OUTCOME: Final = "outcome_is_known"
"""The gate's rule about a call that was begun and has no result, a fact that no request holds."""

APPROVAL: Final = "approval_is_given"
"""The gate's rule that blocks a request for which an approval was asked and not given."""

RESERVED: Final = NAMES | {OUTCOME, APPROVAL}
"""The names that no configured rule may have."""

_CALL: FixedLaws = (
    _with_result,
    (
        _tool_is_known,
        _tool_is_for_the_role,
        _run_is_initialized,
        _call_flows,
        _may_be_read,
        _stays_speakable,
        _may_command,
        _may_steer,
        _others_may_have_it_made,
        _standing_is_approved,
    ),
)

LAWS: Final[Mapping[Hook, FixedLaws]] = MappingProxyType(
    {
        Hook.PRE_CONTEXT_INJECTION: (_with_item, (_may_be_read, _stays_speakable)),
        Hook.PRE_TOOL_CALL: _CALL,
        Hook.MCP_TOOL_CALL: _CALL,
        Hook.POST_TOOL_RESPONSE: (_with_item, (_tool_is_known, _may_be_read, _stays_speakable, _others_may_know)),
        Hook.PRE_OUTPUT: (_unchanged, (_destination_is_known, _output_flows)),
        Hook.SECRET_ACCESS: (_unchanged, (_tool_is_known, _secret_is_granted)),
        Hook.SESSION_RESET: (_reset, (_reset_is_confirmed,)),
        Hook.AGENT_INVOCATION: (_unchanged, (_may_be_shown,)),
    },
)
