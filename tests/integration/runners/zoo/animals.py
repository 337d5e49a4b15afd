"""Handlers that behave in every way handlers behave."""

import asyncio
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time

calls = 0


def noop(event):
    pass


def count(event):
    global calls  # noqa: PLW0603
    calls += 1
    print(calls)


def echo(event):
    print(json.dumps(event))


def echo_stdin():
    print(sys.stdin.read())


def echo_descriptor():
    out = b""
    while chunk := os.read(0, 65536):
        out += chunk
    print(len(out))


def echo_by_child(event):
    subprocess.run(["cat"], check=True)


def read_slowly():
    total = 0
    while chunk := sys.stdin.read(4096):
        total += len(chunk)
    print(total)


def close_stdin(event):
    os.close(0)
    print("went on")


async def coroutine(event):
    await asyncio.sleep(0)
    print("awaited", event["n"])


def optional(event=None):
    print("event" if event else "none")


def two(a, b):
    pass


def generator(event):
    yield 1


number = 5


def raises(event):
    raise ValueError("no such customer\nsecond line")


class Nasty(Exception):
    def __str__(self):
        raise RuntimeError("no text")


def raises_nasty(event):
    raise Nasty


def recursion(event):
    return recursion(event)


def interrupt(event):
    raise KeyboardInterrupt


def leave(event):
    sys.exit(event["code"])


def vanish(event):
    print("before")
    os._exit(event["code"])


def crash(event):
    ctypes.string_at(0)


def kill_itself(event):
    os.kill(os.getpid(), signal.SIGKILL)


def kill_its_group(event):
    os.killpg(0, signal.SIGKILL)


def become(event):
    os.execvp("sleep", ["sleep", "100"])


def close_everything(event):
    os.closerange(3, 1000)
    time.sleep(100)


def channel_descriptors():
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                found.append(int(name))
        except OSError:
            pass
    return found


def garbage(event):
    for fd in channel_descriptors():
        os.write(fd, b"\0\0\0\x05hello")
    time.sleep(100)


def huge_frame(event):
    for fd in channel_descriptors():
        os.write(fd, b"\xff" * 100)
    time.sleep(100)


def close_stdout(event):
    os.close(1)


def print_after_close(event):
    os.close(1)
    print("lost")


def replace_stdout(event):
    sys.stdout = open(os.devnull, "w")  # noqa: SIM115


def close_stdout_object(event):
    sys.stdout.close()


def binary(event):
    os.write(1, b"\xff\xfe\x00 \x1b[31mred\x1b[0m \x1b]0;title\x07 \xf0\x9f\x90\x8d \r\n")


def giant_line(event):
    sys.stdout.write("x" * 10_000_000 + "\n")
    for n in range(5):
        print("line", n)
    sys.exit(3)


def flood(event):
    block = b"y" * 999 + b"\n"
    both = [threading.Thread(target=pour, args=(fd, block * 50, 1000)) for fd in (1, 2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    print("the end")


def pour(fd, block, times):
    for _ in range(times):
        view = memoryview(block)
        while view:
            view = view[os.write(fd, view) :]


def blank_lines(event):
    os.write(1, b"\n" * 60_000)


def half_a_line(event):
    sys.stdout.write("no newline")


def sleep(event):
    time.sleep(event.get("s", 100))


def stubborn(event):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("here", flush=True)
    time.sleep(event.get("s", 100))


def polite(event):
    def clean_up(*_):
        print("cleaned up", flush=True)
        sys.exit(0)

    signal.signal(signal.SIGTERM, clean_up)
    print("here", flush=True)
    time.sleep(100)


def finishes_when_asked(event):
    asked = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: asked.set())
    print("here", flush=True)
    while not asked.is_set():
        time.sleep(0.01)


def stopped(event):
    os.kill(os.getpid(), signal.SIGSTOP)


def dies_slowly(event):
    def linger(*_):
        time.sleep(event["linger"])
        os._exit(1)

    signal.signal(signal.SIGTERM, linger)
    print("start", time.monotonic(), flush=True)
    time.sleep(100)


IGNORING = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(300)"


def breed(event):
    """Three children, one of them out of reach of a signal to the group."""
    pids = [
        subprocess.Popen([sys.executable, "-S", "-c", IGNORING], start_new_session=n == 0).pid
        for n in range(event.get("n", 3))
    ]
    print(*pids, flush=True)
    if event.get("wait", True):
        time.sleep(100)


def disown(event):
    """Two processes that have neither this one's session nor any variable."""
    command = "sleep 300 & echo $$ $!; exec sleep 300"
    shell = subprocess.Popen(["/bin/sh", "-c", command], env={}, start_new_session=True, stdout=subprocess.PIPE)
    print(shell.stdout.readline().decode(), flush=True)
    time.sleep(event["s"])


def detach(event):
    """A daemon by the book: two forks and a session of its own; it keeps the pipes."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write, str(os.getpid()).encode())
            time.sleep(300)
        os._exit(0)
    os.wait()
    print(os.read(read, 100).decode())
    if event.get("fail"):
        raise RuntimeError("after detaching")


def fork_and_return(event):
    pid = os.fork()
    print("parent" if pid else "child")
    if pid:
        os.waitpid(pid, 0)


def leave_thread(event):
    threading.Thread(target=time.sleep, args=(event["s"],)).start()
    print(os.getpid())


def close_channel_later(event):
    def close():
        time.sleep(event["after"])
        for fd in channel_descriptors():
            os.write(fd, b"\0\0\0\x02[]")
            os.close(fd)

    threading.Thread(target=close, daemon=True).start()


def leave_daemon_thread(event):
    threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
    print(os.getpid())


def mess_up(event):
    import locale

    os.chdir("/")
    os.environ["LEFT"] = "behind"
    os.environ.pop("LANG", None)
    os.environ["HOME"] = "/elsewhere"
    os.umask(0o077)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    signal.setitimer(signal.ITIMER_REAL, 1000)
    sys.setrecursionlimit(5000)
    locale.setlocale(locale.LC_ALL, "C")
    os.environ = {}  # noqa: B003
    sys.stdin = None
    sys.stdout = None
    os.set_blocking(1, False)


def lower_limits(event):
    for number in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU):
        resource.setrlimit(number, (20, resource.getrlimit(number)[1]))


def give_up(event):
    """Rights that only some processes can take again."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (30, 30))
    os.nice(3)
    if os.geteuid() == 0 and event.get("owner"):
        os.seteuid(65534)


def rights(event):
    limits = [resource.getrlimit(n) for n in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_CPU)]
    print(limits, os.getpriority(os.PRIO_PROCESS, 0), os.geteuid())


class Unspeakable:
    def __str__(self):
        raise KeyboardInterrupt


def leave_unspeakably(event):
    sys.exit(Unspeakable())


def leave_from_thread(event):
    thread = threading.Thread(target=sys.exit, args=(3,))
    thread.start()
    thread.join()


def look_around(event):
    umask = os.umask(0)
    os.umask(umask)
    print(
        json.dumps(
            {
                "cwd": os.getcwd(),
                "environ": dict(os.environ),
                "env": sorted(
                    subprocess.run(["env", "-0"], capture_output=True, text=True, check=True).stdout.split("\0")
                ),
                "umask": umask,
                "term": signal.getsignal(signal.SIGTERM) is signal.SIG_DFL,
                "mask": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, ())),
                "timer": signal.getitimer(signal.ITIMER_REAL),
                "recursion": sys.getrecursionlimit(),
                "pid": os.getpid(),
                "group": os.getpgrp(),
                "session": os.getsid(0),
                "argv": sys.argv,
                "path0": sys.path[0],
                "blocking": os.get_blocking(1),
            }
        )
    )


def huge_value(event):
    return "x" * 50_000_000


def allocate(event):
    bytearray(event["bytes"])


def tell_secret(event):
    secret = os.environ["TOKEN"]
    print("it is", secret)
    half = len(secret) // 2
    os.write(1, secret[:half].encode())
    os.write(2, b"between\n")
    time.sleep(0.05)
    os.write(1, secret[half:].encode() + b"\n")
    raise RuntimeError("refused " + secret)


def pid(event):
    print(os.getpid())


def print_much(event):
    block = b"y" * 1_000_000
    for _ in range(event["mb"]):
        pour(1, block, 1)


def kill_parent(event):
    print("here", flush=True)
    os.kill(os.getppid(), signal.SIGKILL)
    time.sleep(100)
