"""Services as real processes: they run, come back, are checked, are stopped, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import textwrap
from pathlib import Path

from service_stage import NAPPER, SERVER, ServiceStage, free_port
from support.broker import await_fact, is_running

WEB = "runtime: python\nservices:\n  - {name: web, entrypoint: web.py}\n"


def python(text: str) -> dict[str, str]:
    return {"web.py": textwrap.dedent(text)}


def test_a_replica_gets_its_port_and_name_and_nothing_of_the_worker(stage: ServiceStage) -> None:
    os.environ["RELAYCTL_TEST_OWN"] = "worker only"
    port = free_port(2)
    stage.secrets["token"] = "s3cret-token"
    stage.app(
        "app",
        f"runtime: python\nenv: {{COLOUR: blue}}\nsecrets: {{TOKEN: token}}\n"
        f"services:\n  - {{name: web, entrypoint: web.py, port: {port}, replicas: 2}}\n",
        python("""
            import json, os, time
            names = ("PORT", "RELAY_APP", "RELAY_SERVICE", "RELAY_REPLICA", "COLOUR", "RELAYCTL_TEST_OWN")
            print(json.dumps([os.environ.get(name) for name in names]), os.getcwd(), len(os.environ["TOKEN"]))
            print("the token is", os.environ["TOKEN"])
            time.sleep(600)
        """),
    )
    stage.await_up()
    del os.environ["RELAYCTL_TEST_OWN"]
    directory = stage.root / "app"
    for index in (0, 1):
        line = stage.await_line(f"app/web.{index}", "blue")
        assert line == f'["{port + index}", "app", "web", "{index}", "blue", null] {directory} 12'
        assert stage.await_line(f"app/web.{index}", "the token") == "the token is ***"
    command = Path(f"/proc/{stage.pids()[0]}/cmdline").read_bytes()
    assert command.endswith(b"web.py\0") and b"s3cret" not in command


def test_commands_run_without_a_shell_and_programs_by_themselves(stage: ServiceStage) -> None:
    stage.app(
        "app",
        "runtime: exec\nservices:\n  - {name: web, command: [sh, -c, 'echo got \"$1\"; exec sleep 600', x, '; rm $HOME']}\n"
        "  - {name: own, entrypoint: bin/own}\n  - {name: inner, command: [./bin/own, word]}\n",
        {"bin/own": "#!/bin/sh\necho own $# $RELAY_SERVICE\nexec sleep 600\n"},
    )
    assert stage.await_line("app/web.0", "got") == "got ; rm $HOME"
    assert stage.await_line("app/own.0", "own") == "own 0 own"
    assert stage.await_line("app/inner.0", "own") == "own 1 inner"
    for name in ("app/web", "app/own", "app/inner"):
        stage.await_up(name)


def test_an_end_is_told_with_its_reason_and_the_replica_comes_back_after_growing_pauses(stage: ServiceStage) -> None:
    stage.app("app", WEB, python("import sys\nprint('no such table', file=sys.stderr)\nsys.exit(3)\n"))
    ended = stage.await_told("service-ended", count=4)
    assert ended["reason"] == "exit code 3: no such table"
    pauses = [fact["restart_in_s"] for fact in stage.told("service-ended")]
    assert pauses[:4] == sorted(pauses[:4]) and pauses[0] < pauses[2]
    loop = stage.await_told("service-crash-loop")
    assert loop["failures"] == 3 and len(stage.told("service-crash-loop")) == 1
    standing = stage.standing()
    assert standing is not None and standing.is_looping and standing.word == "looping"
    assert "exit code 3: no such table" in standing.detail and "times in a row" in standing.detail
    # A mended definition does not wait for the pause of the bad one.
    stage.app("app", WEB, {"web.py": NAPPER})
    stage.await_up()


def test_a_killed_replica_and_one_that_ends_by_itself_are_started_again(stage: ServiceStage) -> None:
    stage.app("app", WEB, {"web.py": NAPPER})
    (pid,) = stage.await_up()
    os.kill(pid, signal.SIGSEGV)
    assert stage.await_told("service-ended")["reason"] == "killed by SIGSEGV"
    stage.await_told("service-started", count=2)
    assert stage.await_up() != [pid]
    stage.app("two", WEB, python("print('done')"))
    assert stage.await_told("service-ended", app="two")["reason"] == "it ended by itself, with exit code 0"


def test_what_cannot_be_started_says_why_once_and_is_tried_again(stage: ServiceStage) -> None:
    stage.app(
        "app",
        "secrets: {TOKEN: token}\nservices:\n  - {name: web, command: [sleep, '600']}\n",
    )
    stage.app("two", "services:\n  - {name: web, command: [no-such-program]}\n  - {name: far, command: [../x/run]}\n")
    stage.app("three", "services:\n  - {name: web, command: [./bin/bad]}\n", {"bin/bad": "#!/no/such/interpreter\n"})
    missing = stage.await_told("service-not-started", app="app")
    assert missing["reason"] == "secret token is not set; relayctl secret set token"
    absent = stage.await_told("service-not-started", app="two", service="web")
    assert absent["reason"] == "no-such-program is not on the PATH that the service is given"
    outside = stage.await_told("service-not-started", app="two", service="far")
    assert "outside its app" in outside["reason"]
    bad = stage.await_told("service-ended", app="three")
    assert bad["reason"] == "bin/bad cannot be run: No such file or directory"
    stage.await_told("service-crash-loop", app="app")
    assert len(stage.told("service-not-started", app="app")) == 1
    stage.secrets["token"] = "s3cret-token"
    stage.await_up()


def test_a_port_that_is_taken_is_named(stage: ServiceStage) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        stage.app(
            "app",
            f"runtime: python\nservices:\n  - {{name: web, entrypoint: web.py, port: {port}}}\n",
            {"web.py": SERVER},
        )
        reason = stage.await_told("service-not-started")["reason"]
        assert reason == f"port {port} is taken by another process on this machine"
        assert stage.told("service-started") == []
        standing = stage.standing()
        assert standing is not None and reason in standing.detail
    stage.await_up()


def test_a_check_decides_when_it_is_up_and_when_it_is_restarted(stage: ServiceStage) -> None:
    port = free_port()
    template = (
        f"runtime: python\nservices:\n  - name: web\n    entrypoint: web.py\n    port: {port}\n"
        "    check: {path: /up?a=b c, interval: 50ms, timeout: 500ms}\n"
    )
    flag = stage.root.parent / "flag"
    server = """
        import http.server, os
        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                bad = os.path.exists(FLAG) or self.path != "/up?a=b%20c"
                self.send_response(503 if bad else 204)
                self.end_headers()
            def log_message(self, *args): pass
        http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Page).serve_forever()
    """
    flag.write_text("")
    stage.app("app", template, python(server.replace("FLAG", repr(str(flag)))))
    stage.await_told("service-started")
    await_fact(lambda: _has_trouble(stage), "its check is not asked")
    assert stage.told("service-up") == []
    flag.unlink()
    (pid,) = stage.await_up()
    flag.write_text("")
    ended = stage.await_told("service-ended")
    assert ended["reason"] == "its check failed 3 times in a row: /up?a=b%20c answered 503"
    await_fact(lambda: not is_running(pid), "the failed replica goes on")
    flag.unlink()
    stage.await_up()


def _has_trouble(stage: ServiceStage) -> bool:
    crews = list(stage.services._crews.values())  # whether it was asked shows nowhere else
    return any("503" in member.check_trouble for crew in crews for member in crew.members)


def test_one_that_ignores_sigterm_is_killed_with_everything_it_started(stage: ServiceStage) -> None:
    stage.app(
        "app",
        WEB,
        python("""
            import os, signal, subprocess, sys, time
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            stray = "import os, time; os.setsid(); print('stray', os.getpid(), flush=True); time.sleep(600)"
            inner = subprocess.Popen([sys.executable, "-c", "import os, time; print('inner', os.getpid(), flush=True); time.sleep(600)"])
            other = subprocess.Popen([sys.executable, "-c", stray])
            print("ready", os.getpid())
            time.sleep(600)
        """),
    )
    found = [int(stage.await_line("app/web.0", word).split()[1]) for word in ("inner", "stray", "ready")]
    stage.await_up()
    stage.remove("app")
    stopped = stage.await_told("service-stopped")
    assert stopped["is_killed"] and stopped["reason"] == "it is not in the template any more"
    await_fact(lambda: not any(is_running(pid) for pid in found), "a descendant is left")
    assert stage.standing() is None


def test_a_stop_ends_all_services_and_waits_for_it(stage: ServiceStage) -> None:
    polite = """
        import signal, sys, time
        def bye(*_):
            print("bye")
            sys.exit(0)
        signal.signal(signal.SIGTERM, bye)
        print("here")
        time.sleep(600)
    """
    stage.app("app", WEB.replace("web.py", "web.py, replicas: 3"), python(polite))
    pids = stage.await_up()
    for index in range(3):
        stage.await_line(f"app/web.{index}", "here")
    stage.stop()
    assert not any(is_running(pid) for pid in pids)
    assert {fact["reason"] for fact in stage.told("service-stopped")} == {"the worker is stopping"}
    assert len([it for it in stage.told("output") if it["line"] == "bye"]) == 3


def test_output_is_harmless_and_bounded_and_goes_on_later(stage: ServiceStage) -> None:
    stage.app(
        "app",
        WEB,
        python(r"""
            import sys, time
            sys.stdout.buffer.write(b"\x1b[31mred\x1b[0m \xff bad\n")
            sys.stdout.flush()
            sys.stdout.write("".join(f"line {number}\n" for number in range(12_000)))
            time.sleep(600)
        """),
    )
    assert stage.await_line("app/web.0", "red") == "red � bad"
    stage.await_line("app/web.0", "prints too much")
    assert 10_000 <= len(stage.told("output")) <= 10_010


def test_a_memory_limit_holds_for_services(stage: ServiceStage) -> None:
    stage.app(
        "app",
        "resources: {memory: 64MiB}\n" + WEB,
        python("""
            import time
            try:
                bytearray(200 << 20)
            except MemoryError:
                print("refused")
            time.sleep(600)
        """),
    )
    stage.await_line("app/web.0", "refused")
