-- What kept the head of the queue waiting while the answered requests waited, in ns? Being behind somebody is a
-- proximate cause; the root is why that somebody was not started (SPEC F2).
WITH answered AS (
    SELECT COLUMNS(lambda name: starts_with(name, 'root ')) FROM cause_times WHERE status = 'ok'
),
summed AS (UNPIVOT (SELECT sum(COLUMNS(*))::BIGINT FROM answered) ON COLUMNS(*) INTO NAME root VALUE ns),
counted AS (UNPIVOT (SELECT count(COLUMNS(*)) FROM answered) ON COLUMNS(*) INTO NAME root VALUE requests)
SELECT substr(root, 6) AS root, ns, requests
FROM summed JOIN counted USING (root)
ORDER BY ns DESC, root
