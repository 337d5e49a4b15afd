"""Secret values by reference: a mounted directory first, then the local store. What handlers print is masked elsewhere.

Values are read anew on every call, so that a rotation needs no restart, and appear in no error or repr.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from relayctl.core.names import is_name
from relayctl.errors import FileFailure, SecretMissing, UsageError, os_reason
from relayctl.host.wholefile import sweep_unfinished, write_whole

MAX_SECRET_BYTES = 1 << 20


class SecretStore:
    """Resolves references. `secrets_dir` is somebody else's mount and only read; `store_dir` is kept here."""

    __slots__ = ("_secrets_dir", "_store_dir")

    def __init__(self, secrets_dir: Path | None, store_dir: Path) -> None:
        self._secrets_dir = secrets_dir
        self._store_dir = store_dir

    def resolve(self, reference: str) -> str:
        """The value, without one trailing newline. SecretMissing names the reference and how to set it."""
        check_reference(reference)
        for directory in (self._secrets_dir, self._store_dir):
            if directory is not None:
                value = _read(directory, reference)
                if value is not None:
                    return value
        mounted = f", or add the file {reference} to {self._secrets_dir}" if self._secrets_dir else ""
        raise SecretMissing(
            f"the secret {reference} has no value here",
            help=f"set it with: relayctl secret set {reference}{mounted}",
        )

    def set(self, reference: str, value: str) -> None:
        """Keep `value` in the local store, readable by the owner alone; readers see the old or the new one."""
        check_reference(reference)
        content = value.encode()
        if len(content) > MAX_SECRET_BYTES:
            raise UsageError(f"the value of the secret {reference} is larger than {MAX_SECRET_BYTES} bytes")
        if b"\0" in content:
            raise UsageError(
                f"the value of the secret {reference} contains a zero byte",
                help="an environment variable cannot carry one; encode the value",
            )
        try:
            self._store_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._store_dir.chmod(0o700)
            # A draft is its owner's alone from the start, and its leading dot keeps it out of `names`.
            write_whole(self._store_dir / reference, content, is_synced=True)
        except OSError as error:
            raise _failure(self._store_dir, error) from error

    def remove(self, reference: str) -> bool:
        """Forget the local value; False if there was none."""
        check_reference(reference)
        try:
            # What a `set` left that was killed in the middle has the value too.
            sweep_unfinished(self._store_dir, reference)
            (self._store_dir / reference).unlink()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise _failure(self._store_dir, error) from error
        return True

    def names(self) -> list[str]:
        """The references that have a value here, sorted."""
        found: set[str] = set()
        for directory in (self._secrets_dir, self._store_dir):
            with suppress(OSError):
                if directory is not None:
                    found |= {item.name for item in directory.iterdir() if item.is_file()}
        return sorted(filter(is_name, found))


def check_reference(reference: str) -> None:
    """UsageError for a text that cannot be a reference."""
    # A value pasted in place of a name must not be echoed, so the text is not shown.
    if not is_name(reference):
        raise UsageError(
            "a secret reference is not a name",
            help="use at most 63 of a-z 0-9 . _ - beginning with a letter or digit and not ending in a dot",
        )


def _read(directory: Path, reference: str) -> str | None:
    try:
        # Not blocking: a pipe in the directory must not hang an attempt.
        handle = os.open(directory / reference, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _failure(directory / reference, error) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise FileFailure(f"the secret {reference} in {directory} is not a file")
    with os.fdopen(handle, "rb") as file:
        content = _content(file.read(MAX_SECRET_BYTES + 1), reference, directory)
    return content.removesuffix("\r\n" if content.endswith("\r\n") else "\n")


def _content(content: bytes, reference: str, directory: Path) -> str:
    if len(content) > MAX_SECRET_BYTES:
        raise FileFailure(f"the secret {reference} in {directory} is larger than {MAX_SECRET_BYTES} bytes")
    if b"\0" in content:
        raise FileFailure(
            f"the secret {reference} in {directory} contains a zero byte",
            help="an environment variable cannot carry one; encode the value",
        )
    try:
        return content.decode()
    except UnicodeDecodeError:
        # Without its cause: the exception carries the bytes.
        raise FileFailure(
            f"the secret {reference} in {directory} is not UTF-8 text", help="encode the value, as base64 for instance"
        ) from None


def _failure(path: Path, error: OSError) -> FileFailure:
    return FileFailure(
        f"secrets cannot be used at {path}: {os_reason(error)}", help="check the owner and mode, and the free space"
    )
