-- Every change of state that the workers told of, in no order. Requests come and go besides, by their own stamps.
-- Words are told as their places, from 0, among all the $kinds and $reasons that there are: there may be millions.
SELECT
    t,
    coalesce(rid, -1) AS rid,
    (list_position($kinds::VARCHAR[], kind) - 1)::TINYINT AS kind,
    (list_position($reasons::VARCHAR[], reason) - 1)::TINYINT AS reason,
    coalesce(other_rid, -1) AS other_rid
FROM events
WHERE t IS NOT NULL
