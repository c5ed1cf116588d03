"""Asking every configured model for one token, which proves its key, its name and its address.

The text is constant, so nothing of a session is told; the answer is thrown away. A model that answers anything at all
is in order.
"""

import asyncio
from collections.abc import Mapping
from typing import Final

import httpx2
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import AgentRunError, ModelHTTPError, ModelQuotaExceededError
from pydantic_ai.messages import ModelRequest, UserPromptPart
from pydantic_ai.settings import ModelSettings as Wishes

from bot.agent.providers import Seat, Seats, seats
from bot.config.model import OFFLINE, Config
from bot.core.errors import ConfigError, OperatorError
from bot.core.faults import Fault, refused, unreached
from bot.operations.diagnostics import Diagnosis, read_secrets
from bot.pinned_agents import bare_agents

PATIENCE: Final = 20.0
"""Seconds that a model may take for its token; a local one may have to be loaded first."""

ASKED: Final = "Answer with the word ok."
_LEAST: Final = 16
"""Tokens that OpenAI's Responses API takes as a limit at least; others take one."""

_RESPONSES: Final = frozenset({"openai", "openai-responses"})
"""The providers that are asked by that API."""


async def models(config: Config, environment: Mapping[str, str], patience: float = PATIENCE) -> list[Diagnosis]:
    """Ask each model for one token, side by side, also those of agents with a key of their own.

    Models that cannot be made are told of by `diagnostics.model` and are left out.
    """
    try:
        made = await asyncio.to_thread(seats, config.model, environment)
    except ConfigError:
        return []
    keyed = await asyncio.to_thread(_keyed, config, environment)
    try:
        agents = () if keyed is None else await asyncio.to_thread(_of_agents, config, keyed)
        asked = {
            (seat.name, seat.credential): seat for seat in (*made.all, *made.choices, *agents) if seat.name != OFFLINE
        }
        async with asyncio.TaskGroup() as together:
            tasks = [together.create_task(_probed(seat, patience)) for seat in asked.values()]
        return [task.result() for task in tasks]
    finally:
        await made.close()
        if keyed is not None:
            await keyed.close()


def _keyed(config: Config, environment: Mapping[str, str]) -> Seats | None:
    """Return models that take the keys of agents, None if no agent has one, or they cannot be read. It blocks."""
    if not any(agent.credential for agent in config.agents.values()):
        return None
    try:
        return seats(config.model, environment, credential=read_secrets(config, environment).credential)
    except OperatorError:
        # The secrets' own diagnosis names the problem.
        return None


def _of_agents(config: Config, keyed: Seats) -> tuple[Seat, ...]:
    """Return the models of agents that have a key of their own; none if they cannot be made. It blocks."""
    try:
        return tuple(seat for agent in bare_agents(config) for seat in keyed.make(agent) if seat.credential)
    except OperatorError:
        # The agents' own diagnosis names the problem.
        return ()


async def _probed(seat: Seat, patience: float) -> Diagnosis:
    fault = await _fault(seat, patience)
    there = f" at {seat.address}" if seat.address else ""
    keyed = f" with {seat.key}" if seat.credential else ""
    subject = f"model `{seat.name}`{there}{keyed}"
    if fault is None:
        return Diagnosis(subject, note="it answers")
    return Diagnosis(subject, fault.cause, fault.step or "see whether its provider is up, and ask again")


async def _fault(seat: Seat, patience: float) -> Fault | None:
    """Return why a model did not answer, None if it did."""
    least = _LEAST if seat.name.partition(":")[0] in _RESPONSES else 1
    try:
        async with asyncio.timeout(patience):
            await model_request(
                seat.model,
                [ModelRequest(parts=[UserPromptPart(ASKED)])],
                model_settings=Wishes(max_tokens=least, max_retries=0),
            )
    except ModelHTTPError as error:
        return refused(error.status_code, key=seat.key, quota=isinstance(error, ModelQuotaExceededError))
    except TimeoutError:
        return Fault(f"no answer in {patience:g} seconds", "see whether it is up, or mend its address")
    except (AgentRunError, httpx2.HTTPError, ValueError, OSError) as error:
        return unreached(error)
    return None
