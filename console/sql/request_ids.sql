-- Which ids did clients give? Of the $most requests that came first, in the order of arrival; empty where there is none.
SELECT coalesce(request_id, '') AS request_id
FROM requests
ORDER BY arrival, rid, attempt
LIMIT $most
