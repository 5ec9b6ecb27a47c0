-- The events of operations ?1 to ?2: claimed, answered, answer dropped.
INSERT INTO events (operation, sequence, move, attempt, state, at, actor, note)
SELECT number, column1, column2, 1, column3, claimed_at, '', column4
FROM operations, (VALUES (1, 1, 1, ''), (2, 5, 3, ''), (3, 5, 3, 'window passed'))
WHERE number BETWEEN ?1 AND ?2 ORDER BY number, column1
