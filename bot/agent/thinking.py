"""Everything that asks models, made from the configuration: the models, the chain of them, and recaps."""

from collections.abc import Mapping
from dataclasses import dataclass

from bot.agent.chain import Chain
from bot.agent.models import ModelClient
from bot.agent.providers import Maker, Seats, seats
from bot.agent.recap import Recap
from bot.budgets import Budget
from bot.config.model import ModelSettings
from bot.gate.gate import Gate
from bot.sessions.ports import AuditStore


@dataclass(frozen=True, slots=True)
class Thinking:
    """The parts that one process shares, whoever asks."""

    seats: Seats
    chain: Chain
    recap: Recap


def thinking(
    settings: ModelSettings,
    environment: Mapping[str, str],
    *,
    gate: Gate,
    audit: AuditStore,
    budget: Budget,
    maker: Maker | None = None,
) -> Thinking:
    """Make them; it blocks while certificates are read.

    Raises ConfigError: a configured model cannot be used.
    """
    made = seats(settings, environment, maker)
    chain = Chain(made, ModelClient(settings, budget), gate)
    return Thinking(made, chain, Recap(chain, gate, audit))
