"""A worker process over its link alone: tokens, cancelling, draining, and its last words."""

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from engine.config import Config, KvConfig, RecordConfig
from engine.core import StepPlan, StepResult
from engine.link import Frames, frame
from engine.messages import Cancel, Drain, Failed, FromWorker, Ready, Sampling, StepOutput, Submit
from engine.worker import Parts, WorkerOptions, assemble, main
from recorder.errors import UserError
from tests.engine.served import DEADLINE_S, ROOT, environment

CONFIG = Config(kv=KvConfig(num_blocks=64), record=RecordConfig(enabled=False))


def options(descriptor: int, model: str = "tiny") -> WorkerOptions:
    return WorkerOptions(descriptor, 0, model, "dummy", "cpu", CONFIG, None)


def submit(rid: int, prompt: int = 4, max_tokens: int = 3) -> Submit:
    return Submit(rid, 1, [1] * prompt, max_tokens, Sampling(ignore_eos=True), arrival=0)


@dataclass
class Front:
    """The other end of a worker's link."""

    sock: socket.socket
    frames: Frames[FromWorker] = field(default_factory=lambda: Frames(msgspec.msgpack.Decoder(FromWorker)))
    messages: list[FromWorker] = field(default_factory=list)

    def read(self) -> FromWorker:
        while not self.messages:
            data = self.sock.recv(1 << 16)
            assert data, "the worker has closed the link"
            self.messages += self.frames.feed(data)
        return self.messages.pop(0)

    def steps_until_finished(self, *rids: int) -> list[StepOutput]:
        """All step outputs up to the end of these requests."""
        open_rids, steps = set(rids), []
        while open_rids:
            step = self.read()
            assert isinstance(step, StepOutput)
            steps.append(step)
            open_rids -= {end.rid for end in step.finished} | {refused.rid for refused in step.refused}
        return steps


@contextmanager
def worker(model: str = "tiny") -> Iterator[tuple[Front, "subprocess.Popen[bytes]"]]:
    ours, theirs = socket.socketpair()
    ours.settimeout(DEADLINE_S)
    line = [sys.executable, "-m", "engine.worker", *options(theirs.fileno(), model).arguments()]
    with theirs:
        process = subprocess.Popen(line, pass_fds=[theirs.fileno()], cwd=ROOT, env=environment())
    try:
        yield Front(ours), process
    finally:
        ours.close()
        process.wait(DEADLINE_S)


def test_the_command_line_reads_back_what_it_wrote(tmp_path: Path) -> None:
    for run in (None, tmp_path):
        said = WorkerOptions(3, 1, "a model", "dummy", "cpu", CONFIG, run)
        assert WorkerOptions.parse(said.arguments()) == said


def test_a_worker_serves_cancels_refuses_and_drains() -> None:
    with worker() as (front, process):
        ready = front.read()
        assert isinstance(ready, Ready)
        assert (ready.device, ready.kv_blocks, ready.block_size, ready.max_model_len) == ("cpu", 64, 16, 1024)
        assert ready.token_bytes in {256, 512}, "of keys and values (SPEC C12), in two bytes or four a number"

        front.sock.sendall(frame(submit(1)) + frame(submit(2, prompt=2000)))
        steps = front.steps_until_finished(1, 2)
        assert sum(rid == 1 for step in steps for rid, _ in step.tokens) == 3
        (end,) = [end for step in steps for end in step.finished]
        assert (end.rid, end.finish_reason, end.output_tokens) == (1, "length", 3)
        assert end.queued <= (end.first_scheduled or 0) <= (end.first_token or 0) <= (end.last_token or 0)
        assert [refused.rid for step in steps for refused in step.refused] == [2]

        front.sock.sendall(frame(submit(3, max_tokens=900)))
        front.read()
        front.sock.sendall(frame(Cancel(3)) + frame(Cancel(99)))
        (cancelled,) = front.steps_until_finished(3)[-1].finished
        assert cancelled.finish_reason == "cancelled"

        front.sock.sendall(frame(submit(4, max_tokens=100)) + frame(Drain()))
        assert front.steps_until_finished(4)[-1].kv_used == 0
        assert process.wait(DEADLINE_S) == 0


def test_a_worker_leaves_when_the_front_end_is_gone() -> None:
    with worker() as (front, process):
        assert isinstance(front.read(), Ready)
        front.sock.sendall(frame(submit(1, max_tokens=1000)))
        front.sock.close()
        assert process.wait(DEADLINE_S) == 0


def test_a_worker_that_can_not_load_says_why() -> None:
    with worker("no such model") as (front, process):
        assert front.read() == Failed(
            "there is no model at no such model; give a GGUF file, a Hugging Face folder, or one of smollm2-135m"
        )
        assert process.wait(DEADLINE_S) == 1


@pytest.fixture
def handlers() -> Iterator[None]:
    """`main` is for a process of its own: it ignores signals that this one needs."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in kept.items():
        signal.signal(number, handler)


class Broken:
    """An executor that fails in its first step."""

    def start(self, rid: int, prompt: object, sampling: Sampling) -> None:
        assert rid == 1

    def execute(self, plan: StepPlan) -> StepResult:
        raise ValueError(f"no step of {len(plan.slices)}")

    def release(self, rid: int) -> None:
        raise AssertionError(rid)


def _with_broken_executor(given: WorkerOptions) -> Parts:
    parts = assemble(given)
    parts.executor = Broken()
    return parts


@pytest.mark.usefixtures("handlers")
def test_a_worker_that_fails_in_a_step_says_so_and_dies() -> None:
    ours, theirs = socket.socketpair()
    front = Front(ours)
    ours.sendall(frame(submit(1)))
    with pytest.raises(ValueError, match="no step of 1"):
        main(options(theirs.detach()), _with_broken_executor)
    assert isinstance(front.read(), Ready)
    assert front.read() == Failed("ValueError: no step of 1")


@pytest.mark.usefixtures("handlers")
def test_a_worker_whose_front_end_is_gone_before_it_fails_tells_its_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(given: WorkerOptions) -> Parts:
        raise UserError(f"no {given.model}")

    ours, theirs = socket.socketpair()
    ours.close()
    assert main(options(theirs.detach()), fail) == 1
    assert capsys.readouterr().err == "tailtrace worker: no tiny\n"
