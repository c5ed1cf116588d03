"""Transcription of recordings, by a server that speaks OpenAI's protocol for that.

The gate decides before whether the server may hear a file. Only the transcript of the server's answer is used, and only
the kind of a failure.
"""

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, Protocol, cast

import anyio
import httpx2

from bot.admission.kinds import FileType
from bot.config.files import TranscriberSettings
from bot.core.errors import ConfigError, LockgateError
from bot.core.faults import Fault, refused, unreached
from bot.core.trust import trust

_LONGEST: Final = 1_000_000
"""The most bytes of an answer that are read."""


class TranscriptionError(LockgateError):
    """A recording was not transcribed; the text names the kind of failure and no content.

    `fault` is the cause, for operators.
    """

    code = "transcription"

    def __init__(self, message: str, fault: Fault | None = None) -> None:
        super().__init__(message)
        self.fault = fault or Fault(message)


class Transcriber(Protocol):
    """Transcribes recordings."""

    @property
    def name(self) -> str:
        """Its name in the policy, under `transcribers`."""
        ...

    async def transcribe(self, content: bytes, nature: FileType) -> str:
        """Return the transcript of a recording.

        Raises TranscriptionError: it was not transcribed.
        """
        ...

    async def close(self) -> None:
        """Close its connections."""
        ...


class HttpTranscriber:
    """A server at `settings.base_url`; `key` authenticates us there, empty for none."""

    def __init__(self, settings: TranscriberSettings, key: str) -> None:
        self._settings = settings
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        # A redirect would carry people's words, and the key, to a host that nobody configured.
        self._client = httpx2.AsyncClient(
            headers=headers, verify=trust(), timeout=settings.seconds, follow_redirects=False
        )

    @property
    def name(self) -> str:
        """The model's name."""
        return self._settings.model

    async def transcribe(self, content: bytes, nature: FileType) -> str:
        """Return the transcript of a recording; its file name is not sent.

        Raises TranscriptionError: the server did not transcribe it.
        """
        file = (f"recording.{nature.ending}", content, nature.media_type)
        address = f"{self._settings.base_url.rstrip('/')}/audio/transcriptions"
        told = {"model": self.name, "response_format": "json"}
        try:
            with anyio.fail_after(self._settings.seconds):
                async with self._client.stream("POST", address, data=told, files={"file": file}) as answer:
                    if answer.status_code != HTTPStatus.OK:
                        fault = refused(answer.status_code, key=f"the variable {self._settings.key or 'of its key'}")
                        raise TranscriptionError(f"the transcriber answered with status {answer.status_code}", fault)
                    return _text(await _body(answer))
        except (httpx2.HTTPError, OSError) as error:
            told = f"the transcriber did not answer ({type(error).__name__})"
            raise TranscriptionError(told, unreached(error)) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()


def transcriber(settings: TranscriberSettings | None, environment: Mapping[str, str]) -> HttpTranscriber | None:
    """Return the configured transcriber, None if there is none. It blocks while it reads certificates.

    Raises ConfigError: its key is not in the environment.
    """
    return None if settings is None else HttpTranscriber(settings, key(settings, environment))


def key(settings: TranscriberSettings, environment: Mapping[str, str]) -> str:
    """Return the key of a transcriber, empty for one without a key.

    Raises ConfigError: it is not in the environment.
    """
    if settings.key is None:
        return ""
    found = environment.get(settings.key, "").strip()
    if not found:
        raise ConfigError("the transcriber needs a key", next_step=f"set {settings.key} in the environment")
    return found


async def _body(answer: httpx2.Response) -> bytes:
    taken = bytearray()
    async for chunk in answer.aiter_bytes():
        taken += chunk
        if len(taken) > _LONGEST:
            raise TranscriptionError("the transcriber's answer is too long")
    return bytes(taken)


def _text(body: bytes) -> str:
    """Return the transcript in an answer. Raises TranscriptionError: there is none."""
    try:
        told: object = json.loads(body)
    except (ValueError, RecursionError):
        told = None
    text = cast("dict[str, object]", told).get("text") if isinstance(told, dict) else None
    if not isinstance(text, str):
        raise TranscriptionError("the transcriber's answer holds no transcript")
    return text
