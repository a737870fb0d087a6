"""Checksums and codecs run in C libraries here: CI fails where one silently does not."""

from __future__ import annotations

import subprocess
import sys

import pytest

from kafkats.cli import main
from kafkats.segment import native, pack, unpack


@pytest.mark.parametrize("operation", [one.operation for one in native.native_paths()])
def test_every_path_is_native(operation: str) -> None:
    """Where a new version of a library fails this, its functions are found no more: `segment/pack.py`, `unpack.py`."""
    (one,) = [one for one in native.native_paths() if one.operation == operation]
    assert one.native, f"{one.operation} is done by {one.instead}"
    if one.operation == "CRC-32 of magic 0 and 1":
        assert one.library == "deflate"


def test_every_function_by_address_is_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that exports nothing: whoever adds such a function finds it missing here."""
    getters = [pack.deflate_functions, pack.lz4_compress_default, pack.zstd_functions]
    getters += [unpack.lz4_decompress_safe, unpack.zstd_functions]
    with monkeypatch.context() as patch:
        patch.setattr(pack, "exported", lambda *_: None)
        patch.setattr(unpack, "exported", lambda *_: None)
        for getter in getters:
            getter.cache_clear()
        found = native.native_paths()
    for getter in getters:
        getter.cache_clear()
    assert [one.operation for one in found if one.native] == [
        "CRC-32 of magic 0 and 1",
        "CRC-32C of magic 2",
    ]


def test_zstd_is_native_without_cffi() -> None:
    """An installation of kafkats alone has zstandard, which does without it."""
    script = (
        "import sys; sys.modules['_cffi_backend'] = None\n"
        "from kafkats.segment import pack, unpack\n"
        "assert pack.zstd_functions() and unpack.zstd_functions()"
    )
    subprocess.run([sys.executable, "-c", script], check=True)


def said(*words: str, capsys: pytest.CaptureFixture[str], code: int = 0) -> str:
    with pytest.raises(SystemExit) as ended:
        main([*words])
    assert ended.value.code == code
    found = capsys.readouterr()
    return found.out + found.err


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    brief = said("--version", capsys=capsys)
    assert brief.startswith("kafkats, version ") and brief.count("\n") == 1
    for words in (("--version", "-v"), ("-v", "--version")):
        long = said(*words, capsys=capsys)
        assert long.startswith(brief)
        assert long.count("native: ") == len(native.native_paths())
        assert "NOT NATIVE" not in long


def test_a_path_that_is_not_native_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native.pack, "lz4_compress_default", lambda: None)
    assert "lz4, compress             NOT NATIVE: the lz4 package" in said(
        "--version", "-v", capsys=capsys
    )


def test_verbose_alone_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert "-v goes with --version" in said("-v", "verify", "/", capsys=capsys, code=2)


def test_the_version_loads_no_kernel() -> None:
    script = "import sys\nfrom kafkats.cli import main\ntry:\n main(['--version'])\nfinally:\n assert 'numpy' not in sys.modules"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
