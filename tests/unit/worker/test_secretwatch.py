"""What a worker tells of secrets that its apps cannot get."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from relayctl.errors import SecretMissing
from relayctl.host.secrets import SecretStore
from relayctl.runners.build import Build
from relayctl.store.fleet import WorkerRecord
from relayctl.worker.secretwatch import SecretWatch

NOW = datetime(2026, 9, 29, 10, 15, tzinfo=UTC)
MISSING = "the secret shop-key has no value here; set it with: relayctl secret set shop-key"


def build(app: str, *references: str) -> Build:
    pairs = tuple((f"V{number}", reference) for number, reference in enumerate(references))
    return Build(app=app, revision="1", directory=Path(), runtime="python", secrets=pairs)


@pytest.fixture
def store(tmp_path: Path) -> SecretStore:
    return SecretStore(None, tmp_path / "secrets")


def test_each_app_that_lacks_one_is_told_with_the_way_out(store: SecretStore) -> None:
    watch = SecretWatch(store.resolve)
    store.set("known", "value")
    watch.deploy([build("shop", "known", "shop-key"), build("crm", "known"), build("site")])
    assert watch.unresolved == {"shop": (MISSING,)}
    watch.retire(["shop"])
    assert watch.unresolved == {}


def test_a_value_that_comes_or_goes_is_seen_at_the_next_look(store: SecretStore) -> None:
    watch = SecretWatch(store.resolve)
    watch.deploy([build("shop", "shop-key")])
    assert watch.unresolved == {"shop": (MISSING,)}
    store.set("shop-key", "value")
    watch.look()
    assert watch.unresolved == {}
    store.remove("shop-key")
    watch.look()
    assert watch.unresolved == {"shop": (MISSING,)}


def test_a_heartbeat_reads_no_file_and_a_look_reads_each_once() -> None:
    asked: list[str] = []

    def resolve(reference: str) -> str:
        asked.append(reference)
        raise SecretMissing

    watch = SecretWatch(resolve)
    watch.deploy([build("shop", "key"), build("crm", "key")])
    for _ in range(10):
        assert set(watch.unresolved) == {"shop", "crm"}
    assert asked == ["key"]


def test_a_record_carries_it() -> None:
    record = WorkerRecord(
        id="w", host="h", pid=1, version="1", started_at="", is_publishing=True, holdings_seq=1, evaluator="1",
        tzdata="x", unresolved={"shop": (MISSING,)},
    )  # fmt: skip
    read = WorkerRecord.from_json(record.to_json())
    assert read is not None
    assert read.unresolved == {"shop": (MISSING,)}
