"""The addresses on the pages, where Airflow's own has a path: `[api] base_url = https://host/air`."""

from __future__ import annotations

import html
import re
from pathlib import Path
from urllib.parse import urljoin

from starlette.testclient import TestClient

from tests.ui.folders import change, ended, volume
from tests.ui.harness import every_route, pages


def test_every_address_keeps_the_path_in_front_of_airflow(folder: Path) -> None:
    """The pages know no absolute address; what they load is there."""
    run = ended(folder, 1_800_000_000_000, volume("/data"), dag="apply_retention", run="r1")
    undo = change(run, "f" * 64, {"/data": 5}, None)
    ended(folder, 1_800_000_000_000, volume("/data"), dag="apply_retention", run="r1", undo=[undo])
    looked_at = set()
    with pages(folder) as app:
        client = TestClient(app, root_path="/air", headers={"Authorization": "Bearer admin"})
        for path in every_route():
            at = f"/air/kafkats{path}?dag_id=apply_retention&run_id=r1"
            answer = client.get(at, follow_redirects=False)
            assert answer.headers.get("location", "").startswith(("/", "http")) is False, path
            if not answer.headers.get("content-type", "").startswith("text/html"):
                continue
            for address in re.findall(r'(?:href|src|action)="([^"]*)"', answer.text):
                if address.startswith("data:"):
                    continue
                assert not address.startswith(("/", "http")), (path, address)
                there = urljoin(at, html.unescape(address))
                assert there.startswith("/air/"), (path, address)
                if "/static/" in there and there not in looked_at:
                    looked_at.add(there)
                    assert client.get(there).status_code == 200, there
    assert len(looked_at) >= 5
