"""The program inside a Python child: takes invocations from its channel, calls handlers, answers.

Standard library only, and nothing of the package it ships with, because it also runs under other interpreters than
the worker's (3.8 and later). It decides nothing about timeouts, retries or records.
Arguments: the app's directory, the channel's descriptor, the worker's pid, a data limit (`:` control group), handlers
to preload. With `--fork` before these it becomes a zygote once they are imported, with `--fork-first` before that.
"""

# Plain calls start faster and cost less per run than paths as objects.
# ruff: noqa: PTH100, PTH109, PTH120, PTH123
from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import socket
import struct
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, Callable  # noqa: UP035 - also for Python 3.8

OWN = os.path.dirname(os.path.abspath(__file__))
if TYPE_CHECKING:
    from relayctl.runners.child import relay_zygote
    from relayctl.runners.child.relay_surroundings import RESET_SIGNALS, Surroundings, has_children
else:
    # The files beside this one, by names that no app has; their directory is off the path before any app's code runs.
    sys.path.insert(0, OWN)
    from relay_surroundings import RESET_SIGNALS, Surroundings, has_children

    if "--fork" in sys.argv[5:6] or "--fork-first" in sys.argv[5:6]:
        import relay_zygote

PR_SET_PDEATHSIG = 1
PRCTL: list[Callable[..., int]] = []
HEAD = struct.Struct(">II")  # length of the head, length of the event
LENGTH = struct.Struct(">I")
MAX_REASON = 500
MAX_TRACEBACK = 16 * 1024
LARGEST_CODE = 2**31 - 1
DECODE = json.JSONDecoder().decode


class Failure(Exception):
    """A run that failed for a reason that needs no traceback."""


def die_with(parent: int) -> None:
    """End this process when the worker ends: by the kernel where it can, else by looking once a second."""
    if sys.platform == "linux" and end_with_parent() == 0:
        if os.getppid() != parent:  # it ended before the request was in force
            os._exit(1)
        return
    threading.Thread(target=watch, args=(parent,), daemon=True).start()


def end_with_parent() -> int:
    """Ask the kernel; 0 when it has agreed."""
    try:
        if not PRCTL:
            import ctypes

            PRCTL.append(ctypes.CDLL(None).prctl)  # for the forks of a zygote, which would look it up every time
        return int(PRCTL[0](PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0))
    except (ImportError, OSError, AttributeError):
        return -1


def watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)


def limit_data(limit: int) -> None:
    if limit:
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


def enter(group: str) -> None:
    """Go to that control group, before anything of the app can start a process outside it."""
    if group:
        with open(f"{group}/cgroup.procs", "wb", buffering=0) as file:
            file.write(b"0")


class Channel:
    """Frames to and from the worker. Closed in every fork, so that a copy of this process can never answer."""

    def __init__(self, fd: int) -> None:
        os.set_inheritable(fd, False)
        self.socket = socket.socket(fileno=fd)
        self.socket.setblocking(True)
        self.buffer = b""
        os.register_at_fork(after_in_child=self.socket.close)

    def take(self, size: int) -> bytes | None:
        while len(self.buffer) < size:
            chunk = self.socket.recv(max(65536, size - len(self.buffer)))
            if not chunk:
                return None
            self.buffer = self.buffer + chunk if self.buffer else chunk
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def read(self) -> tuple[list[Any], bytes] | None:
        """The next invocation as (head, event), or None when the worker has closed."""
        sizes = self.take(HEAD.size)
        if sizes is None:
            return None
        head_size, event_size = HEAD.unpack(sizes)
        body = self.take(head_size + event_size)
        if body is None:
            return None
        return DECODE(body[:head_size].decode()), body[head_size:]

    def send(self, frame: list[Any]) -> None:
        self.send_raw(json.dumps(frame).encode())

    def send_raw(self, data: bytes) -> None:
        self.socket.sendall(LENGTH.pack(len(data)) + data)


LOADED: dict[str, tuple[Callable[..., Any], bool]] = {}


def load(name: str) -> tuple[Callable[..., Any], bool]:
    """The handler as (callable, whether it takes the event). Imports its module on first use."""
    known = LOADED.get(name)
    if known is not None:
        return known
    module_name, _, attribute = name.rpartition(".")
    if not module_name or not attribute:
        raise Failure(f"handler {name!r} is not of the form module.function")
    module = importlib.import_module(module_name)
    try:
        function = getattr(module, attribute)
    except AttributeError:
        raise Failure(f"module {module_name} has no function {attribute}") from None
    if not callable(function):
        raise Failure(f"{name} is of type {type(function).__name__}, not a function")
    LOADED[name] = found = (function, takes_event(name, function))
    return found


def takes_event(name: str, function: Callable[..., Any]) -> bool:
    import inspect

    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise Failure(f"{name} is a generator function, so calling it would run nothing")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return True
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    if len(required) > 1 or any(p.kind is p.KEYWORD_ONLY for p in required):
        raise Failure(f"{name} wants {len(required)} arguments; a handler takes the event, or nothing")
    return any(p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL) for p in parameters)


def call(name: str, event: bytes) -> None:
    function, wants_event = load(name)
    result = function(json.loads(event)) if wants_event else function()
    if result is not None and hasattr(result, "__await__"):
        import asyncio

        asyncio.run(awaited(result))


async def awaited(result: Any) -> None:
    await result


def attempt(name: str, event: bytes, surroundings: Surroundings) -> tuple[bool, int | None, str]:
    """One call as (succeeded, exit code, reason)."""
    try:
        call(name, event)
        succeeded, code, reason = True, None, ""
    except SystemExit as left:
        succeeded, code, reason = judge_exit(left.code, surroundings)
    except Failure as failure:
        succeeded, code, reason = False, None, str(failure)
    except BaseException as error:
        succeeded, code, reason = False, None, one_line(error)
        show(error, surroundings)
    lost = flush(surroundings)
    if succeeded and lost:
        return False, None, lost
    return succeeded, code, reason


def judge_exit(code: object, surroundings: Surroundings) -> tuple[bool, int | None, str]:
    if code is None or code == 0:
        return True, 0, ""
    if isinstance(code, int):
        status = int(code) if abs(code) <= LARGEST_CODE else 255  # as an interpreter ends with it
        return False, status, f"exit code {status}"
    text = text_of(code)
    say(text, surroundings)
    return False, 1, f"exit: {first_line(text)}"


def one_line(error: BaseException) -> str:
    text = first_line(text_of(error))
    kind = type(error).__name__
    return (f"{kind}: {text}" if text else kind)[:MAX_REASON]


def text_of(thing: object) -> str:
    try:
        return str(thing)
    except BaseException:
        return "(its text could not be made)"


def first_line(text: str) -> str:
    return text.strip().split("\n", 1)[0][:MAX_REASON]


def show(error: BaseException, surroundings: Surroundings) -> None:
    """The traceback on standard error, from the handler's own first frame on, bounded."""
    try:
        import traceback

        place = error.__traceback__
        while place is not None and place.tb_frame.f_code.co_filename == __file__:
            place = place.tb_next
        text = "".join(traceback.format_exception(type(error), error, place, limit=-40))
        if len(text) > MAX_TRACEBACK:
            half = MAX_TRACEBACK // 2
            text = text[:half] + "\n  [cut]\n" + text[-half:]
        say(text.rstrip("\n"), surroundings)
    except BaseException:
        return  # the one-line reason says it too


def say(text: str, surroundings: Surroundings) -> None:
    try:
        surroundings.out.flush()
    except (OSError, ValueError):
        pass
    try:
        surroundings.err.write(text + "\n")
        surroundings.err.flush()
    except (OSError, ValueError):
        pass


def flush(surroundings: Surroundings) -> str | None:
    """Flush what was printed; a reason when some of it is lost."""
    for stream in (sys.stdout, sys.stderr, surroundings.out, surroundings.err):
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except AttributeError:
            pass  # a replacement that is not quite a stream
        except Exception as error:
            return f"output was lost: {one_line(error)}"
    return None


def preload(names: list[str]) -> list[tuple[str, str]]:
    """Import the modules of handlers ahead of their first run; what failed, as (handler, reason)."""
    failed = []
    for name in names:
        try:
            load(name)
        except Failure as failure:
            failed.append((name, str(failure)))
        except BaseException as error:
            failed.append((name, one_line(error)))
    return failed


def serve(channel: Channel, surroundings: Surroundings, *, is_single_use: bool) -> None:
    while True:
        frame = channel.read()
        if frame is None:
            return
        (sequence, name, variables), event = frame
        try:
            surroundings.enter(variables, event)
        except BaseException as error:
            channel.send(["end", sequence, False, None, one_line(error), False])
            continue
        succeeded, code, reason = attempt(name, event, surroundings)
        if os.getpid() != surroundings.pid:  # a fork of this process that came back from the handler
            os._exit(0 if succeeded else 1)
        if is_single_use:
            has_left_some = has_children()
            channel.send(["end", sequence, succeeded, code, reason, not has_left_some])
            if has_left_some:
                channel.read()  # until the worker has seen them: without their parent they may be nobody's
            return
        if surroundings.restore() and succeeded and code is None:
            channel.send_raw(b'["end",%d,true,null,"",true]' % sequence)
        else:
            channel.send(["end", sequence, succeeded, code, reason, surroundings.can_go_on])


def become_fork(arguments: list[str], channel: Channel, surroundings: Surroundings) -> tuple[Channel, list[Any]]:
    """Become a zygote. Comes back in its forks only: with a channel of their own, and what could not be imported."""
    names, is_early = arguments[5:], arguments[4] == "--fork-first"
    failed: list[Any] = []
    if not is_early:
        before = relay_zygote.descriptors()
        failed = preload(names)
        if os.getpid() != surroundings.pid:  # a fork of this process that came back from an import
            os._exit(0)
        reason = relay_zygote.obstacle(before, has_children())
        if reason:
            flush(surroundings)
            surroundings.restore()
            channel.send(["unshared", reason])
            os.set_inheritable(channel.socket.fileno(), True)
            again = [*arguments[:4], "--fork-first", *names]
            os.execv(sys.executable, [sys.executable, "-B", os.path.abspath(__file__), *again])  # noqa: S606
    # The groups of a nursery are told apart by the numbers of its children.
    siblings = arguments[3].partition(":")[2].rpartition(".")[0]

    def enter_own(number: int) -> None:
        enter(f"{siblings}.{number}" if siblings else "")

    flush(surroundings)
    surroundings.remember()
    channel = Channel(relay_zygote.Zygote(channel.socket, die_with, enter_own).serve(channel.send))
    surroundings.be_fork()
    return channel, preload(names) if is_early else failed


def leave() -> None:
    """End as an interpreter does, but for taking itself apart: in a fork that costs more than the run."""
    import atexit

    for last in (getattr(threading, "_shutdown", None), getattr(atexit, "_run_exitfuncs", None)):
        try:
            if last is not None:
                last()
        except BaseException:
            sys.excepthook(*sys.exc_info())
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            pass
    os._exit(0)


def main(arguments: list[str]) -> None:
    directory, fd, parent = arguments[0], int(arguments[1]), int(arguments[2])
    limit, _, group = arguments[3].partition(":")
    is_fork = arguments[4:5] in (["--fork"], ["--fork-first"])
    die_with(parent)
    enter(group)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in RESET_SIGNALS:
        if number not in (signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    channel = Channel(fd)
    sys.path[:] = [directory] + [place for place in sys.path if os.path.abspath(place or ".") != OWN]
    sys.argv = [directory]
    os.chdir(directory)
    surroundings = Surroundings(os.getcwd())
    limit_data(int(limit))
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if is_fork:
        channel, failed = become_fork(arguments, channel, surroundings)
    else:
        failed = preload(arguments[4:])
    if os.getpid() != surroundings.pid:
        os._exit(0)
    flush(surroundings)
    if not is_fork:
        surroundings.remember()
    channel.send(["ready", failed])
    try:
        serve(channel, surroundings, is_single_use=is_fork)
    except (BrokenPipeError, ConnectionError):
        pass  # the worker is gone
    if is_fork:
        leave()


if __name__ == "__main__":
    main(sys.argv[1:])
