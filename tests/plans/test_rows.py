"""The row of a file in a plan has the fields by which a file is recognised."""

from __future__ import annotations

from typing import get_type_hints

from kafkats.logdir.identity import FileIdentity, FileRow


def test_a_file_row_has_the_fields_of_an_identity() -> None:
    assert tuple(get_type_hints(FileRow)) == FileIdentity._fields
