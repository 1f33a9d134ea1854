-- What was in each pass from one attempt's first to its last? Its own part (NULL where it was left out), and with whom it
-- shared the pass: `beside` with how many tokens each, the `prefills` of them first, and whose prefill was the largest.
-- `whole`: every slice of the pass is there, so that who has none was left out.
WITH shared AS (
    SELECT
        step,
        any_value(role) FILTER (rid = $rid) AS role,
        any_value(tokens) FILTER (rid = $rid) AS tokens,
        any_value(computed_before) FILTER (rid = $rid) AS computed_before,
        list(rid ORDER BY role = 'decode', tokens DESC, rid) FILTER (rid <> $rid) AS beside,
        list(tokens ORDER BY role = 'decode', tokens DESC, rid) FILTER (rid <> $rid) AS beside_tokens,
        count(*) FILTER (rid <> $rid AND role <> 'decode') AS prefills,
        coalesce(sum(tokens) FILTER (rid <> $rid AND role <> 'decode'), 0)::BIGINT AS prefill_tokens,
        arg_max(rid, (tokens, -rid)) FILTER (rid <> $rid AND role <> 'decode') AS prefiller,
        count(*) AS slices
    FROM slices
    WHERE worker = $worker AND step BETWEEN $first AND $last
    GROUP BY step
),
names AS (SELECT DISTINCT ON (rid) rid, request_id FROM requests SEMI JOIN shared ON shared.prefiller = requests.rid)
SELECT
    steps.step, t_sched, t_exec, t_done, t_end, kind, decode_only_ns,
    role, tokens, computed_before,
    coalesce(beside, []) AS beside, coalesce(beside_tokens, []) AS beside_tokens,
    coalesce(prefills, 0) AS prefills, coalesce(prefill_tokens, 0) AS prefill_tokens,
    prefiller, names.request_id AS prefiller_id,
    coalesce(slices, 0) = coalesce(num_prefill_requests, 0) + coalesce(num_decode_requests, 0) AS whole
FROM steps
LEFT JOIN shared ON shared.step = steps.step
LEFT JOIN names ON names.rid = shared.prefiller
WHERE worker = $worker AND steps.step BETWEEN $first AND $last
ORDER BY steps.step
