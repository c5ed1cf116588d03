"""Everything that asks models, made from the configuration: the models, the chain of them, recaps and inspections."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bot.access.agents import AgentSnapshot
from bot.agent.chain import Chain
from bot.agent.inspector import Inspector
from bot.agent.models import ModelClient
from bot.agent.providers import Credential, Maker, Seats, seats
from bot.agent.recap import Recap
from bot.budgets import Budget
from bot.config.model import ModelSettings
from bot.gate.gate import Gate
from bot.sessions.ports.people import AuditStore


@dataclass(frozen=True, slots=True)
class Thinking:
    """The parts that all turns of one process share."""

    seats: Seats
    chain: Chain
    recap: Recap
    inspector: Inspector


def thinking(  # noqa: PLR0913 - made in the composition root from its collaborators
    settings: ModelSettings,
    environment: Mapping[str, str],
    *,
    gate: Gate,
    audit: AuditStore,
    budget: Budget,
    agents: Iterable[AgentSnapshot],
    credential: Credential,
    maker: Maker | None = None,
) -> Thinking:
    """Make them, and the models of `agents`; it blocks while certificates are read.

    `credential` returns the value of a secret, None for an unknown name.

    Raises ConfigError: a configured model cannot be used.
    """
    made = seats(settings, environment, maker, credential=credential)
    chain = Chain(made, ModelClient(settings, budget), gate)
    for agent in agents:
        chain.make(agent)
    return Thinking(made, chain, Recap(chain, gate, audit), Inspector(chain, gate, audit, budget))
