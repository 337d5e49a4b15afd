"""Handlers for children that are forked: what they share with each other, and what they must not."""

import atexit
import os
import random
import time

imported_by = os.getpid()
drawn = random.random()


def family(event):
    print(os.getpid(), os.getppid(), imported_by, os.getsid(0), os.environ["RELAY_CHILD"])


def draw(event):
    print(drawn, random.random())


def kill_zygote(event):
    print("here", flush=True)
    os.kill(os.getppid(), 9)
    time.sleep(100)


def at_exit(event):
    atexit.register(lambda: print("at the end", flush=True))
    print("before")


def detach_without_a_name(event):
    """A daemon that never becomes another program, so that its environment is its parent's."""
    read, write = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open(f"/proc/{os.getpid()}/environ") as file:
                mark = next(entry for entry in file.read().split("\0") if entry.startswith("RELAY_CHILD="))
            os.write(write, f"{os.getpid()} {mark}".encode())
            time.sleep(300)
        os._exit(0)
    os.wait()
    print(os.read(read, 200).decode(), os.environ["RELAY_CHILD"], flush=True)
    if event.get("fail"):
        raise RuntimeError("after detaching")
