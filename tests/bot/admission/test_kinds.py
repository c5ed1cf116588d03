"""What a file is, its bytes tell and nobody else."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.admission.kinds import OTHER, beginning, nature
from bot.sessions.messages import FileKind


@pytest.mark.parametrize(
    "content,media_type,kind",
    [
        (b"\x89PNG\r\n\x1a\nrest", "image/png", FileKind.PICTURE),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg", FileKind.PICTURE),
        (b"GIF89arest", "image/gif", FileKind.PICTURE),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 ", "image/webp", FileKind.PICTURE),
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/wav", FileKind.AUDIO),
        (b"OggS\x00\x02", "audio/ogg", FileKind.AUDIO),
        (b"ID3\x04", "audio/mpeg", FileKind.AUDIO),
        (b"\xff\xfb\x90\x00", "audio/mpeg", FileKind.AUDIO),
        (b"fLaC\x00", "audio/flac", FileKind.AUDIO),
        (b"\x00\x00\x00 ftypM4A \x00", "audio/mp4", FileKind.AUDIO),
        (b"%PDF-1.7\n", "application/pdf", FileKind.OTHER),
        (b"PK\x03\x04", "application/zip", FileKind.OTHER),
        (gzip.compress(b"text", mtime=0), "application/octet-stream", FileKind.OTHER),
        (b"RIFF\x00\x00\x00\x00AVI LIST", "application/octet-stream", FileKind.OTHER),
        (b"\x00\x00\x00 ftypisom", "application/octet-stream", FileKind.OTHER),
        (b"\x1aE\xdf\xa3", "application/octet-stream", FileKind.OTHER),
        (b"", "application/octet-stream", FileKind.OTHER),
        (b"a,b\r\n1,2\r\n", "text/plain", FileKind.TEXT),
        ("Größe".encode(), "text/plain", FileKind.TEXT),
        ("Größe".encode("utf-8-sig"), "text/plain", FileKind.TEXT),
        ("Größe".encode("utf-16"), "text/plain", FileKind.TEXT),
        ("Größe".encode("latin-1"), "application/octet-stream", FileKind.OTHER),
        (b"text\x00", "application/octet-stream", FileKind.OTHER),
        (b"MZ\x90\x00", "application/octet-stream", FileKind.OTHER),
    ],
)
def test_what_a_file_is(content: bytes, media_type: str, kind: FileKind) -> None:
    found = nature(content)
    assert (found.kind, found.media_type) == (kind, media_type)


def test_a_claim_counts_only_between_sound_and_film() -> None:
    assert nature(b"MZ\x90\x00", "image/png") == OTHER
    assert nature(b"plain", "image/png").kind is FileKind.TEXT
    assert nature(b"\x00\x00\x00 ftypisom", "audio/mp4").media_type == "audio/mp4"
    assert nature(b"\x1aE\xdf\xa3", "audio/webm").media_type == "audio/webm"


@pytest.mark.parametrize(
    "content,characters,found",
    [
        (b"abc", 3, ("abc", False)),
        (b"abcd", 3, ("abc", True)),
        (("ä" * 10).encode(), 3, ("äää", True)),
        (("\U0001f600" * 3).encode(), 3, ("\U0001f600" * 3, False)),
        (("\U0001f600" * 9).encode(), 3, ("\U0001f600" * 3, True)),
        (("ab" + "ä" * 9).encode(), 2, ("ab", True)),
        ("abcd".encode("utf-16"), 3, ("abc", True)),
        ("abc".encode("utf-16"), 3, ("abc", False)),
        (b"\xff\xfe\x00", 3, None),
        (b"\xff\xfe\x00\xd8", 3, None),
    ],
)
def test_the_beginning_of_a_text(content: bytes, characters: int, found: tuple[str, bool] | None) -> None:
    assert beginning(content, characters) == found


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), st.integers(0, 20))
def test_a_text_is_read_as_it_was_written(text: str, characters: int) -> None:
    assert beginning(text.encode("utf-8-sig"), characters) == (text[:characters], len(text) > characters)


@given(st.binary(max_size=200), st.text(max_size=10))
def test_any_bytes_are_something(content: bytes, claimed: str) -> None:
    assert nature(content, claimed).kind in FileKind
