"""Data that a crash tore or a disk damaged: what loads by itself, what is refused, and the repair it names."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from relayctl.broker.binary import find_server
from relayctl.broker.diagnosis import explain_exit
from relayctl.errors import BrokerDamaged, BrokerError, FileFailure
from relayctl.host.state import StateDir
from relayctl.store.connect import connect


@pytest.fixture(params=["state", "st ate"])
def stopped(broker_factory, request):
    """A stopped broker whose data holds 200 entries, and its incremental file."""
    made = broker_factory(request.param)
    with connect(made.target) as client, client.pipeline(transaction=False) as pipeline:
        for number in range(200):
            pipeline.xadd("log", {"n": number, "pad": "x" * 50})
        pipeline.execute()
    made.stop()
    [file] = (made.embedded.state.broker_data / "aof").glob("*.incr.aof")
    return made, file


def length(made) -> int:
    with connect(made.target) as client:
        return client.xlen("log")


def test_a_torn_tail_loads_by_itself(stopped):
    made, file = stopped
    os.truncate(file, file.stat().st_size - 20)
    made.restart()
    assert length(made) == 199


def test_damage_in_the_middle_is_refused_and_the_named_repair_works(stopped):
    made, file = stopped
    content = bytearray(file.read_bytes())
    middle = content.index(b"*", len(content) // 2)
    content[middle : middle + 8] = b"\0" * 8
    file.write_bytes(content)
    with pytest.raises(BrokerDamaged, match="damaged") as caught:
        made.restart()
    assert str(file) in caught.value.message
    assert file.read_bytes() == content, "a repair was made unasked"
    assert not made.embedded._lock.is_held()

    command = caught.value.help.partition("then run: ")[2]
    done = subprocess.run(command, shell=True, input="y\n", text=True, capture_output=True)
    assert done.returncode == 0, done.stdout + done.stderr
    made.restart()
    assert 0 < length(made) < 200


def test_a_lost_file_is_refused_with_a_way_out(stopped):
    made, file = stopped
    file.unlink()
    with pytest.raises(BrokerDamaged) as caught:
        made.restart()
    assert "restore" in caught.value.help
    assert str(made.embedded.state.broker_data) in caught.value.message


def test_a_garbled_manifest_is_refused_with_a_way_out(stopped):
    made, file = stopped
    [manifest] = file.parent.glob("*.manifest")
    manifest.write_text("nonsense\n")
    with pytest.raises(BrokerDamaged) as caught:
        made.restart()
    assert "restore" in caught.value.help


@pytest.mark.parametrize(
    ("logged", "kind", "words"),
    [
        ("1:M 1 Jan 2026 00:00:00.000 # Fatal: No space left on device", FileFailure, "space"),
        ("*** FATAL CONFIG FILE ERROR ***\nBad directive", BrokerError, "Bad directive"),
        ("", BrokerError, "said nothing"),
    ],
)
def test_an_exit_is_explained_by_what_was_logged_since(tmp_path, logged, kind, words):
    state = StateDir(tmp_path / "state").create()
    before = "Bad file format reading the append only file old.aof: from an earlier start\n"
    state.broker_log.write_text(before + logged)
    error = explain_exit(state, find_server(), len(before))
    assert type(error) is kind
    assert words in error.message
    assert error.help


def test_a_program_that_ends_at_once_is_reported_with_its_words(broker_factory, tmp_path):
    made = broker_factory()
    made.stop()
    program = tmp_path / "server"
    program.write_text("#!/bin/sh\necho this cannot work >&2\nexit 1\n")
    program.chmod(0o755)
    made.embedded._binary = type(made.embedded._binary)(
        path=Path(program), flavour="valkey", version=(9, 0), origin="path"
    )
    with pytest.raises(BrokerError, match="this cannot work") as caught:
        made.restart()
    assert "broker.log" in caught.value.help
    assert not made.embedded._lock.is_held()
