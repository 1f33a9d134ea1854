-- When did the workers execute in a stretch?
SELECT worker, t_exec, t_done
FROM steps
WHERE kind <> 'idle' AND t_done > t_exec AND t_exec < $until AND t_done > $since
    AND ($worker::BIGINT IS NULL OR worker = $worker)
