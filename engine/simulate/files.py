"""The folder of a simulated run: created, filled, closed in order, and taken away again where that fails."""

import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from engine.config import to_dict
from engine.ledger import WORKER_TABLES
from engine.simulate.front import FRONT_TABLES, SUMMARY_TABLES
from engine.simulate.setup import Setup
from recorder.producer import PartProducer
from recorder.run import ClockAnchor, RunInfo, create_run, finish, load_info, save_info


class VirtualRun:
    """An ordinary run whose clock is virtual. Inside `with`, producers take its rows; after it, it is sealed.

    When the body raises, nothing is left of it. Raises RunError where the folder exists or can't be made.
    """

    def __init__(self, run: Path, setup: Setup, workload: dict[str, Any], seed: int | None = None) -> None:
        model = {"name": "virtual", "max_model_len": setup.max_model_len, "kv_blocks": setup.num_blocks}
        self._info = RunInfo(
            run_id=run.name,
            clock=ClockAnchor(kind="virtual"),
            config=to_dict(setup.config),
            model=model,
            workload={"workers": setup.workers, **workload},
            seed=seed,
        )
        self._folder = run.parent
        self._producers = ExitStack()

    def front(self, tables: Sequence[str] = FRONT_TABLES) -> PartProducer:
        """The front end's producer. Where it keeps a summary alone, the run says so, for its checks."""
        if tables == SUMMARY_TABLES:
            info = load_info(self.path)
            info.recorded_tables = list(tables)
            save_info(self.path, info)
        return self._open("frontend", tables)

    def worker(self, number: int) -> PartProducer:
        """The producer of one worker."""
        return self._open(f"worker{number}", WORKER_TABLES)

    def _open(self, name: str, tables: Sequence[str]) -> PartProducer:
        producer = PartProducer(self.path, name, tables)
        self._producers.callback(producer.close)
        return producer

    def __enter__(self) -> Self:
        self.path = create_run(self._folder, self._info)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self._producers.close()
            if error is None:
                finish(self.path)
        finally:
            if error is not None:
                shutil.rmtree(self.path, ignore_errors=True)
