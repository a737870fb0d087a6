"""Makes docs/options.md from the commands and the declarations of their options. With --check only compares.

python tools/options_page.py [--check]
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
for name in [name for name in os.environ if name.startswith("KAFKATS_")]:
    del os.environ[name]  # the page has the defaults of a deployment that sets nothing
sys.path[:0] = [str(ROOT), str(ROOT / "plugins")]

import click  # noqa: E402
from kafkats_airflow.forms.catalogue import FORMS, declared_in  # noqa: E402
from pages import write_or_compare  # noqa: E402

from kafkats.cli import cli  # noqa: E402
from kafkats.cli.generated import DeclaredOption, text_of  # noqa: E402
from kafkats.config.option import Option  # noqa: E402
from kafkats.operations import OPERATIONS  # noqa: E402
from kafkats.releases import TABLE  # noqa: E402

PAGE = ROOT / "docs" / "options.md"
FORM_OF = {f"plan {name}": name for name in OPERATIONS} | {
    "plan split": "roll",
    "lookup": "table",
    "export": "export",
}
"""The form of the DAG that runs a command."""
HEAD = """\
# Options

For operators: every option of every command. The Spark jobs of the same name take the same words;
`spark_jobs/plan.py` also takes `--reserve HOLDER` for `--holder HOLDER`.
The last column names the param of the DAG that runs the command, if it has one:
[DAGs.md](DAGs.md) shows the forms. The options are declared in `kafkats/<room>/options.py`;
this page is made by `tools/options_page.py`. Change the declarations, then run `scripts/lint --fix`.

Times are written as `2026-01-31T10:00:00Z`, with their offset from UTC, or in ms since 1970.
Durations are written as `90s`, `15m`, `24h`, `7d`, sizes as `4096`, `500MB`, `20GiB`.
"""


RELEASES = """\
## Kafka releases

`--kafka` takes a release such as `4.3`, `2.8` or `2.8.2`; without a patch number the last patch is
meant. These columns say which rule a release follows; a row holds up to the next one. Commands also
take the names of the rules, as `--generation NAME`: the only way to ask for a rule that is no
release's (`kip33`, the text of KIP-33; `largest` of `plan roll`, KIP-32's). Plans and reports hold
these names.
"""


def page() -> str:
    """Return the whole page."""
    every = (section(path, command) for path, command in commands(cli))
    return "\n".join([HEAD, *every, RELEASES, *releases(), ""])


def releases() -> Iterator[str]:
    """Yield the table from a release to the rules of its brokers."""
    yield "| from release | start (`preflight`) | indexes (`plan rebuild`, `plan recover`) | retention (`plan retain`) | rolling (`plan roll`) | search (`lookup`) |"
    yield "|---|---|---|---|---|---|"
    yield from (f"| {' | '.join(row)} |" for row in TABLE)


def commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """Yield each command that does something, by its words."""
    for name, command in sorted(group.commands.items()):
        path = f"{before}{name}"
        if isinstance(command, click.Group):
            yield from commands(command, f"{path} ")
        else:
            yield path, command


def section(path: str, command: click.Command) -> str:
    """Return one command: its arguments, and a row for each option."""
    words = [one.metavar or one.human_readable_name for one in arguments(command)]
    rows = [
        row(one, FORM_OF.get(path, ""))
        for one in command.params
        if isinstance(one, DeclaredOption) and not one.hidden
    ]
    head = ["| option | default | meaning | param |", "|---|---|---|---|"]
    return "\n".join([f"## {path}", "", f"`kafkats {' '.join([path, *words])}`", "", *(
        [*head, *rows] if rows else ["No options."]
    ), ""])  # fmt: skip


def arguments(command: click.Command) -> list[click.Argument]:
    return [one for one in command.params if isinstance(one, click.Argument)]


def row(one: click.Option, form: str) -> str:
    declaration = one.declared if isinstance(one, DeclaredOption) else None
    value = "" if one.is_flag else f" {one.make_metavar(click.Context(cli))}"
    default = "to be given" if one.required else ""
    meaning, param = one.help or "", ""
    if declaration is not None:
        if not one.required and (text := text_of(declaration)) and not declaration.option.unset:
            default = f"`{text}`"
        param = param_of(declaration.option, form) if form else ""
    elif one.default and one.show_default:
        default = f"`{one.default}`"
    cells = [f"`{', '.join([*one.opts, *one.secondary_opts])}{value}`", default, meaning, param]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def param_of(option: Option, form: str) -> str:
    """Return the id that a form has for an option, "" for none."""
    options = declared_in(FORMS[form]).values() if form in FORMS else ()
    found = [one.param for one in options if one.option is option]
    return f"`{found[0]}`" if found else ""


def main() -> int:
    return write_or_compare(
        {PAGE: page()}, "docs/options.md is not what the commands say: run scripts/lint --fix"
    )


if __name__ == "__main__":
    sys.exit(main())
