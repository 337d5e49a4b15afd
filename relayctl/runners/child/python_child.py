"""The program inside a Python child: takes invocations from its channel, calls handlers, answers.

Standard library only, and nothing of the package it ships with, because it also runs under other interpreters than
the worker's (3.8 and later). It decides nothing about timeouts, retries or records.
Arguments: the app's directory, the channel's descriptor, the worker's pid, a data limit in bytes, handlers to preload.
"""

# Plain calls start faster and cost less per run than paths as objects.
# ruff: noqa: PTH100, PTH108, PTH109, PTH120, PTH123, PTH208
from __future__ import annotations

import importlib
import io
import json
import os
import signal
import socket
import struct
import sys
import threading
import time
from typing import Any, Callable  # noqa: UP035 - also for Python 3.8

PR_SET_PDEATHSIG = 1
HEAD = struct.Struct(">II")  # length of the head, length of the event
LENGTH = struct.Struct(">I")
MAX_REASON = 500
MAX_TRACEBACK = 16 * 1024
MAX_EXTRA_DESCRIPTORS = 256
DESCRIPTOR_CHECK_EVERY = 64
RESET_SIGNALS = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCHLD,
    signal.SIGPIPE,
    signal.SIGALRM,
    signal.SIGVTALRM,
    signal.SIGPROF,
    signal.SIGCONT,
    signal.SIGTSTP,
)
TIMERS = (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)


class Failure(Exception):
    """A run that failed for a reason that needs no traceback."""


def die_with(parent: int) -> None:
    """End this process when the worker ends: by the kernel where it can, else by looking once a second."""
    if sys.platform == "linux":
        try:
            import ctypes

            if ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) == 0:
                if os.getppid() != parent:  # it ended before the request was in force
                    os._exit(1)
                return
        except (ImportError, OSError, AttributeError):
            pass
    threading.Thread(target=watch, args=(parent,), daemon=True).start()


def watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1)
    os.killpg(0, signal.SIGKILL)


def limit_data(limit: int) -> None:
    if limit:
        import resource

        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))


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
        return json.loads(body[:head_size]), body[head_size:]

    def send(self, frame: list[Any]) -> None:
        data = json.dumps(frame).encode()
        self.socket.sendall(LENGTH.pack(len(data)) + data)


class Surroundings:
    """What a handler may change of its process and the next one must not see."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.pid = os.getpid()
        self.environ, self.environb = os.environ, os.environb
        self.base = dict(os.environb)
        self.applied = self.base
        for stream in (sys.stdout, sys.stderr):
            assert isinstance(stream, io.TextIOWrapper)
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
        self.out, self.err = sys.stdout, sys.stderr
        self.identities = (identity(1), identity(2))
        self.umask = os.umask(0o022)
        os.umask(self.umask)
        self.recursion = sys.getrecursionlimit()
        self.runs = 0
        self.remember()

    def remember(self) -> None:
        """Taken after the app's modules were imported: what they set up for good is theirs to keep."""
        self.handlers = [(number, signal.getsignal(number)) for number in RESET_SIGNALS]
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.locale = locale_now()
        self.descriptors = open_descriptors()

    def enter(self, variables: dict[str, str], event: bytes) -> None:
        wanted = dict(self.base)
        wanted.update((os.fsencode(name), os.fsencode(value)) for name, value in variables.items())
        self.adjust(wanted)
        self.present(event)

    def adjust(self, wanted: dict[bytes, bytes]) -> None:
        have, environ = self.applied, self.environb
        if have == wanted:
            return
        for name in have.keys() - wanted.keys():
            del environ[name]
        for name, value in wanted.items():
            if have.get(name) != value:
                environ[name] = value
        self.applied = wanted

    def present(self, event: bytes) -> None:
        """Make `event` standard input, as descriptor 0 and as sys.stdin."""
        fd = anonymous_file()
        try:
            view = memoryview(event)
            while view:
                view = view[os.write(fd, view) :]
            os.lseek(fd, 0, os.SEEK_SET)
            if fd != 0:
                os.dup2(fd, 0)
        finally:
            if fd != 0:
                os.close(fd)
        raw = io.FileIO(0, "r", closefd=False)
        sys.stdin = io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8")

    def restore(self) -> bool:
        """Put back what can be put back; whether this process may serve another run."""
        try:
            self.put_back()
            return self.is_clean()
        except Exception:
            return False

    def put_back(self) -> None:
        if os.environ is not self.environ or os.environb is not self.environb:
            os.environ, os.environb = self.environ, self.environb
        have = dict(self.environb)
        if have != self.applied:
            wanted, self.applied = self.applied, have
            self.adjust(wanted)
        os.umask(self.umask)
        if os.getcwd() != self.directory:
            os.chdir(self.directory)
        for timer in TIMERS:
            signal.setitimer(timer, 0)
        for number, handler in self.handlers:
            if signal.getsignal(number) is not handler and signal.getsignal(number) != handler:
                signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.mask)
        if sys.getrecursionlimit() != self.recursion:
            sys.setrecursionlimit(self.recursion)
        if locale_now() != self.locale:
            import locale

            locale.setlocale(locale.LC_ALL, self.locale or "C")
        sys.stdout, sys.stderr = self.out, self.err

    def is_clean(self) -> bool:
        self.runs += 1
        if self.out.closed or self.err.closed or (identity(1), identity(2)) != self.identities:
            return False
        for fd in (1, 2):
            os.set_blocking(fd, True)
        if threading.active_count() > 1 and has_stray_threads():
            return False
        if self.runs % DESCRIPTOR_CHECK_EVERY == 0 and open_descriptors() > self.descriptors + MAX_EXTRA_DESCRIPTORS:
            return False
        return not has_children()


def identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return (found.st_dev, found.st_ino)


def anonymous_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("event", os.MFD_CLOEXEC)
    import tempfile

    fd, path = tempfile.mkstemp()
    os.unlink(path)
    return fd


def locale_now() -> str | None:
    """The process's locale as the C library has it, or None while nothing has ever set one."""
    module: Any = sys.modules.get("_locale")
    return str(module.setlocale(module.LC_ALL, None)) if module is not None else None


def open_descriptors() -> int:
    try:
        return len(os.listdir("/dev/fd"))
    except OSError:
        return 0


def has_stray_threads() -> bool:
    own = threading.main_thread()
    return any(thread is not own and not thread.daemon for thread in threading.enumerate())


def has_children() -> bool:
    """Whether any child process is left, running or not; nothing is reaped."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


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
        return False, int(code), f"exit code {int(code)}"
    say(str(code), surroundings)
    return False, 1, f"exit: {first_line(str(code))}"


def one_line(error: BaseException) -> str:
    try:
        text = first_line(str(error))
    except BaseException:
        text = "(its text could not be made)"
    kind = type(error).__name__
    return (f"{kind}: {text}" if text else kind)[:MAX_REASON]


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


def serve(channel: Channel, surroundings: Surroundings) -> None:
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
        channel.send(["end", sequence, succeeded, code, reason, surroundings.restore()])


def main(arguments: list[str]) -> None:
    directory, fd, parent, limit = arguments[0], int(arguments[1]), int(arguments[2]), int(arguments[3])
    die_with(parent)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in RESET_SIGNALS:
        if number not in (signal.SIGINT, signal.SIGPIPE):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    channel = Channel(fd)
    own = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [directory] + [place for place in sys.path if os.path.abspath(place or ".") != own]
    sys.argv = [directory]
    os.chdir(directory)
    surroundings = Surroundings(os.getcwd())
    limit_data(limit)
    sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    failed = preload(arguments[4:])
    if os.getpid() != surroundings.pid:
        os._exit(0)
    flush(surroundings)
    surroundings.remember()
    channel.send(["ready", failed])
    try:
        serve(channel, surroundings)
    except (BrokenPipeError, ConnectionError):
        pass  # the worker is gone


if __name__ == "__main__":
    main(sys.argv[1:])
