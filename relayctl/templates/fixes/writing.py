"""Puts a mended template in the place of the old one: whole or not at all, with its mode, and behind its link."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from relayctl.errors import FileFailure


def overwrite(path: Path, old: bytes, new: bytes) -> None:
    """Write `new` where `old` was read; a file that has changed since then is left as it is."""
    real = Path(os.path.realpath(path))
    try:
        if real.read_bytes() != old:
            raise FileFailure(f"{path}: it was changed while it was being fixed", help="run the command again")
        status = real.stat()
        handle, draft = tempfile.mkstemp(prefix=f".{real.name}.", suffix=".tmp", dir=real.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(new)
                file.flush()
                os.fsync(file.fileno())
            with suppress(PermissionError):
                # Only root can give a file away; for others the new one is theirs already.
                os.chown(draft, status.st_uid, status.st_gid)
            Path(draft).chmod(stat.S_IMODE(status.st_mode))
            Path(draft).replace(real)
        except BaseException:
            Path(draft).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise FileFailure(f"{path}: cannot be written: {(error.strerror or 'unknown error').lower()}") from None
