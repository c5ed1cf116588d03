"""Who sits at the command line."""

import os
from pathlib import Path

import pytest

from bot.cli import identity


def test_who_owns_the_data_directory_is_the_owner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert identity.person(tmp_path) == "owner"
    assert identity.account("owner") == "console:owner"
    real = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: real + 1)
    monkeypatch.setenv("LOGNAME", "owner")
    assert identity.person(tmp_path) == "user-owner"
