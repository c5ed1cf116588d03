"""An operator looks at traces: a message over Telegram is one, and none of what was said is in it."""

import asyncio
import json
from pathlib import Path

import pytest

from tests.journeys.machine import Machine
from tests.journeys.test_telegram import call, config, hears
from tests.sim.otlp import receiver
from tests.sim.telegram import telegram


@pytest.mark.anyio
async def test_a_message_over_telegram_is_one_connected_trace_that_tells_no_text(tmp_path: Path) -> None:
    async with telegram() as server, receiver() as sink:
        ann = server.user("Annabella")
        settings = json.loads(config(server, ann))
        settings["telemetry"] = {"endpoint": sink.endpoint, "headers": {"x-api-key": "TRACES_KEY"}}
        machine = Machine(tmp_path)
        async with machine.listening(json.dumps(settings), {"BOT_TOKEN": server.token, "TRACES_KEY": "opensesame"}):
            ann.says(None, "good morning")
            await hears(server, ann.private, "good morning")
            await sink.until(lambda: bool(sink.named("deliver") and sink.named("turn")), 30)
            plan = machine.data / "files" / "public" / "plan.md"
            await asyncio.to_thread(plan.write_text, "magnolia inside")
            ann.says(None, call("read_file", path="public/plan.md"))
            await hears(server, ann.private, "magnolia inside")
            await sink.until(lambda: len(sink.named("deliver")) == len(sink.named("turn")) == 2, 30)
            before = len(sink.spans)
            said = len(ann.private.said)
            ann.says(None, call("read_file", path="confidential/pipeline.md"))
            await server.until(lambda: len(ann.private.said) > said, 30)
            ann.says(None, "and what of wisteria?")
            await hears(server, ann.private, "wisteria")
        spans = sink.spans
        last = [span for span in spans if span.trace == sink.named("turn")[-1].trace]
        assert {"accept", "turn", "claim", "admission", "model", "tool", "output", "commit", "deliver"} <= {
            span.name for span in last
        }
        (root,) = [span for span in last if not span.parent]
        known = {span.id for span in last}
        assert root.name == "turn"
        assert all(span.parent in known for span in last if span is not root)
        assert len({span.id for span in last}) == len(last)
        (accept,) = [span for span in last if span.name == "accept"]
        (deliver,) = [span for span in last if span.name == "deliver"]
        assert accept.start == root.start <= accept.end <= deliver.end
        assert (deliver.facts["channel"], deliver.facts["state"]) == ("telegram", "sent")
        (tool,) = [span for span in last if span.name == "tool"]
        assert (tool.facts["tool"], tool.facts["verdict"]) == ("read_file", "ALLOW")
        assert root.facts["ended"] == "completed"
        # What it read is above the sink: neither that turn nor one after it is told of.
        assert len(spans) == before
        assert all(headers["x-api-key"] == "opensesame" for headers in sink.headers)
        received = b"".join(sink.bodies)
        for secret in ("magnolia", "plan.md", "pipeline", "wisteria", "Annabella", str(ann.id), server.token):
            assert secret.encode() not in received, secret


def test_the_check_tells_where_traces_go(machine: Machine) -> None:
    written = "telemetry: {endpoint: 'https://collector.example/v1/traces?key=hidden', headers: {x-key: TRACES_KEY}}\n"
    (machine.folder / "config.yaml").write_text(written)
    checked = machine.run("check", TRACES_KEY="k")
    assert "traces go to https://collector.example, cleared for PUBLIC\n" in checked.out
    assert "hidden" not in checked.out
    checked = machine.run("check")
    assert (checked.code, "`telemetry.headers` needs a value for `x-key`" in checked.err) == (2, True)
