-- With whom did one attempt share its passes? By the time of those passes, which is the time it had to share.
WITH own AS (
    SELECT step FROM slices WHERE rid = $rid AND worker = $worker AND step BETWEEN $first AND $last
),
shared AS (
    SELECT
        slices.rid,
        count(*) AS passes,
        sum(tokens)::BIGINT AS tokens,
        coalesce(sum(tokens) FILTER (role <> 'decode'), 0)::BIGINT AS prefill_tokens,
        sum(t_done - t_exec)::BIGINT AS ns,
        coalesce(sum(t_done - t_exec) FILTER (role <> 'decode'), 0)::BIGINT AS prefill_ns
    FROM slices
    SEMI JOIN own ON own.step = slices.step
    JOIN steps ON steps.worker = slices.worker AND steps.step = slices.step
    WHERE slices.worker = $worker AND slices.step BETWEEN $first AND $last AND slices.rid <> $rid
    GROUP BY slices.rid
),
names AS (SELECT DISTINCT ON (rid) rid, request_id FROM requests SEMI JOIN shared ON shared.rid = requests.rid)
SELECT shared.rid, names.request_id, passes, tokens, prefill_tokens, ns, prefill_ns
FROM shared
LEFT JOIN names ON names.rid = shared.rid
ORDER BY prefill_tokens DESC, ns DESC, shared.rid
