"""One child from its start to its last byte: which state it is in, which run it has, and how that run ended.

Driven by the pool's selector and alarms; it never waits. It knows nothing of other children, apps or limits.
"""

from __future__ import annotations

import math
import selectors
import signal
from collections.abc import Callable, Mapping
from enum import Enum, auto
from typing import Any, Protocol

from relayctl.runners.build import Build
from relayctl.runners.channel import Channel, ChannelBroken
from relayctl.runners.invocation import Ended, Outcome, Run, Telling
from relayctl.runners.limits import explained
from relayctl.runners.output import NO_SECRETS, NO_TAIL, Masker, Output, harmless
from relayctl.runners.process import Exit, Process
from relayctl.runners.verdict import Verdict, of_answer, of_exit, shown_seconds

READ_SIZE = 64 * 1024
DRAIN_S = 0.3
"""How long the pipes of a child that has ended are read; whoever still holds them then has had his time."""
SWEEP_S = 1.0
"""How long a slot waits for descendants that were killed to be gone."""
RECHECK_S = 0.01
LAST_WORDS_S = 0.1
"""How long a child whose channel has closed may take to show how it ended, before it is killed."""
START_S = 60.0


class State(Enum):
    """STARTING and IDLE have no run, BUSY has one, LEAVING was told to go, DRAINING has ended and is being read out."""

    STARTING = auto()
    IDLE = auto()
    BUSY = auto()
    LEAVING = auto()
    DRAINING = auto()
    GONE = auto()


class Keeper(Protocol):
    """What a child tells the pool."""

    selector: selectors.BaseSelector
    grace_s: float

    def monotonic(self) -> float: ...
    def expect(self, alarm: float) -> None: ...
    def show(self, run: Run, stream: str, line: str) -> None: ...
    def on_ready(self, child: Child, failed: list[Any]) -> None: ...
    def on_ended(self, child: Child, ended: Ended) -> None: ...
    def on_idle(self, child: Child) -> None: ...
    def on_gone(self, child: Child) -> None: ...
    def has_orphans(self, child: Child) -> bool: ...
    def note_brood(self, child: Child) -> None: ...


class Child:
    """`number` is unique in the pool. `alarm` is the monotonic instant at which `wake` wants to be called."""

    __slots__ = (
        "_answer",
        "_is_killed",
        "_keeper",
        "_kill_at",
        "_lost",
        "_masker",
        "_output",
        "_sequence",
        "_started_at",
        "_until",
        "_verdict",
        "_watched",
        "_writes",
        "alarm",
        "build",
        "channel",
        "is_retired",
        "is_single_use",
        "last_words",
        "number",
        "process",
        "run",
        "state",
        "was_ready",
    )

    def __init__(self, keeper: Keeper, number: int, build: Build, process: Process, *, is_single_use: bool) -> None:
        self._keeper = keeper
        self.number = number
        self.build = build
        self.process = process
        self.channel = Channel(process.channel)
        self.is_single_use = is_single_use
        self.is_retired = False
        self.run: Run | None = None
        self.state = State.STARTING
        self.last_words = b""
        self._sequence = 0
        self._started_at = 0.0
        self._output: Output | None = None
        self._masker = NO_SECRETS
        self._verdict: Verdict | None = None
        self._answer: Verdict | None = None
        self._lost = ""
        self._is_killed = False
        self.was_ready = False
        self._kill_at = math.inf
        self._until = math.inf
        self._writes = False
        self._watched: dict[int, int] = {}
        self._watch(process.channel.fileno(), self._on_channel)
        self._watch(process.outputs[0], self._on_stdout)
        self._watch(process.outputs[1], self._on_stderr)
        if process.exit_fd is not None:
            self._watch(process.exit_fd, self._on_exit)
        self.alarm = math.inf
        self._set_alarm(keeper.monotonic() + START_S)

    # Runs

    def start(self, run: Run, variables: Mapping[str, str], masker: Masker, now: float) -> bool:
        """Hand `run` to an idle child; False when the child turns out to be dead, and the run is still the caller's."""
        if not self.channel.is_open or not self.channel.send(self._sequence + 1, run.handler, variables, run.stdin):
            return False
        self._sequence += 1
        self._begin(run, masker, now)
        if self.channel.has_backlog:
            self._want_writes(True)
        return True

    def start_as_program(self, run: Run, masker: Masker, now: float) -> None:
        """The process itself is the run."""
        self._begin(run, masker, now)

    def _begin(self, run: Run, masker: Masker, now: float) -> None:
        self.run = run
        self.state = State.BUSY
        if self.process.group is not None:
            self.process.group.begin()
        self._started_at = now
        self._masker = masker
        self._set_alarm(now + run.timeout_s)

    def interrupt(self, reason: str, grace_s: float) -> None:
        """End the run that is under way, politely where there is a grace; it ends as interrupted."""
        self._cut(Verdict(Outcome.INTERRUPTED, reason), grace_s)

    def leave(self, grace_s: float) -> None:
        """Tell a child without a run to go."""
        if self.state in (State.STARTING, State.IDLE):
            self._dismiss(grace_s)

    def kill(self) -> None:
        """Kill the group now. The run ends as what was decided before, or as interrupted."""
        if self.run is not None and self._verdict is None:
            self._verdict = Verdict(Outcome.INTERRUPTED, "the worker stopped")
        self.process.signal_group(signal.SIGKILL)

    def _cut(self, verdict: Verdict, grace_s: float) -> None:
        if self._verdict is None:
            self._verdict = verdict
        self._keeper.note_brood(self)
        self._kill_at = min(self._kill_at, self._keeper.monotonic() + grace_s)
        self.process.signal_group(signal.SIGTERM if grace_s > 0 else signal.SIGKILL)
        if self.state is not State.DRAINING:
            self._set_alarm(self._kill_at)

    def _dismiss(self, grace_s: float) -> None:
        self.state = State.LEAVING
        self.channel.say_no_more()
        self._kill_at = min(self._kill_at, self._keeper.monotonic() + grace_s)
        self._set_alarm(self._kill_at)

    # Time

    def wake(self, now: float) -> None:
        """The alarm has come."""
        self.alarm = math.inf
        if self.state is State.DRAINING:
            self._finish_if_drained(now)
        elif now >= self._kill_at:
            self._is_killed = True
            self.process.signal_group(signal.SIGKILL)
            self._set_alarm(now + 1.0)
        elif self.state is State.BUSY and self.run is not None:
            limit = f"timed out after {shown_seconds(self.run.timeout_s)}"
            reason = f"{limit} ({self.run.timeout_from})" if self.run.timeout_from else limit
            self._cut(Verdict(Outcome.TIMEOUT, reason), self._keeper.grace_s)
        elif self.state is State.STARTING:
            self.last_words += b"\nnot ready after %d s" % START_S
            self.process.signal_group(signal.SIGKILL)

    def poll(self) -> None:
        """Look whether it has ended, where no descriptor says so."""
        if self.state not in (State.DRAINING, State.GONE) and self.process.has_exited():
            self._on_exit(0)

    def _set_alarm(self, at: float) -> None:
        self.alarm = at
        self._keeper.expect(at)

    # Output

    def _on_stdout(self, _mask: int) -> None:
        self._read_output(0, READ_SIZE)

    def _on_stderr(self, _mask: int) -> None:
        self._read_output(1, READ_SIZE)

    def _read_output(self, which: int, size: int) -> int:
        """Read once; the number of bytes that came."""
        fd = self.process.outputs[which] if self.process.outputs else -1
        if fd not in self._watched:
            return 0
        data = self.process.read(which, size)
        if data is None:
            return 0
        if not data:
            self._unwatch(fd)
            if self._is_read_out():  # and not before, since looking for orphans costs more than the rest of an end
                self._finish_if_drained(self._keeper.monotonic())
            return 0
        run = self.run
        if run is None:
            # Of nobody: a start, or something that a handler left running.
            self.last_words = (self.last_words + data)[-2048:]
            return len(data)
        if self._output is None:
            self._output = Output(self._masker, self._shower(run))
        self._output.feed(which, data)
        return len(data)

    def telling(self, known: Mapping[str, int], since: float) -> Telling | None:
        """What a run that began by `since` has printed, unless the number of bytes `known` of it is still right."""
        run, output = self.run, self._output
        if run is None or self._started_at > since:
            return None
        printed = 0 if output is None else output.total
        if printed == known.get(run.key):
            return None
        return Telling(run.key, self._started_at, printed, NO_TAIL if output is None else output.end())

    def _shower(self, run: Run) -> Callable[[str, str], None]:
        show = self._keeper.show
        return lambda stream, line: show(run, stream, line)

    def _drain(self) -> None:
        """Take what is in the pipes now: all that was written before the answer, never what is written meanwhile."""
        for which in self.process.unread():
            left = self.process.pipe_size
            while left > 0 and (got := self._read_output(which, min(left, READ_SIZE))):
                left -= got

    # The channel

    def _on_channel(self, mask: int) -> None:
        if mask & selectors.EVENT_WRITE:
            self.channel.flush()
            if not self.channel.has_backlog:
                self._want_writes(False)
        if mask & selectors.EVENT_READ:
            self._receive()

    def _receive(self) -> None:
        if self.state in (State.DRAINING, State.GONE) or not self.channel.is_open:
            return
        try:
            for frame in self.channel.receive():
                self._take(frame)
        except ChannelBroken:
            self._lose_channel("the handler wrote to the runner's own channel", 0.0)
            return
        if not self.channel.is_open:
            self._unwatch(self.process.channel.fileno())
            if self.state is not State.LEAVING and (self.run is None or self._sequence):
                self._lose_channel("the handler closed the runner's own channel, or replaced its process", LAST_WORDS_S)

    def _lose_channel(self, reason: str, patience_s: float) -> None:
        """Nothing more can be learned from this child. One that is exiting anyway is given the time to show how."""
        self._unwatch(self.process.channel.fileno())
        if self._verdict is None and not self._lost:
            self._lost = reason
            self._kill_at = min(self._kill_at, self._keeper.monotonic() + patience_s)
            self._set_alarm(self._kill_at)

    def _take(self, frame: list[Any]) -> None:
        if frame[0] == "end" and len(frame) == 6:
            _, sequence, succeeded, code, reason, is_reusable = frame
            if sequence != self._sequence or self.run is None or not isinstance(reason, str):
                raise ChannelBroken
            if not (code is None or isinstance(code, int)):
                raise ChannelBroken
            self._answered(of_answer(succeeded is True, code, reason), is_reusable is True)
        elif frame[0] == "born" and len(frame) == 2 and not self.was_ready and self.process.pid in (0, frame[1]):
            self.process.be_born(frame[1])
        elif frame[0] == "ready" and len(frame) == 2 and isinstance(frame[1], list) and not self.was_ready:
            if self.state is State.STARTING:
                self._become_idle()
                self._keeper.on_ready(self, frame[1])
        else:
            raise ChannelBroken

    def _answered(self, answer: Verdict, is_reusable: bool) -> None:
        stays = is_reusable and not self.is_single_use and not self.is_retired
        if stays and self._verdict is None and self._answer is None and self._sequence:
            self._drain()
            ended = self._concluded(answer)
            self._become_idle()
            self._keeper.on_ended(self, ended)
            self._keeper.on_idle(self)
            return
        self._answer = answer
        if not is_reusable:
            self._keeper.note_brood(self)
        self._dismiss(self._keeper.grace_s)

    def _become_idle(self) -> None:
        self.state = State.IDLE
        self.last_words = b""
        self.was_ready = True

    def rest(self, until: float) -> None:
        """Stay idle until then at most."""
        self._set_alarm(until)

    # The end

    def _on_exit(self, _mask: int) -> None:
        if self.state in (State.DRAINING, State.GONE):
            return
        self._receive()
        self.process.signal_group(signal.SIGKILL)
        if self.process.exit_fd is not None:
            self._unwatch(self.process.exit_fd)
        self._unwatch(self.process.channel.fileno())
        status = self.process.reap()
        self.state = State.DRAINING
        if self.run is not None:
            self._verdict = self._judge(status)
        now = self._keeper.monotonic()
        self._until = now + DRAIN_S
        self._drain()
        self._finish_if_drained(now)

    def _judge(self, status: Exit) -> Verdict:
        decided, answer = self._verdict, self._answer
        if decided is not None:
            # A handler that was asked to stop and still came back by itself has done its work.
            is_done = answer is not None and answer.outcome is Outcome.SUCCEEDED and answer.exit_code is None
            return answer if answer and is_done and decided.outcome is Outcome.INTERRUPTED else decided
        if answer is not None:
            return answer
        if self._lost and self._is_killed and status.signal == signal.SIGKILL:
            return Verdict(Outcome.FAILED, self._lost)
        return of_exit(status, is_program=self._sequence == 0)

    def _finish_if_drained(self, now: float) -> None:
        if self.state is not State.DRAINING:
            return
        has_orphans = self._keeper.has_orphans(self)
        if (self._is_read_out() or now >= self._until) and (not has_orphans or now >= self._until + SWEEP_S):
            self._finish()
        elif self.alarm > now + RECHECK_S:
            self._set_alarm(now + RECHECK_S)

    def _is_read_out(self) -> bool:
        return not any(fd in self._watched for fd in self.process.outputs)

    def _finish(self) -> None:
        self.state = State.GONE
        self._drain()
        ended = self._concluded(self._verdict) if self._verdict is not None and self.run is not None else None
        for fd in list(self._watched):
            self._unwatch(fd)
        self.process.close()
        self.alarm = math.inf
        if ended is not None:
            self._keeper.on_ended(self, ended)
        self._keeper.on_gone(self)

    def _concluded(self, verdict: Verdict) -> Ended:
        run, output = self.run, self._output
        assert run is not None
        verdict = explained(verdict, self.process.group, self.build.resources)
        if output is not None:
            output.finish()
            self._output = None
        ended = Ended(
            run=run,
            outcome=verdict.outcome,
            reason=self._shown(verdict.reason),
            started_at=self._started_at,
            finished_at=self._keeper.monotonic(),
            exit_code=verdict.exit_code,
            signal=verdict.signal,
            output=output.end() if output is not None else NO_TAIL,
            output_bytes=output.total if output is not None else 0,
            unshown_bytes=output.unshown if output is not None else 0,
        )
        self.run = None
        self._masker = NO_SECRETS
        self._verdict = None
        return ended

    def _shown(self, reason: str) -> str:
        return harmless(self._masker.masked(reason.encode("utf-8", "backslashreplace"))) if reason else ""

    # Descriptors

    def _watch(self, fd: int, callback: Callable[[int], None]) -> None:
        self._keeper.selector.register(fd, selectors.EVENT_READ, callback)
        self._watched[fd] = fd

    def _unwatch(self, fd: int) -> None:
        if self._watched.pop(fd, None) is not None:
            self._keeper.selector.unregister(fd)

    def _want_writes(self, wanted: bool) -> None:
        fd = self.process.channel.fileno()
        if wanted is not self._writes and fd in self._watched:
            self._writes = wanted
            mask = selectors.EVENT_READ | (selectors.EVENT_WRITE if wanted else 0)
            self._keeper.selector.modify(fd, mask, self._on_channel)
