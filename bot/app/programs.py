"""Programs: the HTTP API, imported when it serves, off the event loop."""

import asyncio
import logging
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Final

from bot.access.tokens import unsighted
from bot.api.mcp_server.mount import INSTALL, NEEDS
from bot.api.services import ApiServices
from bot.app.app import App
from bot.config.channels import ADD_API, NO_API
from bot.core.errors import ConfigError, OperatorError
from bot.operations.diagnostics import SIGHT, UNSIGHTED
from bot.operations.reading import SessionReader
from bot.policy_state import NEXT_STEP, other
from bot.tools.web.connection import Connector
from bot.webhooks.keeper import WebhookKeeper
from bot.webhooks.secrets import WebhookSecrets
from policy.document.reading import API

if TYPE_CHECKING:
    from pydantic import JsonValue

    from bot.webhooks.delivery import SendingParts

TOKEN: Final = "LOCKGATE_TOKEN"  # noqa: S105 - the name of the variable
"""The variable of the environment that holds a program's token: a command line is seen by others on a machine."""

NO_TOKEN: Final = f"the token in `{TOKEN}` does not count"
LIST_TOKENS: Final = "set it to a token that `lockgate token list` calls `live`; `lockgate token create` makes one"

_LOGGER: Final = logging.getLogger(__name__)


def document() -> "dict[str, JsonValue]":
    """Return the document of the API, OpenAPI 3.1."""
    from bot.api import application

    return application.document()


def api_services(app: App) -> ApiServices:
    """Return the services of the HTTP API. Raises ConfigError: none is configured."""
    settings = app.config.channels.api
    if settings is None:
        raise ConfigError(NO_API, next_step=ADD_API)
    reading = SessionReader(app.store, app.clock, app.gate.masks.masked)
    return ApiServices(
        settings=settings,
        config=app.config,
        clock=app.clock,
        ids=app.ids,
        tokens=app.tokens,
        gate=app.gate,
        calls=app.calls,
        reloader=app.reloader,
        rates=app.rates,
        store=app.store,
        vault=app.vault(),
        router=app.router,
        agents=app.agents,
        lifecycle=app.lifecycle,
        reading=reading,
        exporter=app.exporter,
        importer=app.importer,
        simulator=app.simulator,
        audit=app.audit,
        lineage=app.lineage,
        approval_answers=app.approval_answers,
        question_answers=app.question_answers,
        webhooks=_webhooks(app, reading),
        runs=app.runs,
        schedules=app.schedules,
        memories=app.memories,
        workflows=app.workflow_operations,
        closing=asyncio.Event(),
    )


def _webhooks(app: App, reading: SessionReader) -> WebhookKeeper:
    settings, secrets = app.config.webhooks, WebhookSecrets(app.vault, app.clock)
    return WebhookKeeper(app.store, reading, secrets, app.ids, most=settings.per_program, private=settings.private)


async def answer(app: App, began: Callable[[str], None]) -> None:
    """Serve the API and send webhooks until cancelled, beside `App.serve` or `App.deliver`.

    `began` gets the address that it listens at.

    Raises:
        ConfigError: none is configured.
        OSError: its address cannot be listened at.
    """

    def answering(url: str) -> None:
        app.readiness.heard.add(API)
        if names := unsighted(app.gate.document, app.reloader.live_tokens.by_name.values()):
            _LOGGER.warning(UNSIGHTED.format(", ".join(names)), extra={"subject": API, "step": SIGHT})
        began(url)

    services = api_services(app)
    await asyncio.to_thread(import_module, "bot.api.server")
    from bot.api import server

    # Looked up again at each try: a name may mean another place by then.
    connector = Connector(app.resolve, app.config.webhooks.private)
    await asyncio.to_thread(import_module, "bot.webhooks.sender")
    from bot.webhooks.sender import WebhookSender

    sender = WebhookSender(sending_parts(services, connector), f"{app.store.sessions.process}.{app.ids.owner()}")
    async with asyncio.TaskGroup() as tasks:
        sending = tasks.create_task(sender.serve())
        try:
            await server.serve(services, answering)
        finally:
            sending.cancel()


async def answer_agent(app: App, token: str) -> None:
    """Serve MCP on standard input and output to the agent of the program with a token, until its input ends.

    Raises OperatorError: the token is not valid, no program is let in, or a package is missing. Or another policy is in
    force than that of this process, which would put its own in its place.
    """
    services = api_services(app)
    head = await app.store.policy.read_policy()
    if head is not None and head.digest != app.reloader.digest:
        raise OperatorError(f"{other(head)}, and this process has another", next_step=NEXT_STEP)
    await app.reloader.start(_logged)
    if app.tokens.authenticate(token) is None:
        raise OperatorError(NO_TOKEN, next_step=LIST_TOKENS)
    try:
        await asyncio.to_thread(import_module, "bot.api.mcp_server.stdio")
        from bot.api.mcp_server import stdio
    except ImportError:
        raise OperatorError(NEEDS, next_step=INSTALL) from None
    async with asyncio.TaskGroup() as tasks:
        counting = tasks.create_task(app.rates.serve())
        await stdio.serve(services, token)
        counting.cancel()


async def _logged(line: str) -> None:
    _LOGGER.warning(line)


def sending_parts(services: ApiServices, connector: Connector) -> "SendingParts":
    """Return the parts that send webhooks."""
    from bot.operations.told_events import EventTeller
    from bot.webhooks.attempt import Poster
    from bot.webhooks.delivery import SendingParts, Slots
    from bot.webhooks.sender import SWEEP_SECONDS

    settings, store = services.config.webhooks, services.store
    return SendingParts(
        store=store,
        tokens=services.tokens,
        reading=services.reading,
        teller=EventTeller(services.reading, services.gate, services.tokens, services.clock),
        poster=Poster(connector, settings.seconds, services.clock),
        secrets=services.webhooks.secrets,
        slots=Slots(),
        clock=services.clock,
        top=lambda: services.gate.document.top,
        in_force=services.reloader.current,
        asks_in_force=services.reloader.current_now,
        now=store.tokens.now_ms,
        chance=services.ids.chance,
        retries=settings.retry_seconds,
        failing_days=settings.failing_days,
        sweep_seconds=SWEEP_SECONDS,
    )
