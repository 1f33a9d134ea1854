-- How often did somebody lose its blocks, to how many, and who took them most often? A request that was itself the newest
-- lost them to nobody.
WITH lost AS (SELECT * FROM events WHERE kind = 'preempted'),
takers AS (SELECT other_rid AS rid, count(*) AS n FROM lost WHERE other_rid IS NOT NULL GROUP BY other_rid)
SELECT
    count(*) AS n,
    count(DISTINCT rid) AS victims,
    coalesce(sum(lost_tokens), 0)::BIGINT AS lost_tokens,
    min(step) AS first_step,
    max(step) AS last_step,
    arg_min(worker, t) AS worker,
    (SELECT min_by(rid, (-n, rid)) FROM takers) AS taker,
    (SELECT max(n) FROM takers) AS taken
FROM lost
