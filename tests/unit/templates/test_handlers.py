"""Handlers are found by reading the app's files; nothing of an app ever runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.templates import NOW, SERVICE, checked, write_app

from relayctl.templates.load import load_app


def _codes(tmp_path: Path, handler: str, files: dict[str, str], runtime: str = "python") -> list[str]:
    text = f'runtime: {runtime}\n{SERVICE}schedules:\n  - name: a\n    handler: {handler}\n    cron: "0 3 * * *"\n'
    directory = write_app(tmp_path, "sample", text, files)
    return [problem.code for problem in load_app(directory, root=tmp_path, now=NOW).problems if problem.code[3] == "4"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("def run(event): ...", None),
        ("def run(): ...", None),
        ("async def run(event): ...", None),
        ("def run(event, retries=3, *more, **others): ...", None),
        ("def run(*args): ...", None),
        ("def run(event, /): ...", None),
        ("@wrapped\ndef run(a, b): ...", None),
        ("run = lambda event: event", None),
        ("class run:\n    def __call__(self, event): ...", None),
        ("if True:\n    def run(event): ...", None),
        ("try:\n    import x\nexcept ImportError:\n    def run(event): ...", None),
        ("with open('x') as f:\n    def run(event): ...", None),
        ("def run(a, b): ...", "RLY404"),
        ("def run(event, *, must): ...", "RLY404"),
        ("class run:\n    def __call__(self, a, b): ...", "RLY404"),
        ("class run: ...", "RLY404"),
        ("run = 3", "RLY404"),
        ("run: dict = {}", "RLY404"),
        ("run = lambda a, b: a", "RLY404"),
        ("run = make()", "RLY405"),
        ("from elsewhere import run", "RLY405"),
        ("from elsewhere import *", "RLY405"),
        ("class run(Base): ...", "RLY405"),
        ("a, run = pair()", "RLY405"),
        ("def __getattr__(name): ...", "RLY405"),
        ("def runn(event): ...", "RLY403"),
        ("class other:\n    def run(self): ...", "RLY403"),
        ("def other():\n    def run(event): ...", "RLY403"),
        ("", "RLY403"),
        ("def run(event)\n", "RLY407"),
        ("\x00", "RLY407"),
    ],
)
def test_python(tmp_path: Path, source: str, code: str | None) -> None:
    assert _codes(tmp_path, "jobs.run", {"jobs.py": source}) == ([] if code is None else [code])


@pytest.mark.parametrize(
    ("handler", "code"),
    [
        ("deep.inner.run", None),
        ("package.run", None),
        ("run", "RLY401"),
        ("jobs/run.py", "RLY401"),
        ("jobs:run", "RLY401"),
        ("../../evil.handler", "RLY401"),
        (".jobs.run", "RLY401"),
        ("jobs..run", "RLY401"),
        ("jobs.run()", "RLY401"),
        ("nothing.run", "RLY402"),
        ("deep.run", "RLY402"),
    ],
)
def test_python_modules(tmp_path: Path, handler: str, code: str | None) -> None:
    files = {"deep/inner.py": "def run(event): ...", "package/__init__.py": "def run(event): ..."}
    assert _codes(tmp_path, f"'{handler}'", files) == ([] if code is None else [code])


def test_reading_runs_nothing(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    source = f"open({str(proof)!r}, 'w').write('ran')\ndef run(event): ..."
    assert _codes(tmp_path, "jobs.run", {"jobs.py": source}) == []
    assert not proof.exists()


def test_a_module_behind_a_link_must_stay_in_the_app(tmp_path: Path) -> None:
    outside = tmp_path / "outside.py"
    outside.write_text("def run(event): ...")
    directory = tmp_path / "sample"
    directory.mkdir()
    (directory / "jobs.py").symlink_to(outside)
    assert _codes(tmp_path, "jobs.run", {}) == ["RLY402"]


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("exports.run = async (event) => {}", None),
        ("module.exports = { other, run }", None),
        ("module.exports.run = function () {}", None),
        ("export async function run(event) {}", None),
        ("export const run = () => {}", None),
        ("const r = 1; export { r as run }", None),
        ("module.exports = require('./x')", "RLY405"),
        ("module.exports = { ...others, walk() {} }", "RLY405"),
        ("module.exports = { async run(event) { return { a: 1 } } }", None),
        ("exports.run = require('./x').run", None),
        ("export * from './x.js'", "RLY405"),
        ("__exportStar(require('./x'), exports)", "RLY405"),
        ("function run() {}", "RLY403"),
        ("// exports.run = () => {}", "RLY403"),
        ("const text = 'exports.run = 1'", "RLY403"),
        ("/* export function run() {} */ export const walk = 1", "RLY403"),
        ("const odd = /'/; // exports.run = 1", "RLY403"),
        ("module.exports = { walk: { run() {} } }", "RLY403"),
        ("exports.run == 1", "RLY403"),
        ("exports.run = 5", "RLY404"),
        ("export const run = 'text'", "RLY404"),
        ("exports.run = function* () {}", "RLY404"),
        ("export function* run() {}", "RLY404"),
        ("export async function * run() {}", "RLY404"),
        ("module.exports = { *run() {} }", "RLY404"),
    ],
)
def test_node(tmp_path: Path, source: str, code: str | None) -> None:
    assert _codes(tmp_path, "jobs.run", {"jobs.js": source}, "node") == ([] if code is None else [code])


def test_node_finds_every_kind_of_module(tmp_path: Path) -> None:
    es, common = "export function run() {}", "exports.run = () => {}"
    for file, source in (("jobs.mjs", es), ("jobs.cjs", common), ("jobs/index.js", common), ("jobs.js", es)):
        assert _codes(tmp_path / file.replace("/", "-"), "jobs.run", {file: source}, "node") == []
    for file, source in (("other.mjs", common), ("other.cjs", es)):
        assert _codes(tmp_path / file, "other.run", {file: source}, "node") == ["RLY403"]


def test_node_names_what_is_near(tmp_path: Path) -> None:
    text = f'runtime: node\n{SERVICE}schedules:\n  - name: a\n    handler: jobs.rum\n    cron: "0 3 * * *"\n'
    directory = write_app(tmp_path, "sample", text, {"jobs.js": "exports.run = () => 1"})
    found = load_app(directory, root=tmp_path, now=NOW)
    assert [problem.help for problem in found.problems if problem.is_error] == ['did you mean "run"?']


@pytest.mark.parametrize(
    ("handler", "code"),
    [
        ("bin/backup.sh", None),
        ("./bin/backup.sh", None),
        ("bin/plain.sh", "RLY404"),
        ("bin/none.sh", "RLY402"),
        ("bin", "RLY402"),
        ("/bin/sh", "RLY401"),
        ("../x", "RLY401"),
        ("bin/../../x", "RLY401"),
        ("~/x", "RLY401"),
        ("bin/link", "RLY402"),
    ],
)
def test_programs(tmp_path: Path, handler: str, code: str | None) -> None:
    files = {"bin/backup.sh": "#!/bin/sh\n", "bin/plain.sh": "#!/bin/sh\n"}
    directory = write_app(tmp_path, "sample", "", files)
    (directory / "bin/backup.sh").chmod(0o755)
    (directory / "bin/link").symlink_to("/bin/sh")
    assert _codes(tmp_path, f"'{handler}'", {}, "exec") == ([] if code is None else [code])


def test_an_entrypoint_is_a_file_of_the_app(tmp_path: Path) -> None:
    text = "runtime: python\nservices:\n  - name: web\n    entrypoint: {}\n"
    for entry, code in (("service.py", []), ("other.py", ["RLY402"]), ("../service.py", ["RLY401"])):
        directory = write_app(tmp_path, "sample", text.format(entry), {"service.py": ""})
        found = load_app(directory, root=tmp_path, now=NOW)
        assert [problem.code for problem in found.problems if problem.is_error] == code


def test_one_broken_handler_is_reported_once(tmp_path: Path) -> None:
    item = '  - name: {}\n    handler: gone.run\n    cron: "{} 3 * * *"\n'
    text = "runtime: python\n" + SERVICE + "schedules:\n" + item.format("a", 1) + item.format("b", 2)
    found = load_app(write_app(tmp_path, "sample", text), root=tmp_path, now=NOW)
    assert [problem.code for problem in found.problems if problem.is_error] == ["RLY402"]


@pytest.mark.parametrize(
    ("runtime", "handler", "code"),
    [
        ("python", "../../evil.handler", "RLY401"),
        ("python", "run", "RLY401"),
        ("node", "../evil.run", "RLY401"),
        ("exec", "../../bin/evil", "RLY401"),
        ("exec", "/bin/true", "RLY401"),
        ("python", "jobs.run", None),
        ("exec", "bin/backup.sh", None),
    ],
)
def test_the_form_is_judged_where_there_are_no_files(runtime: str, handler: str, code: str | None) -> None:
    _, problems = checked(f"runtime: {runtime}\nevents:\n  - handler: {handler}\n    pattern: {{kind: [x]}}\n")
    assert [problem.code for problem in problems if problem.is_error] == ([code] if code else [])
