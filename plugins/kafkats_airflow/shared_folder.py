"""Check that workers and the api-server see the same folder of all runs.

The folder has a token: an empty file whose name ends in 32 hex digits. The first task of a run
makes one where there is none, and pushes it as an XCom. A page looks for that file; if it is not
there, the page says so and leaves a note in a Variable of Airflow, from which first tasks warn
until a page sees the folder. Tokens are no secrets. Workers that begin at once may make one each:
every token that is there counts.
"""

from __future__ import annotations

import hashlib
import logging
import re
import socket
import uuid
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from airflow.sdk import Context
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from kafkats_airflow.forms.values import given_params

KEY: Final = "kafkats_folder"
"""The key of the XCom, and the beginning of that of the Variable."""
PREFIX: Final = ".kafkats-folder-"
_LOG: Final = logging.getLogger(__name__)


class Seen(BaseModel):
    """A folder, as a worker or an api-server sees it: the content of the XCom and the Variable.

    `mark` is the token: Airflow would hide a field of that name.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    folder: str
    mark: str = Field(pattern=r"^[0-9a-f]{32}$")
    host: str

    def is_at(self, folder: Path) -> bool:
        """Return whether this folder has the token. Raises OSError."""
        return (folder / f"{PREFIX}{self.mark}").exists()


def seen_in(content: object) -> Seen | None:
    """Return the content of an XCom or a Variable, None if it is none of ours."""
    try:
        return Seen.model_validate(content)
    except ValidationError:
        return None


def variable_of(folder: str) -> str:
    """Return the key of the Variable about a folder."""
    return f"{KEY}_{hashlib.sha256(folder.encode(errors='surrogatepass')).hexdigest()[:16]}"


def look(folder: str) -> Seen:
    """Return the folder as this worker sees it, with a token. Raises OSError."""
    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    if not (tokens := _tokens(path)):
        (path / f"{PREFIX}{uuid.uuid4().hex}").touch()
        tokens = _tokens(path)
    return Seen(folder=folder, mark=tokens[0], host=socket.gethostname())


def _tokens(path: Path) -> list[str]:
    names = (one.name.removeprefix(PREFIX) for one in path.glob(f"{PREFIX}*"))
    return sorted(one for one in names if re.fullmatch(r"[0-9a-f]{32}", one))


def compare(context: Context) -> None:
    """Tell pages which folder the first task of a run sees, and warn if the api-server sees another
    one. A folder that cannot be written fails the run elsewhere, in its own words.
    """
    folder = (given_params(context) or {}).get("folder")
    if not folder:
        return
    with suppress(OSError, ValueError):
        seen = look(str(folder))
        context["ti"].xcom_push(KEY, seen.model_dump())
        unseen = seen_in(_note(seen.folder))
        if unseen is not None and unseen.is_at(Path(seen.folder)):
            _LOG.warning(
                "remark: the api-server %s sees another folder at %s than this worker, %s: its"
                " pages show no run and no plan of it. Mount the same folder on both. (Open a page"
                " of kafkats to compare them again.)",
                unseen.host,
                seen.folder,
                seen.host,
            )


def _note(folder: str) -> Any:
    from airflow.sdk import Variable

    try:
        return Variable.get(variable_of(folder), default=None, deserialize_json=True)
    except Exception as e:  # whatever a secrets backend raises: a warning fails no run
        _LOG.info("the note of the api-server cannot be read: %s", e)
        return None
