"""apply without workers: what it refuses, two at once, and an end at any step: the old release or the new one, whole."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.broker import await_fact
from support.console import command, plain
from support.fleet import Fleet, ServeProcess, Tree
from support.schema import conforms
from support.storedesk import RECORD
from support.turnstile import Turnstile, Way

from relayctl import api
from relayctl.errors import InvalidTemplates
from relayctl.store.definitions import Definitions
from relayctl.store.fleet import Fleet as Records
from relayctl.store.fleet import Holdings
from relayctl.store.releases import LEASE_MS, Releases

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.console import Answer

NAMES = [f"app{number}" for number in range(9)]


@pytest.fixture
def releases(fleet: Fleet) -> Releases:
    return Releases(fleet.client, fleet.keys)


@pytest.fixture
def turnstiles(fleet: Fleet) -> Iterator[Callable[..., Turnstile]]:
    made: list[Turnstile] = []

    def make(decide: Callable[[int, bytes], Way], on_end: Callable[[], None] = lambda: None) -> Turnstile:
        assert fleet.target.path is not None
        made.append(Turnstile(fleet.target.path, decide, on_end))
        return made[-1]

    yield make
    for each in made:
        each.close()


def starts(fleet: Fleet, *arguments: str, redis: str | None = None, apps: Path | None = None) -> ServeProcess:
    """A command that runs beside the test."""
    command = [*arguments, "--apps", str(apps or fleet.tree.root), "--redis", redis or fleet.url]
    process = ServeProcess(command, {}, fleet.root)
    fleet.workers.append(process)
    return process


def said(process: ServeProcess) -> str:
    return "".join(process.noise)


def in_force(fleet: Fleet, releases: Releases) -> tuple[int, set[str], dict[str, str]]:
    """The serial, the apps that have a schedule in the registry, and what the release binds the fleet to."""
    names = Definitions(fleet.client, fleet.keys).all_names()
    return releases.serial(), {app for app, _ in names}, releases.pins()


def test_from_the_first_release_to_a_rollback(fleet: Fleet, ask: Callable[..., Answer], releases: Releases) -> None:
    fleet.tree.nightly("billing")
    first = ask("apply", "--yes", "--message", "the first")
    assert (first.code, first.err) == (0, "")
    assert "+ billing/tick" in first.out
    assert "none is alive" in first.out
    fleet.tree.nightly("crm", minute=5)
    second = ask("apply", "--yes", "--format", "json")
    found = json.loads(second.out)
    conforms(found, "apply")
    assert (found["release"]["serial"], found["previous"], found["converged"]) == (2, 1, False)
    assert ask("apply", "--yes").out == "No changes. 2 schedules match release 2; no live worker.\n"
    (fleet.tree.root / "crm" / "jobs.py").write_text("def run(event): ...\ndef on_event(event): ...\n")
    planned = ask("plan", "--detailed-exitcode")
    assert "No changes. 2 schedules as desired." in planned.out
    assert "New files, and the same template in effect: crm.\n" in planned.out
    assert planned.code == 10
    conforms(json.loads(ask("plan", "--format", "json").out), "plan")
    template = (fleet.tree.root / "crm" / "template.yaml").read_text()
    (fleet.tree.root / "crm" / "template.yaml").write_text(f"{template}oops: 1\n")
    assert "New files" not in ask("plan").out
    (fleet.tree.root / "crm" / "template.yaml").write_text(template)
    third = ask("apply", "--yes")
    assert ask("plan", "--detailed-exitcode").code == 0
    assert "New files, and the same template in effect: crm.\n" in third.out
    assert "Applied: new files. Release 3." in third.out
    back = ask("rollback", "1", "--yes")
    assert (back.code, back.err) == (0, "")
    assert "- crm/tick" in back.out
    assert "Undo:    relayctl rollback 3\n" in back.out
    current = releases.current()
    assert current is not None
    assert (current.serial, current.draft.rolls_back_to) == (4, 1)
    assert (
        current.revisions
        == releases.pins()
        == json.loads(ask("releases", "--format", "json").out)["releases"][3]["revisions"]
    )
    listed = ask("releases")
    assert [line.split()[0] for line in listed.out.splitlines()[1:5]] == ["4", "3", "2", "1"]
    assert "rollback to 1" in listed.out
    assert "the first" in ask("releases", "show", "1").out
    conforms(json.loads(ask("releases", "--format", "json").out), "releases")
    assert (
        f"relay, release 4 of {current.made_at:%Y-%m-%d %H:%M}Z by {current.draft.by}: no live worker"
        in ask("plan").out
    )


def test_what_is_refused_leaves_all_as_it_was(fleet: Fleet, ask: Callable[..., Answer], releases: Releases) -> None:
    for name in NAMES:
        fleet.tree.nightly(name)
    assert ask("apply").code == 2
    assert ask("releases", "show").code == 2
    assert ask("rollback", "1", "--yes").code == 2
    assert releases.serial() == 0
    assert ask("apply", "--yes").code == 0
    before = in_force(fleet, releases)
    for name in NAMES[2:]:
        (fleet.tree.root / name / "template.yaml").rename(fleet.root / name)
        (fleet.tree.root / name / "jobs.py").unlink()
    many = ask("apply", "--yes")
    assert (many.code, re.findall(r"remove (\d of \d) schedules \(limit 5\)", many.err)) == (7, ["7 of 9"])
    assert "if intended: --max-removals 7" in many.err
    for name in NAMES[:2]:
        (fleet.tree.root / name / "template.yaml").rename(fleet.root / name)
    none = ask("apply", "--yes", "--max-removals", "100")
    assert none.code == 7
    assert "the tree holds no app" in none.err
    assert ask("apply", "--yes", apps=fleet.root / "nowhere").code == 9
    (fleet.tree.root / "app0" / "template.yaml").write_text("schedulez: []\n")
    broken = ask("apply", "--yes", "--allow-empty")
    assert broken.code == 1
    assert "apps/app0/template.yaml:1:1: error RLY101" in broken.err
    assert in_force(fleet, releases) == before
    (fleet.tree.root / "app0" / "template.yaml").unlink()
    assert ask("apply", "--yes", "--allow-empty").code == 0
    assert in_force(fleet, releases) == (2, set(), {})
    assert ask("rollback", "1", "--yes").code == 0
    assert in_force(fleet, releases) == (3, set(NAMES), before[2])


def test_a_bundle_that_is_gone_or_damaged_is_published_again(
    fleet: Fleet, ask: Callable[..., Answer], releases: Releases
) -> None:
    fleet.tree.nightly("billing")
    assert ask("apply", "--yes").code == 0
    digest, *_ = releases.kept_bundles()
    assert ask("apply", "--yes").out.startswith("No changes.")
    for serial, harm in enumerate(("HDEL {0} {1}", "HSET {0} {1} junk"), 2):
        fleet.client.execute_command(*harm.format(fleet.keys.bundles, digest).split())
        again = ask("apply", "--yes")
        assert (again.code, releases.serial()) == (0, serial)
        assert f"the bundle of release {serial - 1} is gone or damaged" in again.err
        assert ask("apply", "--yes").out.startswith("No changes.")


def test_a_saved_plan_is_applied_once_and_only_as_it_was_seen(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.nightly("billing")
    ask("apply", "--yes")
    fleet.tree.nightly("billing", minute=5)
    assert ask("plan", "--out", "p.json").code == 0
    fleet.tree.nightly("billing", minute=6)
    edited = ask("apply", "p.json", "--yes")
    assert edited.code == 5
    assert "the templates were edited since this plan was made" in edited.err
    fleet.tree.nightly("billing", minute=5)
    assert ask("apply", "p.json", "--yes").code == 0
    again = ask("apply", "p.json", "--yes")
    assert again.code == 5
    assert "was applied before" in again.err
    ask("plan", "--out", "p.json")
    fleet.tree.nightly("billing", minute=7)
    ask("apply", "--yes", "--message", "in between")
    fleet.tree.nightly("billing", minute=5)
    moved = ask("apply", "p.json", "--yes")
    assert moved.code == 5
    assert "release 3, applied" in moved.err
    assert '"in between"' in moved.err


def test_what_plan_says_of_the_fleet_apply_says_too(fleet: Fleet, ask: Callable[..., Answer]) -> None:
    fleet.tree.app("billing", '- {name: tick, handler: jobs.run, cron: "0 3 29 2 *", timezone: Europe/Rome}')
    records = Records(fleet.client, fleet.keys)
    records.enter_mode("push")
    records.beat(replace(RECORD, tzdata="1999a"))
    assert "RLY307" in ask("plan").out
    assert "RLY307" in ask("apply", "--yes", "--no-wait").out


def test_modes_do_not_fight(fleet: Fleet, ask: Callable[..., Answer], releases: Releases) -> None:
    fleet.tree.nightly("billing")
    assert "has no mode yet" in ask("mode").out
    records = Records(fleet.client, fleet.keys)
    records.enter_mode("pull")
    records.beat(RECORD)
    pulled = ask("apply", "--yes")
    assert pulled.code == 7
    assert "is in pull mode" in pulled.err
    assert "relayctl mode push" in pulled.err
    refused = ask("mode", "push")
    assert refused.code == 7
    assert RECORD.id in refused.err
    records.leave(RECORD.id)
    assert ask("mode", "push").code == 0
    assert ask("apply", "--yes").code == 0
    assert releases.pins() != {}
    refused = ask("serve", apps=fleet.tree.root)
    assert refused.code == 7
    assert "relayctl mode pull" in refused.err
    assert "--follow" in refused.err
    assert json.loads(ask("mode", "pull", "--format", "json").out) == {
        "v": 1,
        "namespace": "relay",
        "mode": "pull",
        "changed": True,
    }
    assert releases.pins() == {}


def test_one_waits_for_the_other_and_says_for_whom(
    fleet: Fleet, ask: Callable[..., Answer], releases: Releases
) -> None:
    fleet.tree.nightly("billing")
    releases.take_lease("t", by="ci@runner-4", pid=812, command="relayctl apply plan.json")
    refused = ask("apply", "--yes", "--lock-timeout", "0s")
    assert refused.code == 6
    assert "ci@runner-4 pid 812, relayctl apply plan.json, started " in refused.err
    assert releases.serial() == 0
    process = starts(fleet, "apply", "--yes")
    await_fact(lambda: "waiting for ci@runner-4" in said(process), "it does not wait")
    releases.give_lease_back("t")
    assert process.await_exit() == 0
    assert releases.serial() == 1


def test_two_at_once_publish_one_after_the_other(fleet: Fleet, releases: Releases) -> None:
    fleet.tree.nightly("billing")
    other = Tree(fleet.root / "others", fleet.root / "runs.jsonl")
    other.nightly("crm")
    processes = [starts(fleet, "apply", "--yes", apps=root) for root in (fleet.tree.root, other.root)]
    assert [process.await_exit() for process in processes] == [0, 0]
    current = releases.current()
    assert current is not None
    assert in_force(fleet, releases) == (2, set(current.revisions), current.revisions)
    assert current.draft.base == 1


@pytest.mark.parametrize("way", [Way.STOP, Way.NO_ANSWER])
def test_an_answer_that_is_lost_is_asked_for_again(
    fleet: Fleet, ask: Callable[..., Answer], releases: Releases, turnstiles: Callable[..., Turnstile], way: Way
) -> None:
    fleet.tree.nightly("billing")
    lost: list[int] = []

    def decide(number: int, data: bytes) -> Way:
        if b"rolls_back_to" not in data or lost:
            return Way.PASS
        lost.append(number)
        return way

    answer = starts(fleet, "apply", "--yes", redis=turnstiles(decide).url)
    assert answer.await_exit() == 0, said(answer)
    assert (len(lost), releases.serial(), len(releases.all())) == (1, 1, 1)


def killed_at(
    fleet: Fleet, make: Callable[..., Turnstile], is_it: Callable[[int, bytes], bool], way: Way
) -> tuple[ServeProcess, int]:
    """An apply that is killed at that piece of its talk with the broker; and how many pieces there were."""
    victim: list[ServeProcess] = []

    def decide(number: int, data: bytes) -> Way:
        return way if is_it(number, data) else Way.PASS

    def kill() -> None:
        await_fact(lambda: victim, "nobody to kill")
        victim[0].process.send_signal(signal.SIGKILL)
        victim[0].process.wait(10)

    road = make(decide, kill)
    victim.append(starts(fleet, "apply", "--yes", redis=road.url))
    victim[0].await_exit()
    return victim[0], road.pieces


def whole(fleet: Fleet, releases: Releases, old: tuple[Any, ...], new_apps: set[str]) -> bool:
    """Whether what is in force is the old release or the new one, and nothing between; True for the new one."""
    found = in_force(fleet, releases)
    lease = fleet.client.pttl(fleet.keys.release_lease)
    assert lease == -2 or 0 < lease <= LEASE_MS, "a lease that does not end by itself"
    if found == old:
        return False
    serial, apps, pins = found
    assert (serial, apps, set(pins)) == (old[0] + 1, new_apps, new_apps)
    current = releases.current()
    assert current is not None
    assert releases.bundle(current.digest) is not None
    return True


@pytest.mark.parametrize(("way", "is_new"), [(Way.STOP, False), (Way.NO_ANSWER, True)])
def test_a_kill_around_the_publication_leaves_one_of_both(
    fleet: Fleet,
    ask: Callable[..., Answer],
    releases: Releases,
    turnstiles: Callable[..., Turnstile],
    way: Way,
    is_new: bool,
) -> None:
    fleet.tree.nightly("billing")
    ask("apply", "--yes")
    old = in_force(fleet, releases)
    fleet.tree.nightly("crm")
    killed, _ = killed_at(fleet, turnstiles, lambda _, data: b"rolls_back_to" in data, way)
    assert killed.process.returncode == -signal.SIGKILL
    assert whole(fleet, releases, old, {"billing", "crm"}) is is_new
    fleet.client.delete(fleet.keys.release_lease)
    assert ask("apply", "--yes").code == 0
    assert in_force(fleet, releases)[:2] == (2, {"billing", "crm"})


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("way", [Way.STOP, Way.NO_ANSWER])
def test_a_kill_at_any_step_leaves_one_of_both(
    fleet: Fleet, ask: Callable[..., Answer], releases: Releases, turnstiles: Callable[..., Turnstile], way: Way
) -> None:
    fleet.tree.nightly("billing")
    ask("apply", "--yes")
    seen = {False: 0, True: 0}
    for at in range(1, 200):
        old = in_force(fleet, releases)
        name = f"app{at}"
        fleet.tree.nightly(name)
        killed, pieces = killed_at(fleet, turnstiles, lambda number, _, at=at: number == at, way)
        is_new = whole(fleet, releases, old, old[1] | {name})
        seen[is_new] += 1
        fleet.client.delete(fleet.keys.release_lease)
        ask("apply", "--yes")
        assert in_force(fleet, releases)[1] == old[1] | {name}
        if pieces < at:
            assert killed.process.returncode == 0
            break
    assert seen[False] > 10
    assert seen[True] > 1


def silent_worker(fleet: Fleet) -> None:
    """The record of a live worker that never takes a release."""
    records = Records(fleet.client, fleet.keys)
    records.beat(RECORD)
    records.hold(RECORD.id, Holdings(apps={"billing": "b0" * 20}))


def test_a_worker_that_does_not_take_it_is_named(fleet: Fleet, ask: Callable[..., Answer], releases: Releases) -> None:
    fleet.tree.nightly("billing")
    silent_worker(fleet)
    answer = ask("apply", "--yes", "--timeout", "0s")
    assert answer.code == 8
    assert "release 1 stands, but 1 of 1 worker has not taken it" in answer.err
    assert "w1  app billing is at b0b0b0b0 and not yet at" in answer.err
    assert "Workers   0 of 1 on release 1" in answer.out
    assert releases.serial() == 1
    assert ask("apply", "--yes", "--no-wait").code == 0


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_says_what_stands(fleet: Fleet, releases: Releases, number: signal.Signals, code: int) -> None:
    fleet.tree.nightly("billing")
    silent_worker(fleet)
    process = starts(fleet, "apply", "--yes")
    # It gives the lease back when it knows that the release stands.
    await_fact(
        lambda: releases.serial() == 1 and not fleet.client.exists(fleet.keys.release_lease), "it does not publish"
    )
    process.send(number)
    assert process.await_exit() == code
    assert "release 1 stands; its workers were not waited for" in said(process)


def test_an_interrupt_before_anything_was_done_says_so(fleet: Fleet, releases: Releases) -> None:
    fleet.tree.nightly("billing")
    releases.take_lease("t", by="ci@runner", pid=1, command="relayctl apply")
    process = starts(fleet, "apply", "--yes")
    await_fact(lambda: "waiting for" in said(process), "it does not wait")
    process.send(signal.SIGINT)
    assert process.await_exit() == 130
    assert "nothing was changed" in said(process)
    assert releases.serial() == 0


def test_without_a_reader_for_the_plan_nothing_is_published(fleet: Fleet, releases: Releases) -> None:
    fleet.tree.nightly("billing")
    read, write = os.pipe()
    os.close(read)
    arguments = command("apply", "--yes", "--apps", str(fleet.tree.root), "--redis", fleet.url)
    done = subprocess.run(arguments, env=plain(), stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write)
    assert (done.returncode, done.stderr, releases.serial()) == (141, "nothing was changed\n", 0)


def test_the_same_from_python(fleet: Fleet, releases: Releases) -> None:
    fleet.tree.nightly("billing")
    place = api.Place(redis_url=fleet.url)
    silent_worker(fleet)
    release, lacks = api.apply(fleet.tree.root, place, by="ann@desk", message="by program", within=timedelta(seconds=0))
    assert release is not None
    assert release == releases.current()
    assert (release.draft.by, release.draft.message) == ("ann@desk", "by program")
    assert list(lacks) == [RECORD.id]
    assert api.apply(fleet.tree.root, place, by="ann@desk") == (None, {})
    (fleet.tree.root / "billing" / "template.yaml").write_text("schedulez: []\n")
    with pytest.raises(InvalidTemplates, match=r"billing/template\.yaml:1: RLY101"):
        api.apply(fleet.tree.root, place, by="ann@desk")
    assert releases.serial() == 1
    assert fleet.client.exists(fleet.keys.release_lease) == 0


def test_as_a_stream_for_programs(fleet: Fleet, ask: Callable[..., Answer], releases: Releases) -> None:
    fleet.tree.nightly("billing")
    silent_worker(fleet)
    answer = ask("apply", "--yes", "--timeout", "0s", "--format", "jsonl")
    lines = [json.loads(line) for line in answer.out.splitlines()]
    assert answer.code == 8
    assert [line["type"] for line in lines if line["type"] not in {"planned_change", "herd"}] == [
        *("version", "plan_summary", "apply_start", "apply_complete", "converged", "apply_summary")
    ]
    assert lines[-2]["workers"][0]["worker"] == RECORD.id
    releases.take_lease("t", by="ci@runner", pid=1, command="relayctl apply")
    locked = ask("apply", "--yes", "--lock-timeout", "0s", "--format", "jsonl")
    assert [json.loads(line)["type"] for line in locked.out.splitlines()] == ["apply_errored"]
    assert locked.code == 6
