"""The program that becomes the server: it ties the server's life to its owner's, then replaces itself by it.

Run by path in a bare interpreter; imports nothing of relayctl. Arguments: owner pid, descriptor of the owner's
pipe or -1 where the kernel can tell of a parent's death, descriptors to keep from the watcher, the server's command.
"""

import os
import select
import signal
import sys

_ORPHANED = 3
_PR_SET_PDEATHSIG = 1
# How often the watcher looks whether its server still lives, in seconds.
_WATCH_S = 1.0


def _die_with_parent() -> None:
    import ctypes

    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def _watch(pipe: int, server: int) -> None:
    """In a child of the server: end it when the owner's end of the pipe is gone, and end with it."""
    while os.getppid() == server:
        ready, _, _ = select.select([pipe], [], [], _WATCH_S)
        if ready and not os.read(pipe, 1):
            if os.getppid() == server:
                os.kill(server, signal.SIGTERM)
            break
    os._exit(0)


def _fork_watcher(pipe: int, kept: list[int]) -> None:
    server = os.getpid()
    if os.fork() != 0:
        os.close(pipe)
        return
    for descriptor in kept:
        # Holding the lock here would keep a successor out after the server's death.
        os.close(descriptor)
    _watch(pipe, server)


def main(arguments: list[str]) -> None:
    owner, pipe = int(arguments[0]), int(arguments[1])
    kept = [int(text) for text in arguments[2].split(",") if text]
    command = arguments[3:]
    os.umask(0o077)
    if pipe < 0:
        _die_with_parent()
    else:
        _fork_watcher(pipe, kept)
    # The owner may have died before the tie was made; then nobody would ever end the server.
    if os.getppid() != owner:
        sys.exit(_ORPHANED)
    os.execve(command[0], command, {"LC_ALL": "C"})


if __name__ == "__main__":
    main(sys.argv[1:])
