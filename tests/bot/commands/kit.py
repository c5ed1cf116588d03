"""What tests of commands share."""

from bot.access.authorize import Caller, Ingress
from bot.commands import table
from policy.request import Role
from tests.bot.kit import bang, policy
from tests.harness import Person
from tests.people import principal

READ = bang("read_file", path="confidential/pipeline.md")
WRITE = bang("write_file", path="confidential/note.md", text="mine")
COUPLE = policy(
    principals={
        "owner": principal("console:owner"),
        "bea": principal("console:bea", role="member", clearance="INTERNAL"),
    },
)


def context(person: Person, caller: Caller | None = None) -> table.CommandRequest:
    """Return what a command of a caller, the owner if none is given, works with."""
    owner = Caller("owner", Role.OWNER, person.app.config.policy.top, Ingress.COMMAND)
    return person.app.commands.request(caller or owner, person.address, person.sid)
