"""The arguments of a write about a run: its progress at the end of a turn, its continuation, and the notes read.

Most sessions are not runs, and their writes have none of these.
"""

from bot.sessions.log.serialization import message_json
from bot.sessions.messages import Origin, OriginKind, SessionMessage
from bot.sessions.models import Write
from bot.store.calls import Arguments, nested
from bot.store.records import run_parts
from bot.store.records.codec import Bodies, digest, dump
from bot.store.schema import CONTINUE


def run_arguments(write: Write, bodies: Bodies) -> Arguments:
    """Return the arguments of a write about its run, none for any other session."""
    told = dict[str, object]()
    if write.run is not None:
        # A run that ends outside a turn has no turn to name.
        last = write.end.id if write.end else write.op
        step = write.run
        said = continuation(step.continuation, last, bodies, step.hops) if step.continuation else None
        told["run"] = nested({"progress": nested(run_parts.step(step.progress)), "item": said})
    if write.acknowledge:
        told["acknowledge"] = list(write.acknowledge)
    return told


def continuation(text: str, name: str, bodies: Bodies, hops: int) -> Arguments:
    """Return a continuation of the runtime as an input of its own; `name` names its occasion, which has only one."""
    body = dump(message_json(SessionMessage(text, origin=Origin(OriginKind.RUNTIME), hops=hops)), sort=True)
    return nested({"dedupe": f"{CONTINUE}{name}", "body": bodies.put(body), "digest": digest(body)})
