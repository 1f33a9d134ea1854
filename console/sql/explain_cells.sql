-- Of what is the time of the slow and of the typical answered requests made, in ns? One row for a cause, its root and who is
-- behind it. Two culprits are found here beside those of the causes: whoever waits behind the head of the queue blames
-- whoever kept that head out for the same root (where one request did most of it), and whoever was on its way to a worker
-- in the middle of a step blames the longest prompt in that step. Of the many whom typical requests blame for a cause, those
-- behind least of it are one row without a culprit; `culprits` says how many they are.
WITH lived AS (
    SELECT
        rid, attempt, e2e_ns,
        CASE $measure WHEN 'ttft' THEN ttft_ns::DOUBLE WHEN 'tpot' THEN tpot_ns ELSE e2e_ns::DOUBLE END AS ns
    FROM latency
    WHERE status = 'ok' AND e2e_ns IS NOT NULL
),
sided AS (
    SELECT
        rid, attempt, e2e_ns,
        CASE WHEN ns > $edge::DOUBLE OR (ns = $edge::DOUBLE AND $at) THEN 'slow' ELSE 'typical' END AS cohort
    FROM lived
    WHERE ns > $edge::DOUBLE OR (ns = $edge::DOUBLE AND $at) OR ns BETWEEN $low::DOUBLE AND $high::DOUBLE
),
blamed AS (
    SELECT cohort, rid, attempt, cause, coalesce(root, '') AS root, culprit, ns, measured
    FROM sided JOIN causes USING (rid, attempt)
),
heads AS (
    SELECT rid AS head, root, arg_max(culprit, (ns, -culprit)) AS behind
    FROM causes
    SEMI JOIN (SELECT DISTINCT culprit AS rid FROM blamed) USING (rid)
    WHERE culprit IS NOT NULL AND cause = 'QUEUE/' || root
    GROUP BY ALL
),
sent AS (
    SELECT requests.rid, requests.attempt, steps.worker, steps.step
    FROM (
        SELECT rid, attempt, worker, admitted
        FROM requests SEMI JOIN (SELECT rid, attempt FROM blamed WHERE cause = 'STEP_IN_FLIGHT') USING (rid, attempt)
        WHERE admitted IS NOT NULL
    ) AS requests
    ASOF JOIN steps ON steps.worker = requests.worker AND steps.t_sched <= requests.admitted
),
in_flight AS (
    SELECT sent.rid, sent.attempt, 'STEP_IN_FLIGHT' AS cause, arg_max(slices.rid, (tokens, -slices.rid)) AS prompt
    FROM sent JOIN slices USING (worker, step)
    WHERE role <> 'decode'
    GROUP BY ALL
),
parts AS (
    SELECT
        cohort, cause, blamed.root, coalesce(behind, culprit, prompt) AS culprit,
        sum(ns)::BIGINT AS ns, bool_and(measured) AS measured
    FROM blamed
    LEFT JOIN heads ON heads.head = culprit AND heads.root = blamed.root AND starts_with(cause, 'QUEUE/BEHIND_')
    LEFT JOIN in_flight USING (rid, attempt, cause)
    GROUP BY ALL
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY cohort, cause, root ORDER BY ns DESC, culprit) AS place FROM parts
)
SELECT
    cohort, cause, root, CASE WHEN cohort = 'slow' OR place <= 1000 THEN culprit END AS culprit,
    count(culprit) AS culprits, sum(ns)::BIGINT AS ns, bool_and(measured) AS measured
FROM ranked
GROUP BY ALL
ORDER BY ALL
