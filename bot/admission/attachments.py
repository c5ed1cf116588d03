"""The files of a message: fetched when its turn begins, examined, and kept in the session's own workspace.

Until then the inbox has only their descriptions. A fetch is bounded in size, and the type of a file comes from its
bytes. A file that cannot be fetched is reported in a sentence, and the message counts without it. Fetching one again
after a crash gives the same file at the same place.

Every file is UNTRUSTED, like the message that brings it, and has the label of that message. Only a transcriber that is
cleared for that label transcribes a recording (law `no_write_down`).
"""

import asyncio
import hashlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Final

import anyio

from bot.access.decision_context import DecisionContext
from bot.admission.brought import ReceivedFile
from bot.admission.kinds import OTHER, beginning, nature
from bot.admission.names import safe_name
from bot.admission.transcription import Transcriber, TranscriptionError
from bot.budgets import Budget, BudgetError
from bot.config.files import FilesSettings
from bot.files import locations
from bot.files.port import LabelledFiles, UnusableError
from bot.gate.gate import Gate
from bot.gate.results import decision_row
from bot.sessions.audit import AuditRow
from bot.sessions.inbox import InboxItem
from bot.sessions.messages import FileKind
from bot.sessions.refs import InputRef
from channels.messages import Attachment
from channels.port import Channel, ChannelError, FileSource, LargeFileError
from policy.decision import Verdict
from policy.request import Hook

NOT_HAD: Final = "it could not be fetched, send it again"
NOT_KEPT: Final = "it could not be kept here"
NOT_HEARD: Final = "this chat is above the clearance of the transcriber, so it was not transcribed"
NOT_PAID: Final = "it was not transcribed, no tokens are left for that today"
NOT_POSSIBLE: Final = "it cannot be transcribed until the operator mends that, write a text instead"
NOT_WRITTEN: Final = "it could not be transcribed, send it again or write a text instead"

_LOGGER: Final = logging.getLogger(__name__)
_MEGA: Final = 1_000_000
_BYTES: Final = 200
"""Bytes of a recording for each token of its transcription: fewer than speech takes as it is sent."""
_LEAST: Final = 100
_MARGIN: Final = 4096
"""The characters that are examined after the shown ones, so that no part of a text that a rule replaces is shown."""

Record = Callable[[AuditRow], Awaitable[None]]
"""Puts a decision into the audit."""


class Attachments:
    """Takes in the files of messages. `channels` are those of this process, by their names."""

    def __init__(
        self,
        *,
        channels: Mapping[str, Channel],
        gate: Gate,
        root: LabelledFiles,
        settings: FilesSettings,
        transcriber: Transcriber | None,
        budget: Budget,
    ) -> None:
        self._channels = channels
        self._gate = gate
        self._root = root
        self._settings = settings
        self._transcriber = transcriber
        self._budget = budget

    async def bring(
        self, standing: DecisionContext, item: InboxItem, kept: int, record: Record
    ) -> tuple[ReceivedFile, ...]:
        """Fetch the files of a message and examine them; none of them is kept yet.

        `kept` is the number of bytes of the files that came in this generation before it. `record` puts each decision
        on a transcription into the audit before the file is sent.
        """
        left = self._settings.total_megabytes * _MEGA - kept
        brought = list[ReceivedFile]()
        for number, one in enumerate(item.body.files, start=1):
            file = await self._fetched(standing.home.channel, one, f"{item.position}-{number}", place=number, left=left)
            left -= len(file.content)
            if file.nature.kind is FileKind.TEXT:
                found = beginning(file.content, self._looked_at + self._gate.masks.longest_secret)
                # A file that begins like a text and is none further on is not a text.
                file = replace(file, nature=OTHER) if found is None else self._saying(file, *found)
            if file.nature.kind is FileKind.AUDIO and self._transcriber is not None:
                file = await self._heard(self._transcriber, standing, item, file, record=record)
            brought.append(file)
        return tuple(brought)

    def shown(self, brought: Iterable[ReceivedFile], clean: Callable[[str], str]) -> tuple[ReceivedFile, ...]:
        """Return files in the form that may be shown."""
        return tuple(file.shown(clean, self._settings.characters) for file in brought)

    async def keep(
        self, standing: DecisionContext, item: InboxItem, brought: Iterable[ReceivedFile]
    ) -> tuple[ReceivedFile, ...]:
        """Keep files in the session's workspace, with the label of their message; the same again changes nothing."""
        kept = list[ReceivedFile]()
        for file in brought:
            if not file.problem:
                place = locations.workspace(standing.sid, standing.generation, *file.place)
                try:
                    came = (InputRef(item.dedupe), *item.refs)
                    keep = partial(self._root.keep, place, file.content, item.label, refs=came)
                    await asyncio.to_thread(keep)
                except UnusableError:
                    file = replace(file, problem=NOT_KEPT)  # noqa: PLW2901 - as it is known now
            kept.append(file)
        return tuple(kept)

    async def _fetched(self, channel: str, one: Attachment, number: str, *, place: int, left: int) -> ReceivedFile:
        """Fetch one file, the `place`th of its message; `left` is how many bytes the conversation may still take."""
        settings, file = self._settings, ReceivedFile(safe_name(self._gate.masks.scrubbed(one.name)), number)
        if place > settings.per_message:
            return replace(file, problem=f"a message may bring {settings.per_message} files")
        most = min(settings.megabytes * _MEGA, left)
        try:
            content = await self._content(self._channels.get(channel), one, most)
        except LargeFileError as error:
            if left < settings.megabytes * _MEGA:
                whole = f"all files of a conversation may have {settings.total_megabytes} MB together"
                return replace(file, problem=f"{whole}, `/reset` lets go of them")
            return replace(file, problem=f"a file may have {min(error.most, most) // _MEGA} MB")
        except (ChannelError, TimeoutError) as error:
            cause = str(error) or "it took too long"
            _LOGGER.warning("a file could not be fetched", extra={"subject": f"channel {channel}", "cause": cause})
            return replace(file, problem=NOT_HAD)
        # Large ones take a while.
        digest = await asyncio.to_thread(_digest, content)
        return replace(file, content=content, digest=digest, nature=nature(content, one.media_type))

    async def _content(self, source: Channel | None, one: Attachment, most: int) -> bytes:
        """Fetch a file. Raises LargeFileError, ChannelError or TimeoutError: it cannot be fetched."""
        if most <= 0 or one.size > most:
            raise LargeFileError(most)
        if not isinstance(source, FileSource):
            raise ChannelError("nobody here can fetch it")
        with anyio.fail_after(self._settings.seconds):
            return await source.fetch(one, most)

    async def _heard(
        self,
        transcriber: Transcriber,
        standing: DecisionContext,
        item: InboxItem,
        file: ReceivedFile,
        *,
        record: Record,
    ) -> ReceivedFile:
        """Have a recording transcribed, if the transcriber is cleared for it."""
        decision = self._gate.requests.transcribe(standing, item.label, transcriber.name)
        row = decision_row(standing, Hook.AGENT_INVOCATION, decision, transcriber=transcriber.name, file=file.digest)
        await record(row)
        if decision.verdict is not Verdict.ALLOW:
            return replace(file, remark=NOT_HEARD)
        # The transcriber does not report its tokens, so they are never known.
        paying = replace(standing, taint=standing.taint.join(item.label))
        try:
            async with self._budget.spending(paying, lambda: _LEAST + len(file.content) // _BYTES):
                text = await transcriber.transcribe(file.content, file.nature)
        except BudgetError as error:
            await record(error.row(standing))
            return replace(file, remark=NOT_WRITTEN if error.passing else NOT_PAID)
        except TranscriptionError as error:
            facts = {"cause": error.fault.cause, "step": error.fault.step, "alert": bool(error.fault.step)}
            label = paying.taint.join(standing.visibility)
            _LOGGER.warning(
                "a recording was not written down",
                extra={**facts, "subject": f"transcriber `{transcriber.name}`", "label": label},
            )
            return replace(file, remark=NOT_POSSIBLE if error.fault.step else NOT_WRITTEN)
        return self._saying(file, text)

    @property
    def _looked_at(self) -> int:
        """How many characters of a text are examined."""
        return self._settings.characters + _MARGIN

    def _saying(self, file: ReceivedFile, text: str, more: bool = False) -> ReceivedFile:  # noqa: FBT001, FBT002 - as `beginning` says it
        """Return a file with its text, as far as that is examined. Secrets are removed before it is cut."""
        return replace(
            file, text=self._gate.masks.scrubbed(text, self._looked_at), more=more or len(text) > self._looked_at
        )


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
