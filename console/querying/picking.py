"""An answer as a filter: which requests it is about, as a term that other screens can be put under."""

from collections.abc import Sequence

from console.filter import Asked
from console.filter_language import FilterError


def picking(sql: str, columns: Sequence[str]) -> Asked:
    """The term for the requests in the answer of `sql`, which has these columns.

    By `rid`, and by `attempt` too where there is one; else by `request_id`, all attempts of it. Raises FilterError.
    """
    question = sql.strip().rstrip(";")
    if "rid" in columns:
        return Asked(question, "attempts" if "attempt" in columns else "sql")
    if "request_id" in columns:
        return Asked(f"SELECT rid, attempt FROM requests SEMI JOIN ({question}\n) USING (request_id)", "attempts")
    raise FilterError("the answer names no requests: select rid (and attempt), or request_id")
