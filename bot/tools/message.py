"""`message`: send a text to another recipient, through the same gate and outbox as every answer."""

from pydantic import Field

from bot.access import labelling, recipients
from bot.sessions.deliveries import NewDelivery
from bot.tools.base import (
    Arguments,
    CallFacts,
    Content,
    Identifier,
    Recipient,
    RefusedCallError,
    Result,
    ToolContext,
    ToolServices,
)
from channels.messages import Address, OutboundKind
from policy.labels import PUBLIC
from policy.request import Effect


class MessageArguments(Arguments):
    """Arguments of `message`."""

    channel: Identifier = Field(max_length=64, description="such as console")
    recipient: Recipient = Field(
        max_length=128, description="an alias from the configuration, a person's name, or the platform's id of a chat"
    )
    text: Content = Field(min_length=1, max_length=40_000)


class Message:
    """Send a text to a recipient known by configuration; the conversation's own route never changes."""

    name = "message"
    description = "Send a message to a known recipient on a channel."
    effect = Effect.SEND
    label = PUBLIC
    repeatable = True
    server = ""
    arguments = MessageArguments

    def declare(self, arguments: MessageArguments, context: ToolContext) -> CallFacts:
        """Declare the recipient's address as the sink.

        A private word to the session's own principal, at an address cleared for it, is not consequential.
        """
        address = recipient(context, arguments.recipient, arguments.channel)
        clearance = labelling.expected(context.document, address).clearance
        cleared = clearance is not None and context.session.taint.flows_to(clearance)
        own = cleared and recipients.stays(context.document, context.caller, context.session.home, address)
        return CallFacts(clearance=clearance, consequential=not own, says=(address, arguments.text), once=True)

    async def run(self, arguments: MessageArguments, context: ToolContext, services: ToolServices) -> Result:
        """Hand the text to the outbox; the key makes a repeated call the same message."""
        address = str(recipient(context, arguments.recipient, arguments.channel))
        taint, turn = context.session.taint, context.session.turn
        delivery = NewDelivery(context.key, address, arguments.text, taint, OutboundKind.MESSAGE, turn)
        return Result(f"accepted for {arguments.recipient}", deliver=(delivery,))


def recipient(context: ToolContext, name: str, channel: str = "") -> Address:
    """Return the place that a call names.

    Raises RefusedCallError: there is not one of that name that its caller may know of.
    """
    try:
        return recipients.find(context.document, context.caller, name, channel)
    except recipients.UnknownRecipientError:
        raise RefusedCallError(recipients.UNKNOWN_THERE if channel else recipients.UNKNOWN) from None
