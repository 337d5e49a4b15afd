"""What `import` writes is a valid app whose jobs run."""

from __future__ import annotations

from pathlib import Path

from support.console import relayctl


def test_an_imported_crontab_validates_and_runs(tmp_path: Path) -> None:
    (tmp_path / "jobs.crontab").write_text(
        "GREETING=hello\n30 4 * * * echo $GREETING; cat%from cron\n", encoding="utf-8"
    )
    done = relayctl("import", "crontab", "jobs.crontab", cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    assert relayctl("validate", cwd=tmp_path).code == 0
    ran = relayctl("invoke", "jobs/echo", "--local", cwd=tmp_path)
    assert ran.code == 0 and "hello\nfrom cron\n" in ran.out + ran.err
