"""The sink that counts: metrics of turns in the text format of Prometheus, for a server that asks for them.

It gets the same spans as a receiver of traces, decided in the same way: a session above its clearance is not counted.
So it tells nothing that a receiver of that clearance would not learn (ADR 0053). It has no name of a person, chat, tool
or session. Beside spans it knows how long the store takes to answer a look that the clock began, never one that a
session began. Imported in a process that serves metrics.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, disable_created_metrics, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from bot.access.labelling import CONFIGURED
from bot.core.tracing import TraceSpan
from bot.sessions.background.delegation import SESSION
from bot.telemetry.telemetry import SentSpan
from policy.fixed import RESERVED
from policy.labels import Label

CONTENT_TYPE: Final = CONTENT_TYPE_PLAIN_0_0_4
CONFIGURED_RULE: Final = "configured"
"""The name of all configured rules where the configuration may not be known."""

_NS: Final = 1_000_000_000
_LONG: Final = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800)
_SHORT: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 3)
_HOOKS: Final = MappingProxyType({"tool": "PRE_TOOL_CALL", "output": "PRE_OUTPUT"})


class Metrics:
    """Counts spans of sessions up to `clearance`, the sink's own."""

    def __init__(self, clearance: Label) -> None:
        # When something was counted first is of no use here.
        disable_created_metrics()
        self.ready = False
        self.apart = 0.0
        self._names_rules = CONFIGURED.flows_to(clearance)
        self._registry = own = CollectorRegistry()
        self._turns = Counter("lockgate_turns", "Turns that ended, by reason.", ["channel", "ended"], registry=own)
        self._seconds = _histogram("turn", "Time from accepting a message to the end of its turn.", _LONG, own)
        self._waits = _histogram("wait", "Time from accepting a message until a worker took it.", _LONG, own)
        self._models = Histogram(
            "lockgate_model_seconds", "Time of a request to a model.", ["failed"], buckets=_LONG, registry=own
        )
        self._admitted = Counter("lockgate_admissions", "Messages that were decided on.", ["admitted"], registry=own)
        self._verdicts = Counter(
            "lockgate_verdicts", "Decisions, by hook and verdict.", ["hook", "verdict"], registry=own
        )
        self._rules = Counter(
            "lockgate_rules",
            "Decisions in which a rule did not allow, by hook and rule.",
            ["hook", "rule"],
            registry=own,
        )
        self._logged = Counter(
            "lockgate_log_only_rules",
            "Decisions in which a rule that is log_only would not have allowed, or failed, by hook, rule and verdict.",
            ["hook", "rule", "verdict"],
            registry=own,
        )
        self._approvals = Counter(
            "lockgate_approvals", "Calls that need an approval, by its state.", ["state"], registry=own
        )
        self._deliveries = Counter(
            "lockgate_deliveries", "Tries to deliver a text, by outcome.", ["channel", "state"], registry=own
        )
        self._store = _histogram("store", "Time of a read of the store, every two seconds.", _SHORT, own)
        self._away = Counter("lockgate_store_failures", "Reads of the store that failed.", registry=own)
        self._clearance = clearance
        self._lost = Counter("lockgate_truncated_logs", "Losses of events that were found in the store.", registry=own)
        _gauge("ready", "Whether this process can do its work.", lambda: float(self.ready), own)
        _gauge("clock_difference_seconds", "The largest difference between two clocks.", lambda: self.apart, own)
        self._taken: Mapping[str, Callable[[TraceSpan], None]] = {
            "turn": self._turn,
            "accept": lambda span: self._waits.observe(_seconds(span)),
            "model": lambda span: self._models.labels(_word(bool(span.error))).observe(_seconds(span)),
            "admission": lambda span: self._admitted.labels(_word(bool(span.facts.get("admitted")))).inc(),
            "tool": self._decision,
            "output": self._decision,
            "deliver": self._delivery,
        }

    async def export(self, spans: Sequence[SentSpan]) -> None:
        """Count spans."""
        for sent in spans:
            take = self._taken.get(sent.span.name)
            if take is not None:
                take(sent.span)

    async def close(self) -> None:
        """Keep the counts: a process that ends answers until its server ends."""

    def looked(self, seconds: float, *, answered: bool, ready: bool) -> None:
        """Note a look at this process: how long the store took, whether it `answered`, and whether all is `ready`."""
        self.ready = ready
        if answered:
            self._store.observe(seconds)
        else:
            self._away.inc()

    def lost(self, label: Label | None) -> None:
        """Count a loss of a session with a label, None for the chain of decisions outside sessions."""
        if (CONFIGURED if label is None else label).flows_to(self._clearance):
            self._lost.inc()

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._registry)

    def _turn(self, span: TraceSpan) -> None:
        self._turns.labels(str(span.facts.get("channel")), str(span.facts.get("ended"))).inc()
        self._seconds.observe(_seconds(span))

    def _decision(self, span: TraceSpan) -> None:
        verdict, hook = span.facts.get("verdict"), _HOOKS[span.name]
        if verdict is None:
            # The verdict on a call that refers to held results is not told.
            return
        self._verdicts.labels(hook, str(verdict)).inc()
        for rule in {self._rule(rule) for rule in str(span.facts.get("rules", "")).split()}:
            self._rules.labels(hook, rule).inc()
        for rule, _, word in {told.partition(":") for told in str(span.facts.get("would", "")).split()}:
            self._logged.labels(hook, self._rule(rule), word).inc()
        if "approval" in span.facts:
            self._approvals.labels(str(span.facts["approval"])).inc()

    def _rule(self, name: str) -> str:
        return name if self._names_rules or name in RESERVED else CONFIGURED_RULE

    def _delivery(self, span: TraceSpan) -> None:
        channel = str(span.facts.get("channel"))
        # A delivery to another session has no outcome here: that session may be above this sink.
        if channel != SESSION:
            self._deliveries.labels(channel, str(span.facts.get("state"))).inc()


def _gauge(name: str, told: str, now: Callable[[], float], registry: CollectorRegistry) -> None:
    Gauge(f"lockgate_{name}", told, registry=registry).set_function(now)


def _histogram(name: str, told: str, buckets: Sequence[float], registry: CollectorRegistry) -> Histogram:
    return Histogram(f"lockgate_{name}_seconds", told, buckets=buckets, registry=registry)


def _seconds(span: TraceSpan) -> float:
    return (span.end - span.start) / _NS


def _word(value: bool) -> str:  # noqa: FBT001 - the value is what is written
    return "true" if value else "false"
