"""A recording is written down by a transcriber that may hear it, and by nobody else."""

from collections.abc import AsyncGenerator, Mapping
from pathlib import Path

import pytest

from bot.admission.attachments import NOT_HEARD, NOT_POSSIBLE, NOT_WRITTEN
from bot.admission.kinds import FileType, nature
from bot.admission.transcription import HttpTranscriber, TranscriptionError
from bot.admission.transcription import transcriber as configured_one
from bot.app.extensions import Extensions
from bot.config.files import TranscriberSettings
from bot.core.errors import ConfigError
from policy.labels import parse
from tests.bot.admission.file_channel import OGG, Sender, configured, sending
from tests.bot.kit import with_secret
from tests.sim.transcriber import Transcriber, transcriber

pytestmark = pytest.mark.anyio

CHANNELS = {
    "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
    "post": {"classification": "CONFIDENTIAL", "inbound": "INTERNAL", "overshoot": "allow"},
}


@pytest.fixture
async def played() -> AsyncGenerator[Transcriber]:
    async with transcriber() as server:
        yield server


def hearing(
    played: Transcriber, clearance: str = "PUBLIC~", secret: Mapping[str, object] | None = None, **sections: object
) -> str:
    """Return a configuration with the played transcriber, cleared for so much."""
    blocks = {"transcriber": {"base_url": played.base, "model": "scribe", "seconds": 5}, "files": {"characters": 20}}
    return configured(
        {**blocks, **(secret or {})}, **{"transcribers": {"scribe": {"clearance": clearance}}, **sections}
    )


async def decided(ann: Sender) -> list[tuple[object, object]]:
    """Return the decisions on who hears recordings, each with the label of what was to be heard."""
    rows = [record.body async for record in ann.app.chains.records(ann.sid)]
    return [(row["verdict"], row["before"]) for row in rows if row.get("transcriber") == "scribe"]


async def test_what_is_said_is_read_as_untrusted_and_heard_under_no_name(tmp_path: Path, played: Transcriber) -> None:
    async with sending(tmp_path, hearing(played)) as ann:
        (answer,) = await ann.sends(("alice's plan.ogg", OGG))
        assert answer == (
            "You said: [file alice's plan.ogg, 23 bytes, kept as workspace/incoming/1-1-alice's plan.ogg; "
            "transcribed by a program]\n> turn the tide"
        )
        (heard,) = played.heard
        assert (heard.name, heard.media_type, heard.content) == ("recording.ogg", "audio/ogg", OGG)
        assert heard.fields == {"model": "scribe", "response_format": "json"}
        assert heard.key == ""
        assert await decided(ann) == [("ALLOW", "PUBLIC~")]
        state = await ann.app.store.sessions.state(ann.sid)
        assert state is not None
        assert state.taint == parse("PUBLIC~")


async def test_what_the_transcriber_may_not_hear_is_not_sent_and_the_person_is_told(
    tmp_path: Path, played: Transcriber
) -> None:
    async with sending(tmp_path, hearing(played, "PUBLIC~", channels=CHANNELS)) as ann:
        told, answer = await ann.sends(("a.ogg", OGG), text="listen")
        assert told == f"`a.ogg`: {NOT_HEARD}"
        assert "it is not transcribed" in answer
        assert played.heard == []
        assert await decided(ann) == [("BLOCK", "INTERNAL~")]
        assert await ann.kept("workspace/incoming/1-1-a.ogg") == OGG


async def test_what_the_session_has_read_is_not_what_is_heard(tmp_path: Path, played: Transcriber) -> None:
    async with sending(tmp_path, hearing(played)) as ann:
        await ann.says('!read_file {"path": "internal/roster.md"}')
        await ann.says("/taint raise CONFIDENTIAL")
        (answer,) = await ann.sends(("a.ogg", OGG))
        assert "> turn the tide" in answer
        assert await decided(ann) == [("ALLOW", "PUBLIC~")]


async def test_a_transcriber_nobody_listed_hears_public_alone(tmp_path: Path, played: Transcriber) -> None:
    async with sending(tmp_path, hearing(played, transcribers={}, channels=CHANNELS)) as ann:
        told, _ = await ann.sends(("a.ogg", OGG))
        assert NOT_HEARD in told
        assert played.heard == []


async def test_a_rule_of_the_operator_stops_a_recording(tmp_path: Path, played: Transcriber) -> None:
    rule = {"id": "no-sound", "hook": "AGENT_INVOCATION", "action": "BLOCK", "untrusted": True, "channels": ["post"]}
    async with sending(tmp_path, hearing(played, rules=[rule])) as ann:
        await ann.sends(("a.ogg", OGG))
        assert played.heard == []


async def test_without_a_transcriber_a_recording_is_kept_and_a_line_tells(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        (answer,) = await ann.sends(("voice.ogg", OGG))
        assert "kept as workspace/incoming/1-1-voice.ogg; it is not transcribed]" in answer


async def test_a_transcriber_that_the_operator_mends_is_not_asked_for_again(
    tmp_path: Path, played: Transcriber, caplog: pytest.LogCaptureFixture
) -> None:
    played.status = 401
    async with sending(tmp_path, hearing(played)) as ann:
        told, _answer = await ann.sends(("a.ogg", OGG), text="listen")
        assert told == f"`a.ogg`: {NOT_POSSIBLE}"
    (line,) = [vars(one) for one in caplog.records if one.msg == "a recording was not written down"]
    assert (line["cause"], line["alert"]) == ("it does not accept the key (status 401)", True)
    assert line["subject"] == "transcriber `scribe`"
    assert line["label"] is not None


async def test_a_transcriber_that_fails_is_told_and_the_message_counts(tmp_path: Path, played: Transcriber) -> None:
    played.status = 500
    async with sending(tmp_path, hearing(played)) as ann:
        told, answer = await ann.sends(("a.ogg", OGG), text="listen")
        assert told == f"`a.ogg`: {NOT_WRITTEN}"
        assert answer.startswith("You said: listen")


async def test_a_long_transcript_enters_as_far_as_a_text_would(tmp_path: Path, played: Transcriber) -> None:
    played.text = "0123456789" * 1000
    async with sending(tmp_path, hearing(played)) as ann:
        (answer,) = await ann.sends(("a.ogg", OGG))
        assert answer.endswith("> 01234567890123456789\n[there is more in it]")


async def test_a_rule_sees_what_was_said(tmp_path: Path, played: Transcriber) -> None:
    played.text = "4111 1111 1111 1111"
    rule = {"id": "no-cards", "hook": "PRE_CONTEXT_INJECTION", "pattern": "payment-card", "action": "REDACT"}
    async with sending(tmp_path, hearing(played, rules=[rule])) as ann:
        (answer,) = await ann.sends(("a.ogg", OGG))
        assert "4111" not in answer
        assert "4111" not in str(await ann.events())


async def test_a_transcriber_of_ones_own_takes_the_place_of_the_configured_one(
    tmp_path: Path, played: Transcriber
) -> None:
    class Own:
        name = "scribe"

        async def transcribe(self, content: bytes, nature: FileType) -> str:
            return f"{len(content)} bytes of {nature.media_type}"

        async def close(self) -> None:
            """Nothing is open."""

    async with sending(tmp_path, hearing(played), parts=Extensions(transcriber=Own())) as ann:
        (answer,) = await ann.sends(("a.ogg", OGG))
        assert "> 23 bytes of audio/" in answer
        assert played.heard == []


async def test_of_a_secret_that_is_cut_nothing_enters(tmp_path: Path, played: Transcriber) -> None:
    key = "".join(f"{number:03}k" for number in range(1500))

    class Own:
        name = "scribe"

        async def transcribe(self, content: bytes, nature: FileType) -> str:
            return f"12345{key} {key}"

        async def close(self) -> None:
            """Nothing is open."""

    config = hearing(played, secret=with_secret(tmp_path, key))
    async with sending(tmp_path, config, parts=Extensions(transcriber=Own())) as ann:
        (answer,) = await ann.sends(("a.ogg", OGG))
        assert "> 12345[secret: kept]" in answer
        assert key[:9] not in str(await ann.events())


async def test_a_recording_is_heard_when_the_decision_stands_in_the_audit(tmp_path: Path, played: Transcriber) -> None:
    known = list[object]()

    class Looking:
        name = "scribe"
        ann: Sender | None = None

        async def transcribe(self, content: bytes, nature: FileType) -> str:
            assert self.ann is not None
            known.extend(await decided(self.ann))
            return "heard"

        async def close(self) -> None:
            """Nothing is open."""

    looking = Looking()
    async with sending(tmp_path, hearing(played), parts=Extensions(transcriber=looking)) as ann:
        looking.ann = ann
        await ann.sends(("a.ogg", OGG))
        assert known == [("ALLOW", "PUBLIC~")]


async def asked(played: Transcriber, key: str = "", seconds: float = 20.0) -> str:
    one = HttpTranscriber(TranscriberSettings(base_url=f"{played.base}/", model="m", seconds=seconds), key)
    try:
        return await one.transcribe(OGG, nature(OGG))
    finally:
        await one.close()


async def test_the_key_goes_along(played: Transcriber) -> None:
    assert await asked(played, "sk-hunter2") == "turn the tide"
    assert played.heard[0].key == "Bearer sk-hunter2"


@pytest.mark.parametrize(
    "body", [b"", b"turn", b"[]", b"{}", b'{"text": 3}', b"[" * 100_000, b'{"text": "' + b"x" * 1_000_001 + b'"}']
)
async def test_what_is_no_transcript_is_none(played: Transcriber, body: bytes) -> None:
    played.body = body
    with pytest.raises(TranscriptionError):
        await asked(played)


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500])
async def test_a_refusal_is_told_by_its_status_alone(played: Transcriber, status: int) -> None:
    played.status, played.text = status, "sk-hunter2 is not a key"
    with pytest.raises(TranscriptionError, match=f"status {status}$"):
        await asked(played)


async def test_a_redirect_is_not_followed(played: Transcriber) -> None:
    async with transcriber() as elsewhere:
        played.leads = f"{elsewhere.base}/audio/transcriptions"
        with pytest.raises(TranscriptionError, match="status 307"):
            await asked(played, "sk-hunter2")
        assert elsewhere.heard == []


async def test_a_server_that_is_slow_or_gone_is_given_up(played: Transcriber) -> None:
    played.delay = 120
    with pytest.raises(TranscriptionError, match="did not answer"):
        await asked(played, seconds=0.2)
    played.port = 1
    with pytest.raises(TranscriptionError, match="did not answer"):
        await asked(played)


def test_a_key_that_is_not_there_is_told() -> None:
    settings = TranscriberSettings(base_url="https://a.example", model="m", key="HEARING_KEY")
    for environment in ({}, {"HEARING_KEY": " "}):
        with pytest.raises(ConfigError, match="needs a key") as refused:
            configured_one(settings, environment)
        assert refused.value.next_step == "set HEARING_KEY in the environment"
    assert configured_one(settings, {"HEARING_KEY": "k"}) is not None
    assert configured_one(None, {}) is None
