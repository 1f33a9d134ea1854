"""Token rate limits per tenant: what a request may come to is charged, what it did not use is given back (SPEC C8)."""

from dataclasses import dataclass
from typing import Final

_MANY: Final = 4096
"""Tenants beyond which those whose account is full, which is how a new one begins, are forgotten."""


@dataclass(slots=True)
class _Account:
    tokens: float
    since: int


class RateLimits:
    """One account of tokens a tenant. It fills with time up to `burst`; times in ns, `rate` in tokens a ns."""

    def __init__(self, burst: int) -> None:
        self._burst = burst
        self._accounts: dict[str, _Account] = {}

    def wait(self, tenant: str, tokens: int, now: int, rate: float) -> int:
        """The ns after which so many tokens will be there; 0: they are.

        More than `burst` can't gather: such a charge asks for a full account, and leaves it in debt.
        """
        missing = min(tokens, self._burst) - self._filled(tenant, now, rate).tokens
        return int(missing / rate) + 1 if missing > 0 else 0

    def charge(self, tenant: str, tokens: int, now: int, rate: float) -> None:
        """Charge the tokens, be they there or not."""
        self._filled(tenant, now, rate).tokens -= tokens

    def refund(self, tenant: str, tokens: int) -> None:
        """Give back what was charged and not used."""
        if account := self._accounts.get(tenant):
            account.tokens = min(account.tokens + tokens, self._burst)

    def _filled(self, tenant: str, now: int, rate: float) -> _Account:
        if len(self._accounts) > _MANY:
            self._accounts = {name: one for name, one in self._accounts.items() if one.tokens < self._burst}
        account = self._accounts.setdefault(tenant, _Account(self._burst, now))
        account.tokens = min(account.tokens + (now - account.since) * rate, self._burst)
        account.since = now
        return account
