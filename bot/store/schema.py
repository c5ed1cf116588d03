"""The store's schema, written once: every key, its type, life, meaning and writer.

All keys of a session carry the hash tag `{<sid>}`, so one script may touch them together in a cluster. `<sid>`, `<who>`
(a principal) and `<lab>` (a label's text) are percent-encoded, `%` stands for the empty text; the encoding is
injective. A key holds one or several records: `bot.store.records.kinds` has the fields of each kind.

| key                     | type   | life                  | meaning                                       | written by        |
|-------------------------|--------|-----------------------|-----------------------------------------------|-------------------|
| `lg:{<sid>}:state`      | hash   | the session's         | `state`, a field each                         | every script      |
| `lg:{<sid>}:log`        | stream | the session's         | `event`, ids `<seq>-0`, the record in field `e` | accept write reset|
| `lg:{<sid>}:inbox`      | list   | until taken           | `item`, oldest first                          | accept write stop…|
| `lg:{<sid>}:inputs`     | hash   | 24 h after their end  | dedupe key → `input`                          | accept write stop…|
| `lg:{<sid>}:outbox`     | hash   | 24 h after their end, dead letters 7 days | delivery key → `delivery` | write put settle… |
| `lg:{<sid>}:approvals`  | hash   | until 2nd reset after | approval id → `approval`                      | write resolve revoke_grant |
| `lg:{<sid>}:held`       | hash   | until decided on      | held item's id → `held`, from another session | receive decide_…  |
| `lg:{<sid>}:held-ids`   | hash   | 24 h after their end  | dedupe key of an item that is or was held → `held key`; apart from `inputs`, which others' readers can measure | receive decide_… |
| `lg:{<sid>}:observed`   | stream | a day after the last  | `observed`, texts of its chat that were not addressed to us, in field `e` | observe reset |
| `lg:{<sid>}:observed-ids` | zset | a day after the last  | their dedupe keys, by time                    | observe           |
| `lg:{<sid>}:tasks`      | hash   | the session's         | a run's tasks: id → `task`, those that it completed | change_run      |
| `lg:{<sid>}:notes`      | hash   | the session's         | steering notes of a run: id → `note`          | steer write       |
| `lg:{<sid>}:audit`      | list   | the session's         | `audit row`: its audit chain, row n at n-1    | write settle …    |
| `lg:{<sid>}:record-key` | string | the session's         | the encryption key of its run's record, in base64; deletion destroys it | record_key |
| `lg:{<sid>}:sealed`     | string | for ever              | no session begins under this id any more: its place has one under a newer session key | begun |
| `lg:{<sid>}:op:<op>`    | string | 10 min                | answer given to one operation, for its retry  | write stop reset  |
| `lg:{<sid>}:body:<id>`  | string | the session's         | a body over 32 KB, referred to as `@<id>`     | accept write      |
| `lg:{audit}:chain`      | list   | for ever              | `audit row`: the chain for decisions outside a session | audit_append |
| `lg:{audit}:head`       | hash   | for ever              | its head: version, audit_seq and audit_hash, stored as in `state` | audit_append |
| `lg:{audit}:op:<op>`    | string | 10 min                | as above; `read-<digest>` for a reading, which is noted once meanwhile | audit_append |
| `lg:{audit}:policy`     | hash   | until the next        | in force: `version digest time process changes` | put_policy …    |
| `lg:{audit}:keys`       | string | until the next        | `installation keys`: the names of the keys in use | agree_keys |
| `lg:{audit}:overrides`  | hash   | for ever              | `version`, `count` of changes, and people's changes: `person:<name>` → `person`, `place:<chat>` → `chat`, `blocked:<account>` → `blocked` | override add_program… |
| `lg:{audit}:tokens`     | hash   | for ever              | name of a program → its `api token`; changes count in `overrides` | add_program change_program |
| `lg:{audit}:pairings`   | hash   | until they expire     | `a:<account>`, strangers who asked, and `t:<principal>`, wrong codes → `pairing` | ask_pairing override… |
| `lg:{audit}:quarantine` | hash   | until worked or released | session and operation → `quarantined`      | quarantine unquar…|
| `lg:{audit}:schedules`  | hash   | until dropped, a day if done | id → `schedule`                        | add_schedule replace_schedule… |
| `lg:{audit}:schedules-of:<who>` | set | theirs               | ids of a principal's schedules, and of some that are gone | add_schedule drop_schedule |
| `lg:{audit}:timers`     | zset   | until settled         | `<kind>/<about>`, by when it is due           | set_timer take_due… |
| `lg:{audit}:taken-timers` | hash | until settled         | those that were taken → `<due>/<when they are due again>` | take_due settle_timer… |
| `lg:{runs:<principal>}:slots` | hash | 24 h after they were given back | run → its `run slot`          | reserve_run lock_slot free_run |
| `lg:{runs:<principal>}:fences` | hash | for ever          | a pool's label → how many locks there were     | lock_slot         |
| `lg:{known:<who>}:memories:<lab>` | hash | for ever          | id → `memory`, those that were learned with one label | learn forget |
| `lg:{known:<who>}:changed:<lab>` | zset | for ever           | their ids, by the version that they changed with | learn forget |
| `lg:{known:<who>}:versions` | hash | for ever                | a label → the version of the last change of its memories, 0 for one that only recalled | learn forget count_use |
| `lg:{known:<who>}:kept` | hash   | for ever                  | a label → how many of its memories have words | learn forget  |
| `lg:{known:<who>}:uses:<lab>` | hash | for ever              | id of a memory → how often sessions that had read this label recalled it | count_use |
| `lg:{known:<who>}:skills:<lab>` | hash | for ever            | id → `skill`, those at one secrecy label       | put_skill         |
| `lg:{known:<who>}:skills-changed:<lab>` | zset | for ever    | their ids, by the version that they changed with | put_skill       |
| `lg:{known:<who>}:skill-versions` | hash | for ever          | a label → the version of the last change of its skills, 0 for one that only reflected | put_skill reflect |
| `lg:{known:<who>}:skills-kept` | hash | for ever             | a pool's label → how many of its skills are kept, those that were rejected apart | put_skill |
| `lg:{known:<who>}:skill-log:<lab>:<id>` | list | for ever    | `skill event`, the newest 200 of a skill       | put_skill         |
| `lg:{known:<who>}:outcomes:<lab>` | hash | for ever          | `<id>/<outcome>` → how often sessions that had read this label told that of a skill | reflect |
| `lg:{known:<who>}:skill-notes:<lab>:<id>` | list | for ever  | `skill note`, the newest 20 of sessions that had read this label | reflect |
| `lg:{known:<who>}:workflow:<project>:<lab>` | list | for ever  | `workflow event`, those of one project that were written with one label, the oldest first | advance_workflow |
| `lg:{known:<who>}:workflow-versions:<project>` | hash | for ever | a label → how many events its log has      | advance_workflow |
| `lg:{known:<who>}:workflow-orders` | hash | for ever            | a project → how many events it has of all labels, which sorts them | advance_workflow |
| `lg:{known:<who>}:workflows` | hash | for ever                  | a label → how many projects have events of it | advance_workflow |
| `lg:{known:<who>}:workflows:<lab>` | zset | for ever            | projects that have events of one label, by the time of the last | advance_workflow |
| `lg:{known:<who>}:op:<op>` | string | 10 min                 | as above; `learn/<id>` for a memory, `create/<id>` for a skill | learn forget count_use put_skill reflect advance_workflow |
| `lg:{live:<principal>}:slots` | hash | 24 h after their deadline | run → `slot`                        | reserve free      |
| `lg:{vault}:values`     | hash   | each its own          | name → `kept`                                 | swap              |
| `lg:{vault}:op:<op>`    | string | 10 min                | as above                                      | swap              |
| `lg:agent:<digest>`     | string | for ever              | `agent`: the snapshot of this digest that sessions pin | the client |
| `lg:offer:<code>`       | hash   | until it expires      | `offer`, a record `alternative`, and the `way` taken | make_offer take_offer |
| `lg:{count:<name>}:n`   | string | as the caller says    | a counter                                     | count, the client |
| `lg:{count:<name>}:op:<op>` | string | 10 min            | as above                                      | count             |
| `lg:{rate:<name>}:uses` | hash   | a window after the last | `<process>/<slot>` → how often that process used something with a limit in this slot, each field for a window | the client |
| `lg:{budget:<account>}:day` | hash | 2 days after the last | `portion` → its `portion`, and a pool → `spent` on the portion's day; `<account>` is `p/<who>` for a person, `c/<who>` for a shared chat | reserve_tokens settle_tokens recall_tokens |
| `lg:{budget:<account>}:open` | hash | 2 days after their time | reservation → `reservation`       | reserve_tokens settle_tokens… |
| `lg:{budget:<account>}:op:<op>` | string | 10 min        | as above                                      | settle_tokens     |
| `lg:{budget}:grants`    | hash   | until taken back      | account → the `portion` that it has of the budget of all, and `all`, their sum | grant_tokens lower_grant |
| `lg:{webhooks}:all`     | hash   | until dropped         | id → `webhook`                                | add_webhook mark_webhook settle_event… |
| `lg:{webhooks}:rights`  | hash   | until given back      | id → its `sending right`                      | hold_webhooks drop_webhook |
| `lg:{webhooks}:at:<id>` | hash   | the webhook's         | session → `webhook position`                  | note_webhook give_up_event… |
| `lg:{webhooks}:dead:<id>` | hash | 7 days each, the newest 200 | id of an event → `dead event`           | give_up_event settle_event… |
| `lg:{audit}:restoring`  | string | until a restore ended | there while a backup is put back: no process starts | the client |
| `lg:right:<name>`       | string | 30 s, renewed         | the holder of a right of one process          | hold              |
| `lg:{pace:<channel>}:all` | hash | hint, an hour         | `until` when the channel is silent, when its rate has room again | pace pause_delivery |
| `lg:{pace:<channel>}:at:<place>` | hash | hint, an hour  | the same of a place, `n` turns so far, `last` the op that took none, and the delivery whose turn it is: `send turn` | pace pause_delivery |
| `lg:{pace:<channel>}:gone:<place>` | hash | hint, an hour | its dead addresses → until when; `w` `-`: nothing came in since a text, or another, was let through | pace pause_delivery |
| `lg:dead`               | set    | hint                  | sessions that may have dead letters           | the client        |
| `lg:copies`             | set    | hint                  | copies of questions that are to be edited     | the client        |
| `lg:ready`              | zset   | hint                  | sessions that may be claimed, by their places in the queue | mark_ready |
| `lg:{lg:ready}:pools`   | zset   | hint                  | in the slot of `lg:ready`: digest of a pool → the place of its next session, and the queue's virtual time under the empty name | mark_ready |
| `lg:open`               | set    | hint                  | sessions that may have unfinished work        | the client        |
| `lg:sweep:<name>`       | hash   | hint                  | how far the sweeps of some processes came: `walk`, where they go on, and `missing`, the processes without a connection | the client |
| `lg:recent`             | zset   | hint                  | all sessions, by the time of their last change | the client       |
| `lg:spenders`           | set    | hint, 2 days          | accounts that may have used something today   | the client        |
| `lg:held:{<who>}`       | set    | hint                  | their sessions that may hold something        | the client        |
| `lg:asked:{<who>}`      | zset   | hint                  | agents' questions to them that may be open, session and id, by when they are not looked for any more | the client, read by accept |
| `lg:answered:{<who>}:<id>` | string | hint, an hour      | the session of the approval of this id, or of those of a question, that they answered | the client |
| `lg:granted:{<who>}`    | zset   | hint                  | grants that they gave, or that were given for their calls, session and id, by when it was asked | the client |
| `lg:list:{<who>}`       | set    | hint                  | labels under which a principal's sessions are | the client        |
| `lg:list:{<who>}:<lab>` | zset   | hint                  | their sessions of one visibility, by time     | the client        |
| `lg:past:{<who>}:<lab>` | zset   | hint                  | those of them that are archived               | the client        |
| `lg:turned:{<who>}:<lab>` | zset | hint                  | sessions that were visible so while UNTRUSTED | the client        |

One channel: on `lg:changed` each script that wrote a session's record publishes the record's key. It is a hint.

Labels are their text form, times milliseconds on the store's clock. A record of another version is refused.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Final
from urllib.parse import quote_from_bytes, unquote_to_bytes

AUDIT: Final = "audit"
"""Name of the chain for decisions outside a session; no session may bear it."""


READY: Final = "lg:ready"


READY_POOLS: Final = "lg:{lg:ready}:pools"
"""The queue's virtual time and its pools; no session's tag has a bare colon in it."""


OPEN: Final = "lg:open"


RECENT: Final = "lg:recent"


LETTERS: Final = "lg:dead"


COPIES: Final = "lg:copies"


CHANGED: Final = "lg:changed"
"""The channel of changes: each message is the key of a record that was written."""


STATES: Final = "lg:{*}:state"
"""Pattern that finds every session's state."""


PROCESS: Final = "p-"
"""The beginning of a process's name: that of its connections, of its lease owners up to a dot, and of its sender."""


AUDIT_CHAIN: Final = "lg:{audit}:chain"


AUDIT_HEAD: Final = "lg:{audit}:head"


_KEPT: Final = 1024
"""For how many sessions, or places, keys are remembered: a turn needs them again and again."""


RESTORING: Final = "lg:{audit}:restoring"
"""The mark of a store into which a backup is being put back."""


POLICY: Final = "lg:{audit}:policy"
"""The policy in force for all processes, in the slot of the audit chain with its changes."""


INSTALLATION_KEYS: Final = "lg:{audit}:keys"
"""The names of the keys in use, in the slot of the chain that one of them signs."""


OVERRIDES: Final = "lg:{audit}:overrides"
"""People's changes of principals and chats."""


TOKENS: Final = "lg:{audit}:tokens"
"""The tokens of programs, by name, in the slot of the audit chain with their changes."""


PAIRINGS: Final = "lg:{audit}:pairings"


QUARANTINE: Final = "lg:{audit}:quarantine"
"""Sessions that cannot be worked, in the slot of the audit chain with the rows about them."""


VAULT: Final = "lg:{vault}:values"
"""The values of adapters, by encoded name; no session's id is that short."""


CONTINUE: Final = "continue/"
"""The beginning of the dedupe keys of the runtime's messages to runs."""


SCHEDULES: Final = "lg:{audit}:schedules"
"""Schedules and reminders, by id, in the slot of the audit chain with their changes."""


TIMERS: Final = "lg:{audit}:timers"
"""Timers by the time they are due, in the slot of the schedules that set them."""


TAKEN_TIMERS: Final = "lg:{audit}:taken-timers"


def timer_name(kind: str, about: str) -> bytes:
    """Return a timer's name at the store."""
    return f"{kind}/{about}".encode("utf-8", "surrogatepass")


GRANTS: Final = "lg:{budget}:grants"
"""Each account's portion of the budget of all together."""


SPENDERS: Final = "lg:spenders"


WEBHOOKS: Final = "lg:{webhooks}:all"
"""The webhooks of programs; no session's id is that short."""


WEBHOOK_RIGHTS: Final = "lg:{webhooks}:rights"


@dataclass(frozen=True, slots=True)
class SessionKeys:
    """The keys of one session.

    `asked` is never written; where one server has all keys, the key of its sender's questions takes its place.
    """

    state: str
    log: str
    inbox: str
    inputs: str
    outbox: str
    approvals: str
    audit: str
    held: str
    held_ids: str
    observed: str
    observed_ids: str
    asked: str
    tasks: str
    notes: str
    record_key: str
    sealed: str
    prefix: str

    def of(self, names: Iterable[str], op: str = "") -> list[str]:
        """Return the keys of these names; `op` names the call whose answer one of them keeps."""
        return [self.op(op) if name == "op" else getattr(self, name) for name in names]

    def op(self, op: str) -> str:
        """Return the key of the answer to one operation."""
        return f"{self.prefix}op:{encode(op)}"

    def body(self, ref: str) -> str:
        """Return the key of a large body."""
        return f"{self.prefix}body:{encode(ref)}"


@lru_cache(_KEPT)
def session_keys(sid: str) -> SessionKeys:
    """Return the keys of a session."""
    prefix = f"lg:{{{encode(sid)}}}:"
    return SessionKeys(
        state=f"{prefix}state",
        log=f"{prefix}log",
        inbox=f"{prefix}inbox",
        inputs=f"{prefix}inputs",
        outbox=f"{prefix}outbox",
        approvals=f"{prefix}approvals",
        audit=f"{prefix}audit",
        held=f"{prefix}held",
        held_ids=f"{prefix}held-ids",
        observed=f"{prefix}observed",
        observed_ids=f"{prefix}observed-ids",
        asked=f"{prefix}asked",
        tasks=f"{prefix}tasks",
        notes=f"{prefix}notes",
        record_key=f"{prefix}record-key",
        sealed=f"{prefix}sealed",
        prefix=prefix,
    )


def right_key(name: str) -> str:
    """Return the key of a right that one process has at a time."""
    return f"lg:right:{encode(name)}"


def sweep_key(name: str) -> str:
    """Return the key of the progress of some processes' sweeps."""
    return f"lg:sweep:{encode(name)}"


def webhook_positions_key(webhook: str) -> str:
    """Return the key of a webhook's positions."""
    return f"lg:{{webhooks}}:at:{encode(webhook)}"


def dead_events_key(webhook: str) -> str:
    """Return the key of a webhook's dead events."""
    return f"lg:{{webhooks}}:dead:{encode(webhook)}"


def agent_key(digest: str) -> str:
    """Return the key of an agent's snapshot."""
    return f"lg:agent:{encode(digest)}"


def offer_key(code: str) -> str:
    """Return the key of an offer."""
    return f"lg:offer:{encode(code)}"


def held_key(principal: str) -> str:
    """Return the key of the principal's sessions that may hold an item."""
    return f"lg:held:{{{encode(principal)}}}"


def asked_key(principal: str) -> str:
    """Return the key of the questions of agents to a principal that may be open."""
    return f"lg:asked:{{{encode(principal)}}}"


def answered_key(principal: str, approval: str) -> str:
    """Return the key of the session in which a principal answered an approval, or those of a question."""
    return f"lg:answered:{{{encode(principal)}}}:{encode(approval)}"


def granted_key(principal: str) -> str:
    """Return the key of the grants that a principal gave, or that were given for their calls."""
    return f"lg:granted:{{{encode(principal)}}}"


def count_key(name: str) -> str:
    """Return the key of a count."""
    return f"lg:{{count:{encode(name)}}}:n"


def count_op(name: str, op: str) -> str:
    """Return the key of the answer to one operation on a count."""
    return f"lg:{{count:{encode(name)}}}:op:{encode(op)}"


def uses_key(name: str) -> str:
    """Return the key of the uses of something with a limit; no session's tag has a bare colon in it."""
    return f"lg:{{rate:{encode(name)}}}:uses"


def slots_key(principal: str) -> str:
    """Return the key of a principal's slots; no session's tag has a bare colon in it."""
    return f"lg:{{live:{encode(principal)}}}:slots"


def run_slots_key(principal: str) -> str:
    """Return the key of the places of a principal's runs; no session's tag has a bare colon in it."""
    return f"lg:{{runs:{encode(principal)}}}:slots"


def run_fences_key(principal: str) -> str:
    """Return the key of the numbers of slot locks of a principal's runs."""
    return f"lg:{{runs:{encode(principal)}}}:fences"


def schedules_of_key(principal: str) -> str:
    """Return the key of the ids of a principal's schedules."""
    return f"lg:{{audit}}:schedules-of:{encode(principal)}"


@dataclass(frozen=True, slots=True)
class MemoryKeys:
    """The keys of a principal's memories. `memories` and `changed` are of one label."""

    memories: str
    changed: str
    versions: str
    kept: str
    prefix: str

    def uses(self, reader: str) -> str:
        """Return the key of the recall counts of sessions with the taint `reader`."""
        return f"{self.prefix}uses:{encode(reader)}"

    def op(self, op: str) -> str:
        """Return the key of the answer to one operation."""
        return f"{self.prefix}op:{encode(op)}"


def memory_keys(principal: str, label: str) -> MemoryKeys:
    """Return the keys of a principal's memories of one label; no session's tag has a bare colon in it."""
    prefix = f"lg:{{known:{encode(principal)}}}:"
    return MemoryKeys(
        memories=f"{prefix}memories:{encode(label)}",
        changed=f"{prefix}changed:{encode(label)}",
        versions=f"{prefix}versions",
        kept=f"{prefix}kept",
        prefix=prefix,
    )


@dataclass(frozen=True, slots=True)
class SkillKeys:
    """The keys of a principal's skills. `skills` and `changed` are of one label."""

    skills: str
    changed: str
    versions: str
    kept: str
    prefix: str

    def log(self, label: str, skill: str) -> str:
        """Return the key of the log of a skill at a label."""
        return f"{self.prefix}skill-log:{encode(label)}:{encode(skill)}"

    def outcomes(self, reader: str) -> str:
        """Return the key of the skill outcomes that sessions with the taint `reader` reported."""
        return f"{self.prefix}outcomes:{encode(reader)}"

    def notes(self, reader: str, skill: str) -> str:
        """Return the key of the notes of sessions with the taint `reader` about a skill."""
        return f"{self.prefix}skill-notes:{encode(reader)}:{encode(skill)}"

    def op(self, op: str) -> str:
        """Return the key of the answer to one operation."""
        return f"{self.prefix}op:{encode(op)}"


def skill_keys(principal: str, label: str) -> SkillKeys:
    """Return the keys of a principal's skills of one label, in the slot of their memories."""
    prefix = f"lg:{{known:{encode(principal)}}}:"
    return SkillKeys(
        skills=f"{prefix}skills:{encode(label)}",
        changed=f"{prefix}skills-changed:{encode(label)}",
        versions=f"{prefix}skill-versions",
        kept=f"{prefix}skills-kept",
        prefix=prefix,
    )


@dataclass(frozen=True, slots=True)
class WorkflowKeys:
    """The keys of a principal's workflow. `log` and `projects` are of one label."""

    log: str
    versions: str
    orders: str
    kept: str
    projects: str
    prefix: str

    def op(self, op: str) -> str:
        """Return the key of the answer to one operation."""
        return f"{self.prefix}op:{encode(op)}"


def workflow_keys(principal: str, project: str, label: str) -> WorkflowKeys:
    """Return the keys of a principal's workflow at one label, in the slot of their memories."""
    prefix = f"lg:{{known:{encode(principal)}}}:"
    return WorkflowKeys(
        log=f"{prefix}workflow:{encode(project)}:{encode(label)}",
        versions=f"{prefix}workflow-versions:{encode(project)}",
        orders=f"{prefix}workflow-orders",
        kept=f"{prefix}workflows",
        projects=f"{prefix}workflows:{encode(label)}",
        prefix=prefix,
    )


@dataclass(frozen=True, slots=True)
class PaceKeys:
    """The keys of the rate limits of a place."""

    channel: str
    place: str
    gone: str


@lru_cache(_KEPT)
def pace_keys(address: str) -> PaceKeys:
    """Return the keys of the place that an address' text is in; no session's tag has a bare colon in it."""
    channel, *rest = address.split(":")
    prefix, place = f"lg:{{pace:{encode(channel)}}}:", encode(":".join(rest[:2]))
    return PaceKeys(f"{prefix}all", f"{prefix}at:{place}", f"{prefix}gone:{place}")


def turn_field(sid: str, key: str) -> str:
    """Return the field of a place in which a delivery's turn there is kept."""
    return f"w:{encode(sid)}/{encode(key)}"


def audit_op(op: str) -> str:
    """Return the key of the answer to one operation on the chain outside sessions."""
    return f"lg:{{audit}}:op:{encode(op)}"


@dataclass(frozen=True, slots=True)
class BudgetKeys:
    """The keys of one account's budgets."""

    spent: str
    spending: str
    prefix: str

    def op(self, op: str) -> str:
        """Return the key of the answer to one operation."""
        return f"{self.prefix}op:{encode(op)}"


def budget_keys(account: str) -> BudgetKeys:
    """Return the keys of an account; no session's tag has a bare colon in it."""
    prefix = f"lg:{{budget:{account}}}:"
    return BudgetKeys(f"{prefix}day", f"{prefix}open", prefix)


def person_account(person: str) -> str:
    """Return the name of the account in which a person's tokens are counted."""
    return f"p/{encode(person)}"


def chat_account(chat: str) -> str:
    """Return the name of the account in which a shared chat's tokens are counted."""
    return f"c/{encode(chat)}"


def vault_op(op: str) -> str:
    """Return the key of the answer to one operation on the values of adapters."""
    return f"lg:{{vault}}:op:{encode(op)}"


def labels_key(principal: str) -> str:
    """Return the key of the labels under which a principal's sessions are listed."""
    return f"lg:list:{{{encode(principal)}}}"


def list_key(principal: str, label: str) -> str:
    """Return the key of a principal's sessions that one label makes visible."""
    return f"{labels_key(principal)}:{encode(label)}"


def past_key(principal: str, label: str) -> str:
    """Return the key of a principal's archived sessions that one label makes visible."""
    return f"lg:past:{{{encode(principal)}}}:{encode(label)}"


def turned_key(principal: str, label: str) -> str:
    """Return the key of a principal's sessions that were visible at an UNTRUSTED label, also after they rose."""
    return f"lg:turned:{{{encode(principal)}}}:{encode(label)}"


def sid_of(state_key: bytes) -> str:
    """Return the session a state key belongs to; the inverse of `session_keys(sid).state`."""
    return decode(state_key.decode("ascii").removeprefix("lg:{").removesuffix("}:state"))


def encode(text: str) -> str:
    """Write any text in letters, digits, `_.-~` and `%`; different texts give different results, none empty."""
    if text.isascii() and text.isalnum():
        return text
    return quote_from_bytes(text.encode("utf-8", "surrogatepass"), safe="") or "%"


def decode(text: str) -> str:
    """Read the text that `encode` wrote."""
    return "" if text == "%" else unquote_to_bytes(text).decode("utf-8", "surrogatepass")
