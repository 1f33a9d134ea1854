-- How long were attempts in each phase, in ns, whatever became of them? Only those that were in it count; nearest rank.
WITH lived AS (
    SELECT
        {'n': count("ingress"), 'q': quantile_disc("ingress", [0.5, 0.99])} AS "ingress",
        {'n': count("queue"), 'q': quantile_disc("queue", [0.5, 0.99])} AS "queue",
        {'n': count("batch_wait"), 'q': quantile_disc("batch_wait", [0.5, 0.99])} AS "batch_wait",
        {'n': count("prefill"), 'q': quantile_disc("prefill", [0.5, 0.99])} AS "prefill",
        {'n': count("decode"), 'q': quantile_disc("decode", [0.5, 0.99])} AS "decode",
        {'n': count("preempted"), 'q': quantile_disc("preempted", [0.5, 0.99])} AS "preempted",
        {'n': count("return"), 'q': quantile_disc("return", [0.5, 0.99])} AS "return"
    FROM phase_times
)
SELECT name, it.n AS n, it.q[1]::BIGINT AS p50, it.q[2]::BIGINT AS p99
FROM (UNPIVOT lived ON "ingress", "queue", "batch_wait", "prefill", "decode", "preempted", "return" INTO NAME name VALUE it)
WHERE it.n > 0
ORDER BY name
