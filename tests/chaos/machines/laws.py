"""What is left of a storm over two machines: in each session the laws hold, or it is told that the store lost events.

Asynchronous replication loses the newest writes of a primary that dies or is cut off. A loss that a session's log tells
is no violation, nor one of a whole session that the audit tells, or one that a program's stream tells. One that nobody
tells is. An input that was lost before any turn of it is accepted again, behind later ones: then the order of a log is
another one, and the log of a process says so. `tests/chaos/storm_laws.py` has the laws of one session.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, fields, replace
from typing import Final

from bot.app.app import App
from bot.audit.chain import Intact
from bot.operations.processes.failover import ACCEPTED_AGAIN
from bot.sessions.installation.losses import LOG_TRUNCATED
from bot.sessions.log.event_types import TurnCompleted, UserMessage
from bot.sessions.log.events import Event, EventType
from bot.store.schema import AUDIT
from tests.chaos.machines.files import FilesSeen, LeftChat, files_seen
from tests.chaos.machines.plan import LOSSY, MachineFault
from tests.chaos.machines.storm import MachineStorm
from tests.chaos.storm_laws import NAME, Checked, StormChat, chat_left, check_chat, input_name
from tests.chaos.storm_plan import Input
from tests.events import bodies

_TRACEBACK: Final = "Traceback"
_MOST: Final = 1_000_000


@dataclass(slots=True)
class MachinesChecked:
    """What was found in all sessions.

    `told` is what does not hold in sessions that say that they lost events, `truncated` how many those are, and `lost`
    the inputs that were acknowledged and are in no log, by the fault that was nearest. `repeated` are turns that began
    more than once, and `unmarked` texts that were shown once more without a mark.
    """

    checked: Checked = field(default_factory=Checked)
    told: list[str] = field(default_factory=list[str])
    truncated: int = 0
    lost: Counter[MachineFault] = field(default_factory=Counter[MachineFault])
    repeated: int = 0
    unmarked: int = 0
    answered: dict[str, float] = field(default_factory=dict[str, float])
    files: FilesSeen = field(default_factory=FilesSeen)


async def machines_checked(app: App, storm: MachineStorm) -> MachinesChecked:
    """Look at every session of a storm, at the chain of what was decided outside of sessions, and at the logs."""
    found, left, gone = MachinesChecked(), list[LeftChat](), await _gone(app)
    again = any(ACCEPTED_AGAIN in line for machine in storm.machines.values() for line in machine.told)
    for number, sid in storm.sids.items():
        said = tuple(one for one in storm.plan.inputs if one.chat == number)
        chat = await chat_left(app, sid, said, storm.played.shown(number), queued=number in storm.plan.queued)
        if number % 2 or again:
            # Slack tells again what was not taken in, in no order.
            chat = replace(chat, inputs=_in_order_of_log(chat))
        left.append(LeftChat(number, chat.events))
        await _check(app, storm, chat, found, told=_truncated(chat.events) or sid in gone)
    found.files = files_seen(left, found.checked)
    await _check_programs(app, storm, found)
    chain = await app.chains.verify("audit")
    found.checked.law("audit_chains_hold", "audit", holds=isinstance(chain, Intact), found=chain)
    resting = await app.store.quarantine.quarantined()
    found.checked.law("crash_heals", "quarantine", holds=not resting, found=resting)
    for machine in storm.machines.values():
        crashes = [place for place, line in enumerate(machine.told) if _TRACEBACK in line]
        shown = [" / ".join(machine.told[max(place - 1, 0) : place + 40]) for place in crashes[:1]]
        found.checked.law("nothing_unexpected_happens", machine.name, holds=not crashes, found=shown)
    found.checked.violations += storm.unhealed
    return found


async def _gone(app: App) -> set[str]:
    """Return the sessions that were lost as a whole, as the audit tells."""
    records = await app.store.audit.records(AUDIT, limit=_MOST)
    return {str(row.body["session"]) for row in records if row.kind == LOG_TRUNCATED and "session" in row.body}


async def _check(app: App, storm: MachineStorm, chat: StormChat, found: MachinesChecked, *, told: bool) -> None:
    """Look at one chat; `told` is whether its loss is."""
    one, names = Checked(), _names(chat)
    await check_chat(app, chat, one)
    missing = [said for said in chat.inputs if said.name not in names]
    for said in missing:
        found.lost[_fault_before(storm, storm.played.said[said.name])] += 1
    for shown in reversed(chat.shown):
        found.answered |= dict.fromkeys(NAME.findall(shown.text), shown.at)
    plain = Counter(shown.key for shown in chat.shown if not shown.repeated)
    found.unmarked += sum(count - 1 for count in plain.values())
    found.repeated += sum(ended.attempt > 1 for ended in bodies(chat.events, TurnCompleted))
    if told:
        found.truncated += 1
        found.told += one.violations
        one.violations = []
    _add(found.checked, one)


async def _check_programs(app: App, storm: MachineStorm, found: MachinesChecked) -> None:
    """Look at the programs' sessions."""
    any_lost = False
    for reader in storm.readers.readers:
        events = await app.store.sessions.events(reader.listener.sid, limit=_MOST)
        broken = storm.readers.violations_of(reader)
        if _truncated(events) or reader.listener.truncated:
            any_lost = True
            found.truncated += 1
            found.told += broken
        else:
            found.checked.violations += broken
    if not any_lost:
        found.checked.violations += [
            line for line in storm.readers.violations() if line.startswith("webhooks_keep_ids")
        ]


def _truncated(events: Iterable[Event]) -> bool:
    """Say whether a log tells that the store lost events of it."""
    return any(event.type == EventType.LOG_TRUNCATED for event in events)


def _names(chat: StormChat) -> list[str]:
    return [input_name(one.text) for one in bodies(chat.events, UserMessage)]


def _in_order_of_log(chat: StormChat) -> tuple[Input, ...]:
    """Return the inputs of a chat as they stand in its log, those that do not last."""
    names = _names(chat)
    return tuple(sorted(chat.inputs, key=lambda one: names.index(one.name) if one.name in names else len(names)))


def _fault_before(storm: MachineStorm, at: float) -> MachineFault:
    """Return the fault of those that lose something which began last before something was said, or soon after."""
    lossy = [span for span in storm.spans if span.kind in LOSSY] or list(storm.spans)
    return min(lossy, key=lambda span: abs(max(span.at - at, at - span.over, 0.0))).kind


def _add(whole: Checked, part: Checked) -> None:
    """Add what was found in one session."""
    for one in fields(Checked):
        setattr(whole, one.name, getattr(whole, one.name) + getattr(part, one.name))
