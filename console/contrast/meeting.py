"""How much work of others requests met while they decoded: of a large run at rest it is kept, else asked of slices."""

from typing import TYPE_CHECKING, Final

from console.views import KEPT, is_kept

if TYPE_CHECKING:
    import duckdb

_MET: Final = """
SELECT
    rid,
    round(avg(coalesce(sum_prefill_tokens, 0)))::BIGINT AS met_prefill_tokens,
    max(coalesce(sum_prefill_tokens, 0)) AS met_most_prefill_tokens,
    round(avg(coalesce(num_decode_requests, 1) - 1))::BIGINT AS met_decodes
FROM slices JOIN steps USING (worker, step) {some}
WHERE role = 'decode'
GROUP BY rid"""
"""One row a request that decoded: prefill tokens and other decodes in its passes on average, and the most prefill
tokens in one of them."""


def fill_met(cursor: "duckdb.DuckDBPyConnection") -> None:
    """Keep it of all requests, on a cursor whose views show the run itself: it takes a look at every slice."""
    cursor.execute(f"CREATE TABLE {KEPT}.met AS {_MET.format(some='')} ORDER BY rid").fetchall()


def show_met(cursor: "duckdb.DuckDBPyConnection") -> None:
    """Show it as `met` on a cursor, of the requests in `chosen` at least."""
    met = f"FROM {KEPT}.met" if is_kept(cursor, "met") else _MET.format(some="SEMI JOIN chosen USING (rid)")
    cursor.execute(f"CREATE OR REPLACE TEMP VIEW met AS {met}").fetchall()
