"""What the terminal and the shell do to a command: closed pipes, signals, locales, colour, completion, slow imports."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.broker import await_fact, is_running
from support.console import ROOT, command, plain, relayctl

HEAVY = (
    "redis", "sqlite_utils", "watchfiles", "croniter", "cron_descriptor", "jsonschema", "prometheus_client", "asyncio",
    "rich", "pydantic",
)  # fmt: skip
_RUN = "import sys; from relayctl.cli.app import run; code = run(sys.argv[1:]); print('\\n'.join(sys.modules), file=sys.stderr); sys.exit(code)"


def _imported(*arguments: str, environ: dict[str, str] | None = None) -> set[str]:
    return {name.partition(".")[0] for name in _modules(*arguments, environ=environ)}


def _modules(*arguments: str, environ: dict[str, str] | None = None) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *arguments],
        cwd=ROOT,
        env=plain(environ),
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("validate", "--help"),
        ("validate", "apps/billing"),
        ("validate", "--fix", "apps/billing"),
        ("completion", "bash"),
    ],
    ids=" ".join,
)
def test_a_light_command_imports_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert _imported(*arguments).isdisjoint(HEAVY)


@pytest.mark.parametrize(
    "arguments",
    [("explain", "30 2 * * *", "--timezone", "Europe/Rome"), ("simulate", "--by", "week"), ("schema", "config")],
    ids=lambda arguments: arguments[0],
)
def test_a_command_without_a_broker_imports_only_what_it_needs(arguments: tuple[str, ...]) -> None:
    needed = {"cron_descriptor"} if arguments[0] == "explain" else set()
    assert _imported(*arguments) & set(HEAVY) == needed


def test_help_stays_within_its_budget() -> None:
    # Modules are counted in place of milliseconds, which a busy machine stretches: 150 ms pay for about this many.
    modules = _modules("--help")
    assert 0 < len(modules) < 190
    assert len([name for name in modules if name.startswith("relayctl.")]) < 20


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completing_imports_nothing_heavy(shell: str) -> None:
    words = {"COMP_WORDS": "relayctl validate --s", "COMP_CWORD": "2", "_TYPER_COMPLETE_ARGS": "relayctl validate --s"}
    run = _RUN.replace("code = run(sys.argv[1:])", "\ntry:\n    run([])\nexcept SystemExit:\n    pass\ncode = 0\n")
    done = subprocess.run(
        [sys.executable, "-c", run.replace("; ", "\n")],
        env=plain(words | {"_RELAYCTL_COMPLETE": f"complete_{shell}"}), capture_output=True, text=True, timeout=30,
    )  # fmt: skip
    assert "--select" in done.stdout, done.stderr
    assert {name.partition(".")[0] for name in done.stderr.splitlines()}.isdisjoint(HEAVY)


def test_a_reader_that_leaves_early_is_no_error(tmp_path: Path) -> None:
    app = tmp_path / "apps" / "many"
    app.mkdir(parents=True)
    (app / "work.py").write_text("def run(event):\n    pass\n")
    schedules = "".join(f'  - {{name: s{n}, handler: work.run, cron: "{n % 60} 3 * * *"}}\n' for n in range(300))
    (app / "template.yaml").write_text(
        f"runtime: python\nevents:\n  - {{handler: work.run, pattern: {{name: [x]}}}}\nschedules:\n{schedules}"
    )
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "pipesize": 4096}  # holds less than is written
    with subprocess.Popen(command("inspect", "--all"), cwd=tmp_path, env=plain(), **streams) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(timeout=30) == 141


def test_an_output_that_is_closed_or_full_is_no_traceback(tmp_path: Path) -> None:
    def ends(redirection: str, *words: str) -> tuple[int, str]:
        script = f'exec "$@" {redirection}'
        done = subprocess.run(
            ["sh", "-c", script, "sh", *command(*words or ("rule", "RLY207"))],
            cwd=tmp_path, env=plain(), stderr=subprocess.PIPE, text=True, timeout=30,
        )  # fmt: skip
        return done.returncode, done.stderr

    assert ends(">&-") == (0, "")
    assert ends("<&- >&- 2>&-") == (0, "")
    full = (3, "error: the output cannot be written: no space left on device\n")
    assert ends("> /dev/full") == full
    for words in (("--help",), ("dlq", "--help"), ("--version",), ("completion", "bash")):
        assert ends("> /dev/full", *words) == full


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_ends_a_command_with_its_own_code_and_its_handler(
    number: signal.Signals, code: int, word: str, tmp_path: Path
) -> None:
    app = tmp_path / "apps" / "slow"
    app.mkdir(parents=True)
    started = tmp_path / "started"
    (app / "work.py").write_text(
        "import os, time\nfrom pathlib import Path\n\n\ndef run(event):\n"
        f"    Path({str(tmp_path / 'part')!r}).write_text(str(os.getpid()))\n"
        f"    os.rename({str(tmp_path / 'part')!r}, {str(started)!r})\n    time.sleep(60)\n"
    )
    (app / "template.yaml").write_text(
        "runtime: python\nevents:\n  - {handler: work.run, pattern: {name: [x]}, timeout: 1m}\n"
    )
    with subprocess.Popen(
        command("invoke", "slow/work.run", "--local"), cwd=tmp_path, env=plain(), stderr=subprocess.PIPE
    ) as process:
        await_fact(started.exists, "the handler never started", within_s=30)
        process.send_signal(number)
        _, err = process.communicate(timeout=30)
    assert (process.returncode, err.decode().splitlines()) == (code, [word])
    pid = int(started.read_text())
    await_fact(lambda: not is_running(pid), "the handler outlived its command")


def test_a_container_without_a_locale_gets_ascii(tmp_path: Path) -> None:
    app = tmp_path / "apps" / "caffe"
    app.mkdir(parents=True)
    (app / "work.py").write_text("def run(event):\n    pass\n", encoding="utf-8")
    (app / "template.yaml").write_text(
        "# perché no 🚀\nruntime: python\nenv: {NAME: caffè}\nevents:\n  - {handler: work.run, pattern: {name: [x]}, retrys: 2}\n",
        encoding="utf-8",
    )
    for environ in ({"LANG": "C"}, {"LANG": ""}, {"LANG": "C", "PYTHONIOENCODING": "ascii"}):
        answer = relayctl("validate", cwd=tmp_path, environ=environ)
        assert (answer.code, answer.err) == (1, "")
        assert answer.out.isascii()
        assert 'did you mean "retries"?' in answer.out
    assert relayctl("inspect", cwd=tmp_path, environ={"LANG": "C"}).code == 1


def test_a_document_stays_json_where_the_terminal_is_ascii(tmp_path: Path) -> None:
    words = "caffè → 🚀"
    app = tmp_path / "apps" / "caffe"
    app.mkdir(parents=True)
    (app / "work.py").write_text("def run(event):\n    pass\n", encoding="utf-8")
    (app / "template.yaml").write_text(
        "runtime: python\nevents:\n  - {handler: work.run, pattern: {name: [x]}}\n"
        f'schedules:\n  - {{name: s, handler: work.run, cron: "@daily", description: "{words}"}}\n',
        encoding="utf-8",
    )
    answer = relayctl("inspect", "caffe/s", "--format", "json", cwd=tmp_path, environ={"LANG": "C"})
    assert answer.code == 0, answer.err
    assert answer.out.isascii()
    assert words in json.dumps(json.loads(answer.out), ensure_ascii=False)
    plain = relayctl("inspect", "caffe/s", cwd=tmp_path, environ={"LANG": "C", "LC_ALL": "C"})
    assert (plain.code, plain.err) == (0, "")


def test_colour_is_for_terminals_and_for_those_who_ask() -> None:
    bad = b"runtime: python\nevnts: []\n"
    assert "\x1b" not in relayctl("validate", "-", stdin=bad).out
    asked = relayctl("validate", "-", "--color", "always", stdin=bad).out
    assert "\x1b[1;31merror\x1b[0m" in asked


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_the_completion_script_works_in_bash() -> None:
    script = relayctl("completion", "bash").out
    line = 'COMP_WORDS=(relayctl con); COMP_CWORD=1; _relayctl_completion relayctl; printf "%s\\n" "${COMPREPLY[@]}"'
    done = subprocess.run(["bash", "-c", f"{script}\n{line}"], env=plain(), capture_output=True, text=True, timeout=30)
    assert done.stdout == "config\n"
