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

    def charge(self, tenant: str, tokens: int, now: int, rate: float) -> int:
        """Charge the tokens, and return 0; or charge nothing, and return the ns after which they would be there.

        More than `burst` can't gather: such a charge asks for a full account, and leaves it in debt.
        """
        account = self._filled(tenant, now, rate)
        missing = min(tokens, self._burst) - account.tokens
        if missing > 0:
            return int(missing / rate) + 1
        account.tokens -= tokens
        return 0

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
