-- How much time did each of the chosen attempts spend in each phase and cause, in ns? NULL is none. Columns are named as in
-- `attempt_times`; $causes are those that there are in the run. `chosen` holds `rid, attempt, inside` of those that are
-- compared.
SELECT inside, e2e_ns, COLUMNS(lambda name: starts_with(name, 'phase ') OR list_contains($causes, name))
FROM attempt_times JOIN chosen USING (rid, attempt)
