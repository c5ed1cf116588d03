"""`message`: say something to somebody else, through the same gate and outbox as every answer."""

from pydantic import Field

from bot import labelling
from bot.sessions.deliveries import NewDelivery
from bot.tools.base import Arguments, Content, Declared, RefusedCallError, Result, Scene
from channels.message import Address, OutboundKind
from policy.document import Document
from policy.errors import nearest
from policy.labels import PUBLIC
from policy.request import Effect


class MessageArguments(Arguments):
    """Arguments of `message`."""

    channel: str = Field(max_length=64, description="such as console")
    recipient: str = Field(max_length=128, description="an alias from the configuration")
    text: Content = Field(min_length=1, max_length=40_000)


class Message:
    """Send a text to a recipient known by configuration; the conversation's own route never changes."""

    name = "message"
    description = "Send a message to a known recipient on a channel."
    effect = Effect.SEND
    label = PUBLIC
    repeatable = True
    arguments = MessageArguments

    def declare(self, arguments: MessageArguments, scene: Scene) -> Declared:
        """Declare the recipient's address as the sink.

        A private word to the session's own principal, at an address cleared for it, is not consequential
        (SPEC A, `message`).
        """
        address = _address(arguments, scene.document)
        clearance = labelling.classification(scene.document, address)
        own = address == scene.home and clearance is not None and scene.taint.flows_to(clearance)
        return Declared(clearance=clearance, consequential=not own, says=(address, arguments.text))

    async def run(self, arguments: MessageArguments, scene: Scene) -> Result:
        """Hand the text to the outbox; the key makes a repeated call the same message."""
        address = str(_address(arguments, scene.document))
        delivery = NewDelivery(scene.key, address, arguments.text, scene.taint, OutboundKind.MESSAGE, scene.turn)
        return Result(f"accepted for {arguments.recipient}", deliver=(delivery,))


def _address(arguments: MessageArguments, document: Document) -> Address:
    recipient = document.recipients.get(arguments.recipient)
    if recipient is None or recipient.channel != arguments.channel:
        here = [name for name, known in document.recipients.items() if known.channel == arguments.channel]
        raise RefusedCallError(f"unknown recipient `{arguments.recipient}`{nearest(arguments.recipient, here)}")
    return Address(recipient.channel, recipient.chat, recipient.workspace)
