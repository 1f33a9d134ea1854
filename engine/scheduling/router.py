"""Which of several replicas a request goes to, who has which, and who has fallen silent: pure (SPEC A7, C6).

The front end knows best what waits for an answer: it has sent it. So queues are counted there, request by request, and
not taken from the replicas' reports, which are as old as their last step.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.config import Config
from engine.scheduling.prefix import Chain, PrefixPool
from recorder.words import Reason


@dataclass(frozen=True, slots=True, order=True)
class Load:
    """What a replica has before it: prompt tokens without an answer yet; then, where those are equal, its requests."""

    queued_tokens: int
    unfinished: int


def least_queued(loads: Sequence[Load]) -> int:
    """The number of the least loaded replica, the first of equals."""
    return min(range(len(loads)), key=loads.__getitem__)


class Backlog:
    """The load of one replica as its front end sees it: what was sent, minus what answers have come back for.

    Answers may be told ahead of time; they count from the instant at which they are received.
    """

    def __init__(self) -> None:
        self._tokens = 0
        self._requests = 0
        self._coming: deque[tuple[int, int, int]] = deque()

    def sent(self, prompt_tokens: int) -> None:
        """A request went to the replica."""
        self._tokens += prompt_tokens
        self._requests += 1

    def answered(self, received: int, prompt_tokens: int) -> None:
        """The first token of a request (or its refusal) is received at that instant; instants never fall."""
        self._coming.append((received, prompt_tokens, 0))

    def finished(self, received: int) -> None:
        """A request has ended, as the front end learns at that instant."""
        self._coming.append((received, 0, 1))

    def at(self, t: int) -> Load:
        """The load at `t`; asked with `t` never falling."""
        while self._coming and self._coming[0][0] <= t:
            _, tokens, requests = self._coming.popleft()
            self._tokens -= tokens
            self._requests -= requests
        return Load(self._tokens, self._requests)


@dataclass(frozen=True, slots=True)
class Choice:
    """Where a request goes, and why. `chain` is its prompt as prefix caches know it."""

    replica: int
    reason: Reason
    chain: Chain | None = field(default=None, compare=False, repr=False)


@dataclass(slots=True)
class Lease:
    """Which replica owns an attempt. Whatever another one says of its rid is stale (SPEC A7)."""

    rid: int
    replica: int
    prompt_tokens: int
    answered: bool = False
    running: bool = False
    """Its execution has begun."""


class _Replica:
    """What is known of one of them. `pool` has the content that its own prefix cache should have by now."""

    def __init__(self, config: Config, blocks: int, now: int) -> None:
        self.alive = True
        self.heard = now
        self._size = config.kv.block_size
        self._blocks = blocks if config.kv.enable_prefix_caching else 0
        self.forget()

    def forget(self) -> None:
        """It may come back, but nothing that it held is counted on."""
        self.backlog = Backlog()
        self._pool = PrefixPool(self._blocks, self._size)

    def saves(self, chain: Chain | None, prompt_tokens: int) -> int:
        """Prompt tokens that it should not have to compute; the last one always is (SPEC C4)."""
        return len(self._pool.find(chain, (prompt_tokens - 1) // self._size)) * self._size

    def remember(self, chain: Chain) -> None:
        """A prompt went there: its whole blocks come into the cache, and others leave for them, the oldest first."""
        pool = self._pool
        chain.forget()
        known = pool.find(chain, len(chain.keys))
        pool.share(chain, known)
        blocks = (*known, *pool.take(min(len(chain.keys) - len(known), pool.free)))
        pool.learn(chain, blocks, len(blocks) * self._size)
        pool.give_back(blocks)


class Router:
    """Least queued tokens; a replica that holds the prompt's prefix is preferred within a load bound (SPEC C6).

    `choose`, `send`, then `started`, `answered` and `ended` as replicas tell; `lost` hands back what one held.
    Deterministic in its calls; `now` never falls.
    """

    def __init__(self, config: Config, pool_blocks: Sequence[int], now: int = 0) -> None:
        """`pool_blocks`: KV blocks of each replica."""
        self._config = config.router
        self._prefix_keys = PrefixPool(0, config.kv.block_size) if config.kv.enable_prefix_caching else None
        self._replicas = [_Replica(config, blocks, now) for blocks in pool_blocks]
        self._leases: dict[int, Lease] = {}

    @property
    def living(self) -> list[int]:
        """The replicas that requests may go to."""
        return [number for number, replica in enumerate(self._replicas) if replica.alive]

    # -- where to ------------------------------------------------------------------------------------------------------

    def choose(self, prompt: Sequence[int], now: int) -> Choice | None:
        """Where a request with this prompt should go; None where nobody lives.

        The one whose queue is shortest, or one that saves tokens and whose queue is at most `prefix_load_factor` times
        those longer. The reason is PREFIX where the prefix decided.
        """
        living = self.living
        if not living:
            return None
        loads = {number: self._replicas[number].backlog.at(now) for number in living}
        least = min(living, key=lambda number: (loads[number], number))
        if self._prefix_keys is None or len(living) == 1:
            return Choice(least, Reason.LEAST_QUEUED)
        chain = self._prefix_keys.chain(prompt)
        saved = {number: self._replicas[number].saves(chain, len(prompt)) for number in living}

        def rank(number: int) -> tuple[float, int, int, int]:
            load, saves = loads[number], saved[number]
            return load.queued_tokens - self._config.prefix_load_factor * saves, -saves, load.unfinished, number

        best = min(living, key=rank)
        return Choice(best, Reason.LEAST_QUEUED if best == least else Reason.PREFIX, chain)

    def send(self, rid: int, choice: Choice, prompt_tokens: int) -> None:
        """A request goes where it was decided: that replica owns it from now on."""
        replica = self._replicas[choice.replica]
        self._leases[rid] = Lease(rid, choice.replica, prompt_tokens)
        replica.backlog.sent(prompt_tokens)
        if choice.chain:
            replica.remember(choice.chain)

    # -- what replicas tell --------------------------------------------------------------------------------------------

    def owns(self, replica: int, rid: int) -> bool:
        """Whether what this replica says of the request counts."""
        lease = self._leases.get(rid)
        return lease is not None and lease.replica == replica

    def started(self, rids: Sequence[int]) -> None:
        """These are about to run, and run until they end."""
        for rid in rids:
            self._leases[rid].running = True

    def answered(self, rid: int, received: int) -> None:
        """A token of it is received at that instant."""
        lease = self._leases[rid]
        if not lease.answered:
            lease.answered = True
            self._replicas[lease.replica].backlog.answered(received, lease.prompt_tokens)

    def ended(self, rid: int, received: int) -> None:
        """It has ended, or was refused, as is received at that instant."""
        self.answered(rid, received)
        self._replicas[self._leases.pop(rid).replica].backlog.finished(received)

    # -- who is there --------------------------------------------------------------------------------------------------

    def heard(self, replica: int, now: int) -> bool:
        """It has told something. True if it had been taken out: it is in again."""
        back = not self._replicas[replica].alive
        self._replicas[replica].alive = True
        self._replicas[replica].heard = now
        return back

    def silent(self, now: int) -> list[int]:
        """Those not heard for `heartbeat_timeout_ms`. The last one that lives is never among them: nobody else could
        serve its requests sooner."""
        timeout, living = self._config.heartbeat_timeout_ns, self.living
        last = max(living, key=lambda number: self._replicas[number].heard, default=None)
        overdue = [number for number in living if now - self._replicas[number].heard > timeout]
        return [number for number in overdue if number != last] if timeout else []

    def lost(self, replica: int) -> list[Lease]:
        """Take it out. What it held is handed back, in the order in which it was sent."""
        self._replicas[replica].alive = False
        self._replicas[replica].forget()
        held = [lease for lease in self._leases.values() if lease.replica == replica]
        for lease in held:
            del self._leases[lease.rid]
        return held
