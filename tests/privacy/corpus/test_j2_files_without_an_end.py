"""J2: what is handed in as a certificate is a pipe that nobody writes to, or a device without an end.

The attack: a run folder whose certificate.json is such a file, or a link to one. `dpmcmc verify` waited for ever, and
of /dev/zero it read until memory was full; a path that is too long ended in a traceback.

What must happen: one line says what is wrong, at once, and no more is read than the longest certificate has.
"""

import os
import sys
from pathlib import Path

import pytest

from dpmcmc.accounting import Certificate, Gaussian
from dpmcmc.cli.documents import read_document
from dpmcmc.cli.main import run
from dpmcmc.errors import InvalidArgument

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no pipes in folders")


def said(monkeypatch, capsys, *arguments: str) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["dpmcmc", *arguments])
    with pytest.raises(SystemExit) as end:
        run()
    return end.value.code, capsys.readouterr().err


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
@pytest.mark.parametrize("command", [["verify"], ["epsilon", "event", "--delta", "1e-6"]], ids=["verify", "event"])
def test_what_has_no_end_is_not_read(kind: str, command: list[str], tmp_path: Path, monkeypatch, capsys) -> None:
    file = tmp_path / "certificate.json"
    if kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    else:
        file.mkdir()
    code, words = said(monkeypatch, capsys, *command, str(file) if command[0] == "epsilon" else str(tmp_path))
    assert code == 2
    assert "a folder, a pipe or a device" in words


@pytest.mark.parametrize("command", [["verify"], ["report"], ["resume"], ["ledger", "show"]], ids=lambda it: it[0])
def test_a_path_that_is_too_long_is_no_traceback(command: list[str], monkeypatch, capsys) -> None:
    code, words = said(monkeypatch, capsys, *command, "x" * 5000)
    assert code == 2
    assert "too long" in words


def test_no_more_is_read_than_the_longest_has(tmp_path: Path) -> None:
    (tmp_path / "long").write_text("x" * 100)
    assert len(read_document(tmp_path / "long", "a text", 10)) == 11
    (tmp_path / "bytes").write_bytes(b"\xff")
    with pytest.raises(InvalidArgument, match="not text in UTF-8"):
        read_document(tmp_path / "bytes", "a text", 10)


@pytest.mark.parametrize("settings", ["pipe", "a = " + "[" * 100_000, "\x00"], ids=["pipe", "nested", "zero"])
def test_settings_beside_a_certificate(settings: str, tmp_path: Path, monkeypatch, capsys) -> None:
    (tmp_path / "certificate.json").write_text(Certificate(Gaussian(9.0), "replace_one", delta=1e-6).to_json())
    if settings == "pipe":
        os.mkfifo(tmp_path / "config.toml")
    else:
        (tmp_path / "config.toml").write_text(settings)
    from dpmcmc.accounting import Ledger

    Ledger.create(f"sqlite:///{tmp_path}/ledger.db")
    code, words = said(monkeypatch, capsys, "verify", str(tmp_path), "--ledger", f"{tmp_path}/ledger.db")
    assert code == 2
    assert "Traceback" not in words
