"""The laws of durability, looked at in every session after a storm; what does not hold is a violation by its name."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Final

from bot.app.app import App
from bot.audit.chain import Intact
from bot.core.errors import LeaseLostError
from bot.sessions.deliveries import DeliveryState
from bot.sessions.inbox import ItemStatus
from bot.sessions.log.event_types import AgentMessage, ToolCall, ToolResult, UserMessage
from bot.sessions.log.events import Event, EventType
from bot.sessions.models import Claim, Write
from policy.labels import PUBLIC, join_all
from tests.chaos.platform_server import Shown
from tests.chaos.storm_plan import Input, Plan
from tests.events import bodies
from tests.store.world import dump, event, fresh, statuses

_MOST_EVENTS: Final = 1_000_000
NAME: Final = re.compile(r"answer-\d+-\d+;")
"""How the names of inputs look."""

_OPEN: Final = frozenset({ItemStatus.WAITING, ItemStatus.TAKEN})


@dataclass(slots=True)
class Checked:
    """What was found: violations, how many inputs had an answer, and what is in doubt or was given up.

    `runs` are those that there were, and `moments` those at which schedules were carried out.
    """

    violations: list[str] = field(default_factory=list[str])
    events: int = 0
    turns: int = 0
    answered: int = 0
    given_up: int = 0
    marked: int = 0
    in_doubt: int = 0
    runs: int = 0
    moments: int = 0

    def law(self, name: str, where: str, *, holds: bool, found: object = "") -> None:
        """Note a violation of a law, unless it holds."""
        if not holds:
            self.violations.append(f"{name}: {where}: {found}")


@dataclass(frozen=True, slots=True)
class StormChat:
    """All that is left of one chat: its log, its inputs, what was shown and what is in doubt there."""

    name: str
    sid: str
    inputs: tuple[Input, ...]
    queued: bool
    events: tuple[Event, ...]
    shown: tuple[Shown, ...]
    doubtful: tuple[str, ...]


async def checked(app: App, plan: Plan, sids: Mapping[int, str], shown: Iterable[Shown]) -> Checked:
    """Look at every session of a storm, and at the chain of what was decided outside of sessions."""
    found, at = Checked(), defaultdict[str, list[Shown]](list)
    for one in shown:
        at[one.chat].append(one)
    for number, sid in sorted(sids.items()):
        inputs = tuple(one for one in plan.inputs if one.chat == number)
        await check_chat(app, await chat_left(app, sid, inputs, at[f"c{number}"], queued=number in plan.queued), found)
    found.law("audit_chains_hold", "audit", holds=isinstance(await app.chains.verify("audit"), Intact))
    resting = await app.store.quarantine.quarantined()
    found.law("crash_heals", "quarantine", holds=not resting, found=resting)
    return found


async def chat_left(
    app: App, sid: str, inputs: tuple[Input, ...], shown: Iterable[Shown], *, queued: bool
) -> StormChat:
    """Read all that is left of the chat of a session, which has at least one input."""
    deliveries = await app.store.outbox.deliveries(sid)
    return StormChat(
        name=f"c{inputs[0].chat}",
        sid=sid,
        inputs=inputs,
        queued=queued,
        events=await app.store.sessions.events(sid, limit=_MOST_EVENTS),
        shown=tuple(shown),
        doubtful=tuple(one.text for one in deliveries if one.state is DeliveryState.AMBIGUOUS),
    )


async def check_chat(app: App, chat: StormChat, found: Checked) -> None:
    """Look at a session."""
    found.in_doubt += len(chat.doubtful)
    await _check_store(app, chat, found)
    _check_log(chat, found)
    _check_turns(chat, found)
    _check_shown(chat, found)


async def _check_store(app: App, chat: StormChat, found: Checked) -> None:
    """Look at the record, the inbox and the chain of a session; a claim that is over must write nothing."""
    state = await app.store.sessions.state(chat.sid)
    if state is None:
        found.law("accepted_once_in_order", chat.name, holds=False, found="no session")
        return
    seqs = [one.seq for one in chat.events]
    found.law("log_is_gap_free", chat.name, holds=seqs == list(range(1, state.seq + 1)), found=state.seq)
    fold = join_all((PUBLIC, *(one.label for one in chat.events if one.admitted)))
    found.law("taint_is_the_fold", chat.name, holds=fold == state.taint, found=(fold, state.taint))
    ended = await statuses(app.store, chat.sid)
    found.law(
        "accepted_once_in_order",
        chat.name,
        holds=len(ended) == len(chat.inputs) and not _OPEN.intersection(ended),
        found=Counter(ended),
    )
    chain = await app.chains.verify(chat.sid)
    found.law("audit_chains_hold", chat.name, holds=isinstance(chain, Intact), found=chain)
    stale = await _claimed(app, chat.sid)
    await app.store.sessions.release(stale)
    live = await _claimed(app, chat.sid)
    before = await dump(app.store, chat.sid)
    refused = await _refused(app, stale) and await _refused(app, replace(live, fence=stale.fence))
    found.law(
        "stale_fence_writes_nothing",
        chat.name,
        holds=refused and before == await dump(app.store, chat.sid),
    )
    await app.store.sessions.release(live)


async def _claimed(app: App, sid: str) -> Claim:
    claim = await app.store.sessions.claim(sid, fresh(), idle=True)
    assert claim is not None
    return claim


async def _refused(app: App, claim: Claim) -> bool:
    """Say whether a write of a claim is refused."""
    try:
        await app.store.sessions.record(claim, Write(fresh(), claim.state.seq, events=(event(),)))
    except LeaseLostError:
        return True
    return False


def _check_log(chat: StormChat, found: Checked) -> None:
    """Every input is in the log once and in order."""
    said = [input_name(one.text) for one in bodies(chat.events, UserMessage)]
    found.law("accepted_once_in_order", chat.name, holds=said == [one.name for one in chat.inputs], found=said)
    check_calls(chat.name, chat.events, found)


def check_calls(name: str, events: tuple[Event, ...], found: Checked) -> None:
    """Every call of a session has one result; its turns do not run into one another."""
    results = Counter(one.call for one in bodies(events, ToolResult))
    twice = [call for call, count in results.items() if count > 1]
    found.law("lost_reply_never_duplicates", name, holds=not twice, found=twice)
    missing = {one.call for one in bodies(events, ToolCall)} - set(results)
    found.law("every_tool_call_has_a_result", name, holds=not missing, found=missing)
    blocks = [turn for turn, _ in groupby(one.turn for one in events if one.turn)]
    found.law("stale_fence_writes_nothing", name, holds=len(blocks) == len(set(blocks)), found="turns run mixed")
    found.events += len(events)


def _check_turns(chat: StormChat, found: Checked) -> None:
    """Every turn ended once, with one answer or with an error."""
    ended = Counter(one.turn for one in chat.events if one.type is EventType.TURN_COMPLETED)
    answers = Counter(one.turn for one in chat.events if one.type is EventType.AGENT_MESSAGE)
    failed = {one.turn for one in chat.events if one.type is EventType.ERROR}
    began = {one.turn for one in chat.events if isinstance(one.body, UserMessage)}
    twice = [turn for turn, count in (ended + answers).items() if max(ended[turn], answers[turn]) > 1 or count > 2]
    found.law("lost_reply_never_duplicates", chat.name, holds=not twice, found=twice)
    found.law("crash_heals", chat.name, holds=began == set(ended), found=began.symmetric_difference(ended))
    mute = set(ended) - set(answers) - failed
    found.law("crash_heals", chat.name, holds=not mute, found=f"neither answer nor error: {mute}")
    found.turns += len(ended)
    found.given_up += len(set(ended) - set(answers))


def _check_shown(chat: StormChat, found: Checked) -> None:
    """Every answer was shown once, or again with its mark, or it is reported as in doubt."""
    plain = Counter(one.key for one in chat.shown if not one.repeated)
    twice = [key for key, count in plain.items() if count > 1]
    found.law("answered_at_most_once", chat.name, holds=not twice, found=twice)
    found.marked += sum(one.repeated for one in chat.shown)
    texts, doubtful = "\n".join(one.text for one in chat.shown), "\n".join(chat.doubtful)
    logged = Counter(name for one in bodies(chat.events, AgentMessage) for name in set(NAME.findall(one.text)))
    unsaid = [name for name in logged if name not in texts and name not in doubtful]
    found.law("crash_heals", chat.name, holds=not unsaid, found=f"never shown: {unsaid}")
    if chat.queued:
        again = [name for name, count in logged.items() if count > 1]
        found.law("answered_at_most_once", chat.name, holds=not again, found=again)
        named = Counter(name for one in chat.shown if not one.repeated for name in set(NAME.findall(one.text)))
        again = [name for name, count in named.items() if count > 1]
        found.law("answered_at_most_once", chat.name, holds=not again, found=again)
    found.answered += len(logged)


def input_name(text: str) -> str:
    """Return the name that an input bears."""
    match = NAME.search(text)
    return match[0] if match else text
