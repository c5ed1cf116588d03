"""What a write tells of a run: how far it came by the end of a turn, what the runtime says next, which notes were read.

Most sessions are no runs, and their writes carry nothing of this.
"""

from bot.sessions.log.serialization import message_json
from bot.sessions.messages import Origin, OriginKind, SessionMessage
from bot.sessions.models import Write
from bot.store.calls import Arguments, nested
from bot.store.records import run_parts
from bot.store.records.codec import Bodies, digest, dump
from bot.store.schema import CONTINUE


def run_arguments(write: Write, bodies: Bodies) -> Arguments:
    """Return what a write tells of its run, nothing for any other session."""
    told = dict[str, object]()
    if write.run is not None:
        # A run that ends outside a turn has none to name.
        last = write.end.id if write.end else write.op
        step = write.run
        said = continuation(step.continuation, last, bodies, step.hops) if step.continuation else None
        told["run"] = nested({"progress": nested(run_parts.step(step.progress)), "item": said})
    if write.acknowledge:
        told["acknowledge"] = list(write.acknowledge)
    return told


def continuation(text: str, name: str, bodies: Bodies, hops: int) -> Arguments:
    """Return what the runtime says to a run as an input of its own; `name` is that of the occasion, said once."""
    body = dump(message_json(SessionMessage(text, origin=Origin(OriginKind.RUNTIME), hops=hops)), sort=True)
    return nested({"dedupe": f"{CONTINUE}{name}", "body": bodies.put(body), "digest": digest(body)})
