"""The stored records: their kinds and fields.

`bot.store.records.names` has the stored name of each field, `bot.store.records.form` the encoding of a record.
"""

from typing import Final

from bot.store.records.fields import Field, part, record

_BODY: Final = Field("body", str, "its content as JSON, or `@` and the id of a large one")
_LABEL: Final = Field("label", str, "the label of its content")
_REFS: Final = Field("refs", "", "its sources, see `bot.sessions.refs`")

EVENT: Final = record(
    "event",
    Field("time", int, "when it was written, ms"),
    Field("generation", int, "the session's generation"),
    Field("type", str, "its type, see `EventType`"),
    Field("actor", "", "its actor"),
    _LABEL,
    Field("visibility", "internal", "who it is meant for"),
    Field("admitted", False, "whether its content entered the context"),
    Field("turn", "", "the id of its turn"),
    Field("body", "", "its content, as in `item`; none for an empty one"),
    Field("carried", "", "the sum of all events before it, as a body; few have it"),
    _REFS,
)

ITEM: Final = record(
    "item",
    Field("position", int, "its place among the inputs of the generation, from 1"),
    Field("accepted_at", int, "when it was accepted, ms"),
    _LABEL,
    Field("dedupe", "", "its dedupe key"),
    Field("sender", "", "the principal that sent it"),
    Field("sent", False, "whether another session sent it"),
    Field("part", "", "the message that it is a part of, see `bot.sessions.inbox`"),
    _BODY,
    _REFS,
)

INPUT: Final = record(
    "input",
    Field("position", 0, "its place, as in `item`"),
    Field("status", str, "where it is, see `ItemStatus`"),
    Field("op", "", "the call that brought it first"),
    Field("digest", "", "the hash of its body"),
    Field("sent", False, "whether another session sent it"),
    Field("held", False, "whether it was held, also once it is accepted or dropped"),
    Field("seq", 0, "the event that let it in, for one that a session sent"),
)

HELD: Final = record(
    "held",
    Field("time", int, "when it came, ms"),
    _LABEL,
    Field("dedupe", "", "its dedupe key"),
    Field("sender", "", "the principal that sent it"),
    Field("digest", "", "the hash of its body"),
    Field("report", False, "whether a background session reports with it, which has a place of its own"),
    _BODY,
    _REFS,
)

HELD_KEY: Final = record("held key", Field("untold", False, "whether its sender may not hear its fate"))

APPROVAL: Final = record(
    "approval",
    Field("state", str, "where it is, see `ApprovalState`"),
    Field("generation", int, "the session's generation"),
    Field("expires", int, "until when it counts, ms"),
    Field("resolved_by", "", "who answered"),
    Field("turn", "", "the turn that asks"),
    Field("call", "", "the call that it is for"),
    Field("tool", "", "the tool that is called"),
    Field("binding", "", "the digest of all that it is bound to"),
    _LABEL,
    Field("principal", "", "who asks"),
    Field("rules", "", "the rules that ask for it, a list as JSON"),
    Field("question", str, "the shown question, as JSON"),
    Field("alone", False, "whether its asker alone may answer"),
    Field("kind", "", "the kind of question, see `QuestionKind`; none for an approval"),
    Field("returns", "", "the field that bounds the answer to a question, a list as JSON"),
    Field("fallback", "", "the answer that counts if nobody answers a question, as JSON"),
    Field("places", "", "the addresses where a question was asked, a list as JSON"),
    Field("given", "", "the answer to a question and its address, as JSON"),
    Field("resolved_at", 0, "when it was answered, ms"),
    Field("created", 0, "when it was asked, ms"),
    Field("granted_until", 0, "until when the grant that was given with it counts, ms; 0 for none"),
    Field("granted_left", 0, "how many calls the grant still covers"),
    Field("granted_to", "", "the ids of the calls that it covered, a space between"),
    Field("granted_end", "", "why it covers no more, see `GrantEnd`; none while it does"),
)

DELIVERY: Final = record(
    "delivery",
    Field("state", str, "where it is, see `DeliveryState`"),
    Field("number", int, "its place in the order of the outbox, from 1"),
    Field("generation", int, "the session's generation"),
    Field("created", int, "when it was put there, ms"),
    Field("attempt", 0, "how often a sender took it"),
    Field("lapses", 0, "when its sender's hold ends, or when it may be tried again, ms"),
    Field("op", "", "the call that took it"),
    Field("channel", str, "the channel of its address, encoded"),
    Field("sender", "", "the process that takes care of it"),
    Field("arrival", "", "its fate in another session, see `Arrival`"),
    Field("failures", 0, "how often sending it failed for certain"),
    Field("doubtful", False, "whether it may have been said before"),
    Field("receipt", "", "the channel's id of the sent message"),
    Field("address", str, "where it is to be said"),
    _LABEL,
    Field("kind", "", "how it is rendered"),
    Field("turn", "", "the turn that said it"),
    Field("approved", "", "the rules that people lifted for it, a list as JSON"),
    Field("hops", 0, "how many sessions it came through"),
    Field("release", 0, "the event that releases it below its label"),
    Field("asker", "", "the person it is for, if not the session's own principal"),
    Field("replaces", "", "the receipt of the delivery that it replaces"),
    Field("meant_for", "", "the one person it is for"),
    Field("authors", "", "whose words it derives from, a list as JSON"),
    Field("endorsed", "", "the bounded answers that were heard, a list as JSON"),
    Field("untrusted", False, "whether its text is marked as one from outside"),
    _BODY,
    _REFS,
)

AUDIT_ROW: Final = record(
    "audit row",
    Field("time", int, "when it was written, ms"),
    Field("kind", "", "the kind of the row"),
    Field("actor", "", "who did it"),
    _BODY,
    Field("hash", str, "the hash that chains it to the row before it"),
)

OBSERVED: Final = record(
    "observed",
    Field("account", "", "who said it, as the platform's account"),
    _LABEL,
    Field("text", "", "the text"),
    Field("opens", "", "the thread that it may begin"),
)

SLOT: Final = record(
    "slot",
    Field("live", False, "whether nobody freed it"),
    Field("lapses", int, "by when its session must have been created, ms"),
    Field("deadline", int, "by when that must end, ms"),
    Field("pool", str, "the label of its pool"),
    Field("session", str, "the background session"),
    Field("parent", str, "the session that asked for it"),
)

RUN_SLOT: Final = record(
    "run slot",
    Field("session", str, "the run's session"),
    Field("pool", str, "the label of its pool"),
    Field("slot", "", "the slot that it has locked"),
    Field("lock", "", "the digest of that, which outlives the run's deletion"),
    Field("since", int, "when it was reserved, or when it locked its slot, ms"),
    Field("deadline", int, "when it is given back at the latest, ms"),
    Field("fence", 0, "how many locks there were in its pool, its own included"),
    Field("holder", 0, "the fence of the newest claim on its session that asked for a slot"),
    Field("live", False, "whether nobody gave it back"),
)

TASK: Final = record("task", Field("time", int, "when it was completed, ms"))

NOTE: Final = record(
    "note",
    Field("priority", str, "how it counts, see `Priority`"),
    Field("text", "", "its text"),
    _LABEL,
    Field("sender", "", "who wrote it"),
    Field("time", int, "when it was given, ms"),
    Field("read_at", 0, "when the run's log first held its text, ms"),
)

SCHEDULE: Final = record(
    "schedule",
    Field("principal", str, "whose it is"),
    Field("asker", "", "the person who made it"),
    Field("kind", str, "its kind, see `ScheduleKind`"),
    Field("text", "", "the goal of its runs, or the text of the reminder"),
    _LABEL,
    Field("cron", "", "a line of five fields, none for one that is due once"),
    Field("zone", "", "its time zone"),
    Field("next_at", 0, "the next moment, ms"),
    Field("created", int, "when it was made, ms"),
    Field("asked_at", "", "the address at which it was made"),
    Field("title", "", "its title"),
    Field("deliver_to", "", "who hears it besides"),
    Field("meant", "", "the address or principal of that name"),
    Field("type", "", "how its runs go on, see `RunType`"),
    Field("slot", "", "the slot of its runs"),
    Field("overlap", "", "how it treats a moment while a run goes on, see `Overlap`"),
    Field("by_agent", False, "whether an agent made it"),
    Field("status", str, "whether it is in force, see `ScheduleStatus`"),
    Field("last_at", 0, "the last moment that was carried out, ms"),
    Field("last_run", "", "the session of its last run"),
    Field("failures", 0, "how many failed in a row"),
    Field("skipped", 0, "how many were skipped in a row"),
    Field("authors", "", "whose words besides it derives from, a list as JSON"),
    _REFS,
)

MEMORY: Final = record(
    "memory",
    Field("text", "", "the learned text, none once it is forgotten"),
    Field("domain", "", "its topic, labelled like the text"),
    Field("created", 0, "when it was learned, ms"),
    Field("asker", "", "the person whose turn or command taught it"),
    Field("by_agent", False, "whether an agent did"),
    Field("session", "", "the session that learned it"),
    Field("authors", "", "whose words besides it derives from, a list as JSON"),
    Field("state", "", "whether it counts, see `MemoryState`; none for kept"),
    Field("corrects", "", "the memory in whose place it is"),
    Field("corrected_by", "", "the memory of its label in its place"),
    Field("corrections", 0, "the number of corrections since the first text"),
    Field("ended", 0, "when it was corrected or forgotten, ms"),
    _REFS,
)
"""Its principal and label are in its key."""

SKILL: Final = record(
    "skill",
    Field("state", str, "whether it is in force, see `SkillState`"),
    Field("current", 0, "the number of the version in force, none where there never was one"),
    Field("versions", str, "its versions, the oldest first, a list of objects as JSON"),
    Field("created", int, "when it was created, ms"),
    Field("updated", int, "when it changed last, ms"),
    Field("pool", str, "the label of its pool"),
    Field("derived_from", "", "the skill that it was made from by a session that had read more"),
    Field("revision", int, "how many changes there were"),
)
"""Its principal and label are in its key."""

SKILL_EVENT: Final = record(
    "skill event",
    Field("time", int, "when, ms"),
    Field("actor", "", "who did it"),
    Field("kind", str, "the deed, see `SkillDeed`"),
    Field("number", 0, "with which version"),
    Field("by_agent", False, "whether an agent did"),
)

WORKFLOW_EVENT: Final = record(
    "workflow event",
    Field("order", int, "where it stands among those of all labels; nobody is told it"),
    Field("time", int, "when, ms"),
    Field("kind", str, "its kind, see `bot.sessions.workflows.serialization`"),
    Field("body", str, "its content as JSON"),
    Field("actor", "", "who asked for it"),
    Field("by_agent", False, "whether an agent did it"),
    Field("session", "", "the session that did it"),
    Field("call", "", "the key that makes a repeated event the same one"),
    _REFS,
)
"""Its principal, project and label are in its key."""

SKILL_NOTE: Final = record(
    "skill note",
    Field("time", int, "when, ms"),
    Field("kind", str, "how it went, see `Outcome`"),
    Field("text", str, "the text of the note"),
)

PAIRING: Final = record(
    "pairing",
    Field("state", str, "pending, denied, or tries: wrong codes of a principal"),
    Field("created", int, "since when, ms"),
    Field("expires", int, "until when, ms"),
    Field("scope", "", "the channel and workspace where the stranger asks"),
    Field("digest", "", "the hash of the code"),
    Field("tries", 0, "how many wrong codes there were"),
)

PERSON: Final = record(
    "person",
    Field("role", "", "the role given, none for that of the configuration"),
    Field("clearance", "", "the clearance given, none for that of the configuration"),
    Field("accounts", "", "the accounts linked, a list as JSON"),
)

CHAT: Final = record(
    "chat",
    Field("classification", "", "the classification given, none for that of the configuration"),
    Field("vouched", "", "yes or no: whether an admin vouches for its members; none for the configured value"),
    Field("blocked", False, "whether it is blocked"),
)

BLOCKED: Final = record("blocked", Field("account", "", "the account"))

TOKEN: Final = record(
    "api token",
    Field("id", str, "the name of the secret in force"),
    Field("scope", str, "the rights of its program, see `Scope`"),
    Field("clearance", str, "the clearance of its program"),
    Field("digest", "", "the keyed hash of its text, none for one that was revoked"),
    Field("created", int, "when it was made, ms"),
    Field("expires", 0, "until when it counts, ms, none for ever"),
    Field("creator", str, "the principal that made it"),
    Field("per_minute", 0, "requests in a minute, none for the configured number"),
    Field("revoked", 0, "when it was revoked, ms, none for never"),
)

QUARANTINED: Final = record(
    "quarantined",
    Field("since", int, "when it failed first, ms"),
    Field("tries", int, "how often it failed"),
    Field("lapses", int, "until when it is left alone, ms"),
    Field("error", "", "the kind of the last error"),
    Field("where", "", "the place in the program"),
    Field("schema", int, "the version of the records that the program knew"),
)

ALTERNATIVE: Final = record(
    "alternative",
    Field("wanted", str, "the thing that was asked for, see `Wanted`"),
    Field("session", str, "the session that asked"),
    Field("generation", int, "its generation"),
    Field("turn", "", "the turn"),
    Field("principal", "", "whose it is"),
    Field("binding", "", "the digest that the offer is bound to"),
    _LABEL,
    Field("told", str, "the label of the offer's text"),
    Field("private", "", "the address of the private chat"),
    Field("parent", "", "the address of the parent"),
    Field("recipients", "", "who may have it instead, a list as JSON"),
)

WEBHOOK: Final = record(
    "webhook",
    Field("principal", str, "the program whose it is"),
    Field("url", str, "where events are sent to"),
    Field("level", str, "the least of the levels of events that are sent"),
    Field("types", "", "the types of events that are sent, a list as JSON; none for all"),
    Field("sessions", "", "the sessions whose events are sent, a list as JSON; none for all"),
    Field("created", int, "when it was made, ms; nothing older is sent"),
    Field("failing", 0, "since when nothing was taken, ms, none for one that works"),
    Field("disabled", "", "why nothing is sent any more, see `Ended`"),
    Field("enabled", 0, "when it was enabled again, ms; earlier tries count no more"),
    Field("wanted_at", 0, "when its program last wanted something tried once more, ms"),
)

SENDING_RIGHT: Final = record(
    "sending right",
    Field("owner", str, "who sends for the webhook"),
    Field("lapses", int, "until when, ms"),
)

WEBHOOK_POSITION: Final = record(
    "webhook position",
    Field("seq", 0, "the last event that is done with"),
    Field("attempt", 0, "how often the next was tried"),
    Field("lapses", 0, "when it may be tried again, ms"),
    Field("time", 0, "when it was tried, ms"),
    Field("closed", False, "whether nothing is sent any more, as the session rose above its reader"),
)

DEAD_EVENT: Final = record(
    "dead event",
    Field("session", str, "the session"),
    Field("seq", int, "the event"),
    Field("time", int, "when it was given up, ms"),
    Field("attempt", 0, "how often it was tried"),
    Field("error", "", "why the last try failed"),
    Field("again", False, "whether it is to be tried once more"),
)

AGENT: Final = record("agent", Field("body", str, "the pinned snapshot, as JSON"))

KEPT: Final = record("kept", Field("token", str, "a secret of an adapter, encrypted"))

RESERVATION: Final = record(
    "reservation",
    Field("lapses", int, "when it comes back, ms"),
    Field("tokens", 0, "how many are set aside"),
    Field("pool", str, "the label of its pool"),
    Field("op", str, "the call that set them aside"),
)

PORTION: Final = record(
    "portion",
    Field("number", 0, "which grant it is, from one count for all accounts"),
    Field("granted", 0, "how many tokens of the budget of all may be used and set aside"),
    Field("used", 0, "how many were used on its day"),
    Field("day", int, "the day, since 1970"),
)

SPENT: Final = record(
    "spent",
    Field("tokens", 0, "how many were used today"),
    Field("incomplete", False, "whether more were used than is known"),
)

TURN: Final = part(
    "turn",
    Field("id", str, "its id"),
    Field("position", 0, "the input that began it"),
    Field("dedupe", "", "that input's dedupe key"),
    Field("sender", "", "who sent that"),
    Field("started_at", 0, "when it began, ms"),
    Field("attempt", 0, "how often it was claimed"),
    Field("suspended", False, "whether it waits for people"),
    Field("hops", 0, "how many sessions its message came through"),
    Field("joined", "", "positions of inputs that joined it, a list as JSON"),
    Field("active", 0, "for how long it was worked before it was claimed last, ms"),
    Field("handed", 0, "how often it was given back unfinished"),
    Field("requests", 0, "how often a model was asked before it was suspended"),
    Field("input_tokens", 0, "tokens that models read"),
    Field("output_tokens", 0, "tokens that models wrote"),
    Field("cost", 0, "the known part of their cost"),
    Field("incomplete", False, "whether not all tokens are known"),
    Field("unpriced", False, "whether not all of the cost is known"),
)

LAST_TURN: Final = part(
    "last turn",
    Field("id", str, "its id"),
    Field("reason", "", "why it ended, see `YieldReason`; none for one that completed"),
    Field("seq", 0, "the event that tells of its end in full"),
    Field("result_seq", 0, "the event that holds its answer"),
    Field("error", "", "the reference of the error"),
)

USAGE: Final = part("usage", *TURN.fields[-6:])

TITLE: Final = part("title", Field("text", str, "the title"), _LABEL)

METADATA: Final = part("metadata", Field("text", str, "the metadata that its program keeps with it, as JSON"), _LABEL)

LINEAGE: Final = part(
    "lineage",
    Field("parent", str, "the session it reports to"),
    Field("generation", int, "that one's generation"),
    Field("run", str, "the id that its spawning answered with"),
    Field("depth", int, "1 for a child, 2 for a grandchild"),
    Field("deadline", int, "by when it must end, ms"),
    Field("title", "", "the title of the task"),
    Field("deliver_to", "", "who hears the result besides"),
    Field("meant", "", "the address or principal of that name"),
    Field("asked_at", "", "the address from which it was set going"),
    Field("root", "", "the conversation in which its tree began"),
    Field("root_generation", 0, "that one's generation"),
    Field("charged", False, "whether its answer was charged for"),
    Field("beyond", False, "whether it would have been, but for the limit"),
    Field("known", str, "the taint of its parent"),
    Field("returns", "", "the fields it answers with, a list as JSON"),
)

CHARTER: Final = part(
    "charter",
    Field("run", str, "the id that people name it by"),
    Field("type", str, "how it goes on, see `RunType`"),
    Field("deadline", int, "when it ends at the latest, ms"),
    Field("slot", "", "the slot that it may lock"),
    Field("asker", "", "the person or program who set it going"),
    Field("title", "", "its title"),
    Field("asked_at", "", "the address from which it was started"),
    Field("deliver_to", "", "who hears its last answer besides"),
    Field("meant", "", "the address or principal of that name"),
    Field("schedule", "", "the schedule that started it"),
    Field("due", 0, "for which moment of that, ms"),
    Field("hops", 0, "through how many sessions it came that it was started"),
)

PROGRESS: Final = part(
    "progress",
    Field("initialized_at", 0, "when it was initialized, ms"),
    Field("status", "", "its state, see `RunStatus`; none for running"),
    Field("task", "", "its current task"),
    Field("auth_method", "", "how it says that it pays, see `AuthMethod`"),
    Field("completed", 0, "how many tasks it completed"),
    Field("failed", 0, "how many failed"),
    Field("skipped", 0, "how many it skipped"),
    Field("consecutive", 0, "how many failed in a row"),
    Field("breaker", "", "see `Breaker`; none for closed"),
    Field("opened_at", 0, "when the breaker opened, ms"),
    Field("trips", 0, "how often in a row"),
    Field("aborting", 0, "since when it is to end, ms"),
    Field("turns", 0, "how many turns it had"),
    Field("beat_at", 0, "when it gave its last heartbeat, ms"),
    Field("next_action", "", "the next action that it named"),
    Field("ended", 0, "when it ended, ms"),
    Field("reason", "", "why, see `EndReason`"),
    Field("gaps", "", "when nothing was done, a list as JSON"),
)

CHARGE: Final = part(
    "charge",
    _LABEL,
    Field("millibits", int, "the most that the answer may endorse, in thousandths of a bit"),
    Field("lapses", int, "by when it must have come, ms"),
    Field("heard", False, "whether it was heard"),
    Field("at_once", False, "whether it came at a place fixed by its call"),
)

SEND_TURN: Final = part(
    "send turn",
    Field("number", int, "its place among those who wait to say something there"),
    Field("lapses", int, "until when it is kept, or holds the place, ms"),
    Field("op", "", "the call that holds the place, none for one that waits"),
)

INSTALLATION_KEYS: Final = record(
    "installation keys",
    Field("audit_keys", str, "the names of the audit keys, the newest first, with spaces between"),
    Field("session_keys", str, "those of the session keys likewise"),
    Field("vault_keys", str, "those of the vault keys likewise"),
    Field("retired_keys", "", "those of the audit keys that were retired"),
    Field("put_by", "", "the data directory and the machine of the process that put them there"),
)

STATE: Final = record(
    "state",
    Field("generation", int, "the number of the generation, from 1; a reset adds one"),
    Field("generation_seq", int, "the first event of the generation"),
    Field("seq", int, "the head of the log"),
    Field("status", str, "its state, see `Status`"),
    Field("taint", "PUBLIC", "the join of the labels in the context"),
    Field("creation", "PUBLIC", "the label that it was created with"),
    Field("inbox_label", "PUBLIC", "the join of the labels in the inbox"),
    Field("turned", "", "their join when it first was UNTRUSTED"),
    Field("home", str, "its address"),
    Field("principal", str, "whose it is"),
    Field("created", int, "when it was created, ms"),
    Field("updated", int, "when it changed last, ms"),
    Field("position", 0, "the last input of the generation"),
    Field("waiting", 0, "how many inputs wait"),
    Field("turn", "", "the open turn, a record"),
    Field("last_turn", "", "how the last turn ended, a record"),
    Field("usage", "", "the use of models, a record"),
    Field("last_delivery", 0, "the last number of the outbox"),
    Field("undelivered", 0, "how many deliveries are not settled"),
    Field("fence", 0, "how often it was claimed"),
    Field("owner", "", "who holds the lease"),
    Field("lease_until", 0, "until when, ms"),
    Field("stop", "", "who asked the open turn to stop"),
    Field("audit_seq", 0, "the last row of its audit chain"),
    Field("audit_hash", "", "that row's hash"),
    Field("lineage", "", "where a background session comes from, a record"),
    Field("ended", 0, "when a background session ended, ms"),
    Field("dead_until", 0, "until when it may have dead letters, ms"),
    Field("title", "", "the title that a person gave, a record"),
    Field("model", "", "the model that people chose"),
    Field("memory", "", "the chosen use of memories"),
    Field("queue_mode", "", "how it takes messages while a turn runs, none for collect"),
    Field("late", False, "whether some of the waiting messages came while a turn ran"),
    Field("tries", 0, "how often it was claimed since something was written last"),
    Field("since", 0, "when it was claimed, ms"),
    Field("turns_alone", 0, "how many turns ended since one that a person wrote in"),
    Field("tokens", 0, "how many tokens its own budget was charged for"),
    Field("context_seq", 0, "the event from which a context is made"),
    Field("paused", "", "who let it rest"),
    Field("erasing", False, "whether it was deleted, and something of it may be left"),
    Field("agent", "", "the pin of its agent: its name, and the digest of its snapshot"),
    Field(
        "created_with", "", "the digest of all that its program created it with; none for one that no program created"
    ),
    Field("metadata", "", "the metadata of its program, a record"),
    Field("charter", "", "the charter of a run, a record"),
    Field("progress", "", "how far a run came, a record"),
    Field("truncated", 0, "the fence since a loss of its newest events was noted"),
    Field("truncated_audit", 0, "the last row of its audit chain that was known to be lost then"),
)
"""A session's record, the fields of a hash. It also has `taken:<position>`, the dedupe key of an input in the open
turn. `charge:<run>` is a record of the bits that a bounded answer may endorse since a person's last message.
`aside:<id>` are the tokens of its own budget that are set aside for a running model request."""

RECORDS: Final = (
    *(STATE, TURN, LAST_TURN, USAGE, TITLE, METADATA, LINEAGE, CHARTER, PROGRESS, CHARGE, EVENT, ITEM, INPUT, HELD),
    *(HELD_KEY, APPROVAL, DELIVERY),
    *(AUDIT_ROW, OBSERVED, SLOT, PAIRING, PERSON, CHAT, BLOCKED, QUARANTINED, ALTERNATIVE, KEPT, SEND_TURN),
    *(WEBHOOK, SENDING_RIGHT, WEBHOOK_POSITION, DEAD_EVENT),
    *(RESERVATION, PORTION, SPENT, AGENT, TOKEN, INSTALLATION_KEYS),
    *(RUN_SLOT, TASK, NOTE, SCHEDULE, MEMORY, SKILL, SKILL_EVENT, SKILL_NOTE, WORKFLOW_EVENT),
)
"""All kinds of records."""
