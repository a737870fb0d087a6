"""The dialects that kafkats reads where this distribution is installed (plans.dialect_hook)."""

from __future__ import annotations

from functools import partial
from typing import Final

from kafkats.generations import KIP228 as KIP228_NAME
from kafkats.plans.dialect_hook import DialectHook, Migration
from kafkats_model import dump, migration, search, segment
from kafkats_model.formats import enriched, kip228
from kafkats_model.index.enriched_index import build_dialect

ENRICHED: Final = DialectHook(
    enriched.batches,
    enriched.decode_records,
    dump.enriched_columns,
    index_entries=dump.ENRICHED_INDEX,
    migration=Migration(
        magic=enriched.MAGIC,
        check=migration.check,
        trusted=migration.trusted,
        convert=segment.convert_source,
        prove=segment.prove,
        build_index=build_dialect,
        prove_written=migration.prove_dialect,
    ),
)
KIP228: Final = DialectHook(
    kip228.batches,
    kip228.records,
    dump.kip228_columns,
    find_exact=partial(search.find_exact, dialect=KIP228_NAME),
)
