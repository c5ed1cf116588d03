"""Files of a message are fetched when its turn begins, kept with its label, and enter the context as UNTRUSTED."""

import asyncio
import hashlib
from contextlib import suppress
from pathlib import Path

import pytest

from bot.admission.attachments import NOT_HAD
from bot.files.port import AbsentError
from bot.sessions.approvals import ApprovalState
from bot.sessions.log.event_types import MessageFile, UserMessage
from bot.sessions.log.events import EventType
from bot.sessions.messages import FileKind
from bot.sessions.models import Claim
from bot.worker.finish import WENT_WRONG
from bot.worker.turn_runner import ATTEMPTS
from channels.messages import Attachment, Inbound
from policy.labels import join_all, parse
from tests.bot.admission.file_channel import HOUSE, PNG, FileChannel, Sender, configured, sending
from tests.bot.kit import Scripted, bang, base_on_disk, eventually, note, parts, proposed, with_secret
from tests.clocks import LEASE_SECONDS
from tests.events import bodies
from tests.harness import running
from tests.store.world import end_lease

pytestmark = pytest.mark.anyio

DIRTY = parse("PUBLIC~")
KEY = "".join(f"{number:03}k" for number in range(1500))
FAST = {"store": {"lease_seconds": LEASE_SECONDS}}


async def text_in_log(sender: Sender) -> str:
    """Return the newest message as the log has it."""
    return bodies(await sender.events(), UserMessage)[-1].text


async def test_a_text_file_is_read_kept_and_labelled(tmp_path: Path) -> None:
    model = Scripted("noted")
    async with sending(tmp_path, parts=parts(model=model)) as ann:
        assert await ann.sends(("plan.md", b"first\nsecond"), text="look") == ["noted"]
        assert model.read() == (
            "look\n\n[file plan.md, 12 bytes, kept as workspace/incoming/1-1-plan.md; written by somebody else]\n"
            "> first\n> second"
        )
        (file,) = await ann.files()
        assert file == MessageFile(
            "plan.md",
            kind=FileKind.TEXT,
            path="workspace/incoming/1-1-plan.md",
            media_type="text/plain",
            size=12,
            digest=hashlib.sha256(b"first\nsecond").hexdigest(),
        )
        assert await ann.kept("workspace/incoming/1-1-plan.md") == b"first\nsecond"
        place = await ann.place("workspace/incoming/1-1-plan.md")
        found = await asyncio.to_thread(ann.app.files.find, place, DIRTY)
        assert found is not None
        assert found.label == DIRTY
        state = await ann.app.store.sessions.state(ann.sid)
        assert state is not None
        admitted = [event.label for event in await ann.events() if event.admitted]
        assert state.taint == DIRTY == join_all(admitted)


async def test_the_agent_finds_what_came_with_a_message(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        await ann.sends(("plan.md", b"tides turn"))
        (answer,) = await ann.says('!read_file {"path": "workspace/incoming/1-1-plan.md"}')
        assert "tides turn" in answer


async def test_a_file_without_words_is_a_message(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        (answer,) = await ann.sends(("a.pdf", b"%PDF-1.7"))
        assert "[file a.pdf, 8 bytes, kept as workspace/incoming/1-1-a.pdf; it cannot be read here]" in answer


async def test_files_of_one_name_do_not_replace_one_another(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        await ann.sends(("a.txt", b"one"), ("a.txt", b"two"))
        await ann.sends(("a.txt", b"three"))
        paths = [file.path for file in await ann.files()]
        assert [await ann.kept(path) for path in paths] == [b"one", b"two", b"three"]


async def test_a_file_that_takes_its_worker_down_every_time_ends_and_the_conversation_goes_on(tmp_path: Path) -> None:
    config, channel = configured(FAST), FileChannel(delay=60)
    async with sending(tmp_path, config, channel=channel) as ann:
        await ann.says("look", ann.attachment("a.txt", b"tides turn"), wait=False)

        async def begun() -> bool:
            return bool(channel.asked)

        await eventually(begun)
        sid = ann.sid
    async with sending(tmp_path, config, channel=channel, serve=False) as ann:
        for attempt in range(2, ATTEMPTS + 1):
            claims = list[Claim]()

            async def claimed(claims: list[Claim] = claims, owner: str = f"crash {attempt}") -> bool:
                claim = await ann.app.store.sessions.claim(sid, owner)
                claims += [claim] if claim is not None else []
                return bool(claims)

            await eventually(claimed)
            (claim,) = claims
            assert claim.state.turn is not None
            assert (claim.state.turn.attempt, len(claim.items)) == (attempt, 1)
            await end_lease(ann.app.store, sid)
    channel.delay = 0.0
    async with sending(tmp_path, config, channel=channel) as ann:
        assert await ann.says("and now?") == [channel.said[0].text, "You said: and now?"]
        assert WENT_WRONG.partition("{")[0] in channel.said[0].text
        assert channel.asked == ["h1"]
        log = await ann.events()
        assert "given up after" in str([event.body for event in log if event.type is EventType.ERROR])
        assert "tides" not in str(log)
        state = await ann.app.store.sessions.state(sid)
        assert state is not None
        assert (state.waiting_items, state.turn) == (0, None)
        assert "refused" in [row.kind for row in await ann.app.store.audit.records(sid)]


@pytest.mark.parametrize("name", ["../../config.yaml", "/etc/passwd", "..", "\u202e" * 9, "x" * 300, "\n> [file]\n"])
async def test_a_hostile_name_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    async with sending(tmp_path) as ann:
        await ann.sends((name, b"content"))
        (file,) = await ann.files()
        folder, kept = file.path.rsplit("/", 1)
        assert folder == "workspace/incoming"
        assert kept.isprintable()
        assert len(kept) < 120
        assert await ann.kept(file.path) == b"content"
        assert (await text_in_log(ann)).count("\n") == 1
    assert not list(tmp_path.parent.rglob("passwd"))


async def test_only_the_beginning_of_a_long_text_enters(tmp_path: Path) -> None:
    async with sending(tmp_path, configured({"files": {"characters": 10}})) as ann:
        await ann.sends(("long.txt", b"0123456789ABC"))
        text = await text_in_log(ann)
        assert text.endswith("> 0123456789\n[there is more in it]")
        assert await ann.kept("workspace/incoming/1-1-long.txt") == b"0123456789ABC"


async def test_redaction_of_a_file_is_real_and_cuts_nothing_in_two(tmp_path: Path) -> None:
    rule = {"id": "no-cards", "hook": "PRE_CONTEXT_INJECTION", "pattern": "payment-card", "action": "REDACT"}
    config = configured({"files": {"characters": 14}}, rules=[rule])
    async with sending(tmp_path, config) as ann:
        await ann.sends(("4111 1111 1111 1111.txt", b"card 4111 1111 1111 1111 end"), text="4111 1111 1111 1111")
        log = str(await ann.events())
        # Digits alone may stand in an id.
        assert "4111 1111" not in log
        assert "4111 1111" not in str(ann.channel.said)


async def test_of_a_secret_that_is_cut_nothing_enters(tmp_path: Path) -> None:
    config = configured({"files": {"characters": 10}, **with_secret(tmp_path, KEY)})
    async with sending(tmp_path, config) as ann:
        await ann.sends(("long.txt", f"12345{KEY} {KEY} {KEY} end".encode()))
        assert (await text_in_log(ann)).endswith("> 12345[secr\n[there is more in it]")


@pytest.mark.parametrize("before", [0, 60, 95])
async def test_of_a_secret_in_a_name_nothing_enters(tmp_path: Path, before: int) -> None:
    config = configured(with_secret(tmp_path, KEY[:80]))
    async with sending(tmp_path, config) as ann:
        await ann.sends((f"{'x' * before}{KEY[:80]}.txt", b"content"))
        assert KEY[:4] not in str(await ann.events())


async def test_a_rule_that_blocks_what_a_file_says_lets_nothing_be_kept(tmp_path: Path) -> None:
    rule = {"id": "no-cards", "hook": "PRE_CONTEXT_INJECTION", "pattern": "payment-card", "action": "BLOCK"}
    async with sending(tmp_path, configured(rules=[rule])) as ann:
        (told,) = await ann.sends(("a.txt", b"4111 1111 1111 1111"), text="look")
        assert "no-cards" in told
        assert await ann.files() == []
        with pytest.raises(AbsentError):
            await ann.kept("workspace/incoming/1-1-a.txt")


async def test_nothing_is_fetched_that_may_not_be_read(tmp_path: Path) -> None:
    config = configured(
        models={"offline": {"clearance": "PUBLIC"}},
        chats={},
        channels={
            "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
            "post": {"classification": "CONFIDENTIAL", "inbound": "INTERNAL", "overshoot": "allow"},
        },
    )
    async with sending(tmp_path, config) as ann:
        (told,) = await ann.sends(("a.txt", b"content"), text="look")
        assert "provider" in told
        assert ann.channel.asked == []
        assert await ann.files() == []


@pytest.mark.parametrize("claimed,asked", [(2_000_001, []), (1, ["h1"]), (0, ["h1"])])
async def test_a_file_that_is_too_large_is_told_and_the_message_counts(
    tmp_path: Path, claimed: int, asked: list[str]
) -> None:
    async with sending(tmp_path, configured({"files": {"megabytes": 2}})) as ann:
        told, answer = await ann.sends(("big.bin", bytes(2_000_001)), text="look", size=claimed)
        assert told == "`big.bin`: not taken in, a file may have 2 MB"
        assert answer.startswith("You said: look\n\n[file big.bin, not taken in: a file may have 2 MB]")
        assert ann.channel.asked == asked


async def test_where_more_was_read_nothing_is_told_of_files(tmp_path: Path) -> None:
    """Whether a recording could be paid for, of what is left at that level, is not for the readers below."""
    recipients = {"house": {"channel": "post", "chat": HOUSE.chat, "clearance": "PUBLIC"}}
    config = configured({"files": {"megabytes": 2}}, recipients=recipients)
    async with sending(tmp_path, config) as ann:
        (first,) = await ann.says(bang("read_file", path="confidential/pipeline.md"))
        (told,) = await ann.sends(("big.bin", bytes(2_000_001)), text="look")
        assert told == first


async def test_all_files_of_a_conversation_are_bounded_together(tmp_path: Path) -> None:
    async with sending(tmp_path, configured({"files": {"total_megabytes": 1}})) as ann:
        await ann.sends(("a.bin", bytes(600_000)))
        told, _ = await ann.sends(("b.bin", bytes(600_000)))
        assert told == (
            "`b.bin`: not taken in, all files of a conversation may have 1 MB together, `/reset` lets go of them"
        )
        assert len(await ann.sends(("c.bin", bytes(400_000)))) == 1
        asked = len(ann.channel.asked)
        assert len(await ann.sends(("d.bin", b"x"))) == 2
        assert len(ann.channel.asked) == asked
        await ann.says("/reset confirm")
        assert len(await ann.sends(("b.bin", bytes(600_000)))) == 1


async def test_a_message_brings_so_many_files(tmp_path: Path) -> None:
    async with sending(tmp_path, configured({"files": {"per_message": 2}})) as ann:
        told, _ = await ann.sends(*((f"{number}.txt", b"x") for number in range(4)))
        assert told.count("a message may bring 2 files") == 2
        assert len(ann.channel.asked) == 2


async def test_what_cannot_be_fetched_is_told_and_the_message_counts(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        told, answer = await ann.says("look", Attachment("gone", "a.txt"))
        assert told == f"`a.txt`: not taken in, {NOT_HAD}"
        assert answer.startswith("You said: look")


async def test_where_a_files_name_may_not_be_said_nothing_is_told_of_it(tmp_path: Path) -> None:
    channels = {
        "console": {"classification": "top", "inbound": "PUBLIC", "overshoot": "allow"},
        "post": {"classification": "PUBLIC", "inbound": "INTERNAL", "overshoot": "allow"},
    }
    async with sending(tmp_path, configured(channels=channels)) as ann:
        said = await ann.says("look", Attachment("gone", "secret-name.txt"))
        assert "secret-name" not in str(said)
        assert "secret-name" in await text_in_log(ann)


async def test_what_takes_too_long_is_given_up(tmp_path: Path) -> None:
    async with sending(tmp_path, configured({"files": {"seconds": 0.05}}), channel=FileChannel(delay=30)) as ann:
        told, _ = await ann.sends(("slow.txt", b"content"))
        assert NOT_HAD in told


async def test_a_channel_that_has_no_files_is_told_so(tmp_path: Path) -> None:
    async with running(tmp_path) as owner:
        sent = Inbound(owner.address, owner.account, "look", "1", files=(Attachment("h", "a.txt"),))
        await owner.app.router.receive(sent)
        await owner.settled()
        assert f"`a.txt`: not taken in, {NOT_HAD}" in owner.shown
        assert "You said: look" in owner.shown


async def test_a_file_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        await ann.says("hello")
        base = base_on_disk(ann.app.config.data_dir, await ann.place("workspace/incoming"))
        base.mkdir(parents=True)
        (base / "incoming").write_text("in the way")
        told, _ = await ann.sends(("a.txt", b"content"))
        assert told == "`a.txt`: not taken in, it could not be kept here"


async def test_a_reset_lets_go_of_files(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        await ann.sends(("a.txt", b"content"))
        before = await ann.place("workspace/incoming/1-1-a.txt")
        await ann.says("/reset confirm")
        assert not base_on_disk(ann.app.config.data_dir, before).exists()
        state = await ann.app.store.sessions.state(ann.sid)
        assert state is not None
        assert state.taint == parse("PUBLIC")


async def test_a_crash_while_a_file_is_fetched_heals(tmp_path: Path) -> None:
    channel = FileChannel(delay=60)
    async with sending(tmp_path, configured(FAST), serve=False, channel=channel) as ann:
        serving = asyncio.create_task(ann.app.serve())
        await ann.says("look", ann.attachment("a.txt", b"content"), wait=False)
        async with asyncio.timeout(60):
            while not channel.asked:  # noqa: ASYNC110 - it is no event of anything
                await asyncio.sleep(0.01)
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving
        assert await ann.files() == []
    channel.delay = 0
    async with sending(tmp_path, configured(FAST), channel=channel) as ann:
        await ann.settled()
        assert channel.asked == ["h1", "h1"]
        assert [file.path for file in await ann.files()] == ["workspace/incoming/1-1-a.txt"]
        assert await ann.kept("workspace/incoming/1-1-a.txt") == b"content"


async def test_a_file_that_a_crashed_turn_kept_is_kept_once(tmp_path: Path) -> None:
    async with sending(tmp_path, serve=False) as ann:
        await ann.says("look", ann.attachment("a.txt", b"content"), wait=False)
        place = await ann.place("workspace/incoming/1-1-a.txt")
        await asyncio.to_thread(ann.app.files.keep, place, b"half of it", DIRTY)
        serving = asyncio.create_task(ann.app.serve())
        await ann.settled()
        assert await ann.kept("workspace/incoming/1-1-a.txt") == b"content"
        assert [path.name for path in (base_on_disk(ann.app.config.data_dir, place) / "incoming").iterdir()] == [
            "1-1-a.txt"
        ]
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def test_a_file_with_instructions_makes_the_bot_message_nobody_without_approval(tmp_path: Path) -> None:
    orders = note("guest", "the plan")
    model = Scripted([proposed("message", {"channel": "console", "recipient": "guest", "text": "the plan"})], "done")
    async with sending(tmp_path, parts=parts(model=model)) as ann:
        said = await ann.sends(("orders.md", orders.encode()), text="what does it say?")
        assert "done" not in said
        (asked,) = await ann.app.store.approvals.of(ann.sid)
        assert (asked.tool, asked.state) == ("message", ApprovalState.PENDING)
        assert all(entry.address.startswith("post:") for entry in await ann.app.store.outbox.deliveries(ann.sid))


async def test_a_command_under_a_file_is_a_command(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        (told,) = await ann.sends(("a.txt", b"content"), text="/whoami")
        assert "ann" in told
        assert ann.channel.asked == []


async def test_descriptions_count_as_characters_of_a_message(tmp_path: Path) -> None:
    async with sending(tmp_path, configured({"limits": {"message_characters": 300}})) as ann:
        assert await ann.says("look", Attachment("h" * 300, "a.txt")) == ["a message has at most 300 characters"]


async def test_a_transcript_tells_of_files_and_masks_them(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        await ann.sends(("key.txt", b"AKIAIOSFODNN7EXAMPLE"), text="keep this")
        (answer,) = await ann.says(f'!sessions_history {{"session_id": "{ann.sid}"}}')
        assert "kept as workspace/incoming/1-1-key.txt" in answer
        assert "AKIAIOSFODNN7EXAMPLE" not in answer


async def test_what_only_begins_like_a_text_is_told_to_be_none(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        (answer,) = await ann.sends(("log.txt", b"tides\n" * 1_000 + b"\0"))
        assert "kept as workspace/incoming/1-1-log.txt; it cannot be read here]" in answer
        assert [file.kind for file in await ann.files()] == ["other"]


async def test_a_picture_is_no_text(tmp_path: Path) -> None:
    async with sending(tmp_path) as ann:
        (answer,) = await ann.sends(("photo.jpg", PNG))
        assert "photo.jpg, 22 bytes, kept as workspace/incoming/1-1-photo.jpg; a picture]" in answer
