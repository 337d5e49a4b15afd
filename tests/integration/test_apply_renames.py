"""A release that renames schedules, and the rollback of it: one registry record each, whatever its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from relayctl.store.definitions import Definitions

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.console import Answer
    from support.fleet import Fleet


def test_a_renamed_app_and_its_rollback(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    names = [f"s{number}" for number in range(8)]

    def write(app: str, moved_from: str = "") -> None:
        former = f", moved_from: {moved_from}/{{0}}" if moved_from else ""
        entry = f'  - {{{{name: {{0}}, handler: jobs.run, cron: "0 3 * * *"{former}}}}}\n'
        folder = fleet.tree.root / app
        folder.mkdir(parents=True)
        (folder / "jobs.py").write_text("def run(event): ...\n")
        head = "runtime: python\nevents: [{handler: jobs.run, pattern: {kind: [x]}}]\nschedules:\n"
        (folder / "template.yaml").write_text(head + "".join(entry.format(name) for name in names))

    write("billing")
    assert ask("apply", "--yes").code == 0
    assert ask("pause", "billing/s3", "--reason", "works").code == 0
    (fleet.tree.root / "billing").rename(fleet.root / "away")
    write("ledger", "billing")
    renamed = ask("apply", "--yes")
    assert (renamed.code, renamed.err) == (0, ""), "moves are no removals, however many"
    assert "billing/s3" in renamed.out
    definitions = Definitions(fleet.client, fleet.keys)
    assert definitions.all_names() == {("ledger", name) for name in names}
    head = definitions.heads([("ledger", "s3")])["ledger", "s3"]
    assert (head.gen, head.pause_reason, head.moved_from) == (1, "works", (("billing", "s3"),))
    assert "billing/s3 was moved: it goes on as ledger/s3" in ask("why", "billing/s3@2020-01-01T03:00:00Z").out
    assert "it goes on as ledger/s3" in ask("history", "billing/s3").out
    refused = ask("pause", "billing/s3")
    assert refused.code != 0
    assert "it goes on as ledger/s3" in refused.err

    back = ask("rollback", "1", "--yes")
    assert (back.code, back.err) == (0, "")
    assert definitions.all_names() == {("billing", name) for name in names}
    head = definitions.heads([("billing", "s3")])["billing", "s3"]
    assert (head.gen, head.pause_reason, head.moved_from) == (1, "works", (("ledger", "s3"),))
