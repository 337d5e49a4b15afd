"""What a handler may change of its process and the next one must not see: given, put back, or given up.

Standard library only, and nothing of the package it ships with; Python 3.8 and later.
"""

# Plain calls start faster and cost less per run than paths as objects.
# ruff: noqa: PTH108, PTH109, PTH208
from __future__ import annotations

import io
import os
import resource
import signal
import sys
import threading
from typing import Any

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
IDLE = (0.0, 0.0)
LIMITS = (
    resource.RLIMIT_AS,
    resource.RLIMIT_CORE,
    resource.RLIMIT_CPU,
    resource.RLIMIT_DATA,
    resource.RLIMIT_FSIZE,
    resource.RLIMIT_NOFILE,
    resource.RLIMIT_NPROC,
    resource.RLIMIT_STACK,
)


class Standard:
    """Standard input as the handler finds it: a nameless file with the event, as descriptor 0 and as sys.stdin.

    The file is used again as long as nothing else can hold it, since making one costs more than a run.
    """

    def __init__(self) -> None:
        self.identity = (-1, -1)
        self.size = 0
        self.children = children_waited_for()
        self.reader: io.BufferedReader | None = None
        self.stream: io.TextIOWrapper | None = None

    def present(self, event: bytes) -> None:
        if not self.rewrite(event):
            self.make(event)
        self.size = len(event)
        if not self.is_unread():
            self.reader = io.BufferedReader(io.FileIO(0, "r", closefd=False))
            self.stream = io.TextIOWrapper(self.reader, encoding="utf-8")
        sys.stdin = self.stream

    def is_unread(self) -> bool:
        try:
            return (
                self.stream is not None
                and not self.stream.closed
                and self.reader is not None
                and self.reader.tell() == 0
            )
        except (ValueError, OSError):  # detached, or moved about below its buffer
            return False

    def rewrite(self, event: bytes) -> bool:
        children = children_waited_for()
        if children != self.children:  # what a child has left running may hold the old file
            self.children = children
            return False
        try:
            if identity(0) != self.identity:
                return False
            if os.lseek(0, 0, os.SEEK_CUR) != 0:
                self.stream = None  # it has been read, so its buffer is of no use any more
                os.lseek(0, 0, os.SEEK_SET)
            if len(event) < self.size:
                os.ftruncate(0, len(event))
            return os.pwrite(0, event, 0) == len(event)
        except OSError:
            return False

    def make(self, event: bytes) -> None:
        self.stream = None
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
        self.identity = identity(0)


class Environment:
    """The variables of the process: a base that stays, and those of one run."""

    def __init__(self) -> None:
        self.environ, self.environb = os.environ, os.environb
        self.base = dict(os.environ)
        self.variables: dict[str, str] = {}
        self.applied = self.snapshot()

    def snapshot(self) -> dict[bytes, bytes]:
        # Reading the mapping's own dictionary is ten times faster than asking for each name.
        data = getattr(self.environ, "_data", None)
        return dict(data) if data is not None else dict(self.environb)

    def enter(self, variables: dict[str, str]) -> None:
        last, environ = self.variables, self.environ
        for name, value in variables.items():
            if last.get(name) != value:
                environ[name] = value
        for name in last.keys() - variables.keys():
            if name in self.base:
                environ[name] = self.base[name]
            else:
                del environ[name]
        self.variables = variables
        self.applied = self.snapshot()

    def put_back(self) -> None:
        if os.environ is not self.environ or os.environb is not self.environb:
            os.environ, os.environb = self.environ, self.environb
        have = self.snapshot()
        if have == self.applied:
            return
        for name in have.keys() - self.applied.keys():
            del self.environb[name]
        for name, value in self.applied.items():
            if have.get(name) != value:
                self.environb[name] = value


class Standing:
    """What the kernel grants this process: limits, priority, owner. Often there is no way back, and then it may go."""

    def __init__(self) -> None:
        self.limits = limits()
        self.priority = priority()
        self.owner = owner()

    def put_back(self) -> None:
        """Raises OSError or ValueError for what this process may not do."""
        if limits() != self.limits:
            for number, limit in self.limits:
                resource.setrlimit(number, limit)
        if priority() != self.priority:
            os.setpriority(os.PRIO_PROCESS, 0, self.priority)
        if owner() != self.owner:
            raise PermissionError


class Surroundings:
    """What a handler may change of its process and the next one must not see."""

    def __init__(self, directory: str) -> None:
        self.directory = directory
        self.pid = os.getpid()
        self.environment = Environment()
        self.stdin = Standard()
        for stream in (sys.stdout, sys.stderr):
            assert isinstance(stream, io.TextIOWrapper)
            # By lines: no whole line is lost in a crash, and one costs one write, where unbuffered printing takes two.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace", line_buffering=True)
        self.out, self.err = sys.stdout, sys.stderr
        self.identities = (identity(1), identity(2))
        self.umask = os.umask(0o022)
        os.umask(self.umask)
        self.recursion = sys.getrecursionlimit()
        self.runs = 0
        self.can_go_on = True
        self.remember()

    def remember(self) -> None:
        """Taken after the app's modules were imported: what they set up for good is theirs to keep."""
        self.standing = Standing()
        self.handlers = [(number, disposition(number)) for number in NUMBERS]
        self.mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
        self.locale = locale_now()
        self.descriptors = open_descriptors()

    def be_fork(self) -> None:
        """This process is a fork of the one that they were taken in, and has one run: nothing will be put back."""
        self.pid = os.getpid()

    def enter(self, variables: dict[str, str], event: bytes) -> None:
        self.environment.enter(variables)
        self.stdin.present(event)

    def restore(self) -> bool:
        """Put back what can be put back; whether this process may serve another run."""
        try:
            self.put_back()
            self.can_go_on = self.is_clean()
        except Exception:
            self.can_go_on = False
        return self.can_go_on

    def put_back(self) -> None:
        self.environment.put_back()
        os.umask(self.umask)
        if os.getcwd() != self.directory:
            os.chdir(self.directory)
        for timer in TIMERS:
            if signal.getitimer(timer) != IDLE:
                signal.setitimer(timer, 0)
        for number, handler in self.handlers:
            if disposition(number) != handler:
                signal.signal(number, handler)
        signal.set_wakeup_fd(-1)
        set_mask(SIG_SETMASK, self.mask)
        if sys.getrecursionlimit() != self.recursion:
            sys.setrecursionlimit(self.recursion)
        if locale_now() != self.locale:
            import locale

            locale.setlocale(locale.LC_ALL, self.locale or "C")
        sys.stdout, sys.stderr = self.out, self.err
        self.standing.put_back()  # last, since it may be refused

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


plain: Any = sys.modules.get("_signal", signal)
"""The C functions where they can be had: those of `signal` make an enum of every answer."""
disposition, set_mask = plain.getsignal, plain.pthread_sigmask
SIG_SETMASK, NUMBERS = int(signal.SIG_SETMASK), tuple(map(int, RESET_SIGNALS))


def children_waited_for() -> tuple[int, int]:
    """Changes whenever a child process has been waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (usage.ru_minflt, usage.ru_maxrss)


def limits() -> list[tuple[int, tuple[int, int]]]:
    return [(number, resource.getrlimit(number)) for number in LIMITS]


def priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, 0)


def owner() -> tuple[int, int]:
    return (os.geteuid(), os.getegid())


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
    if not hasattr(os, "waitid"):
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True
