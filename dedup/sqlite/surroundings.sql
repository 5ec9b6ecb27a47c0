-- What stands in a claim's way, in one statement and so in one snapshot.
-- ?1 loose, ?2 lookup, ?3 content, ?4 claims after this time are near (NULL: no
-- twins wanted), ?5 the operation to repeat or NULL, ?6 how many twins at most, ?7
-- the time at which a result must still be within its window to be loaded (NULL:
-- no result wanted), ?8 this hour, in hours since 1970.
-- Roles: 0 same, 1 elsewhere, 2 twin, 3 repeated, 4 repeated by.
WITH RECURSIVE hours (hour) AS ( -- that matter and in which there may be claims
    SELECT max(?4, (SELECT min(claimed_at) FROM operations)) / 3600000
    UNION ALL SELECT hour + 1 FROM hours WHERE hour < ?8
),
around (role, number) AS (
    SELECT * FROM (
        SELECT iif(lookup = ?2, 0, 1), number FROM operations
        WHERE loose = ?1 AND (lookup = ?2 OR state <> 5)
        ORDER BY lookup = ?2 DESC, claimed_at DESC, id DESC LIMIT 2)
    UNION ALL
    SELECT * FROM (
        SELECT 2, number FROM operations
        WHERE ?4 IS NOT NULL AND lookup <> ?2 AND state <> 5 AND number IN (
            SELECT number FROM operations WHERE content = ?3 AND state = 1
            UNION ALL
            SELECT number FROM hours CROSS JOIN operations ON claimed_at / 3600000 = hour
                AND substr(content, 1, 8) = substr(?3, 1, 8) AND content = ?3 AND claimed_at > ?4
            UNION ALL -- where a clock was ahead
            SELECT number FROM operations WHERE claimed_at >= (?8 + 1) * 3600000 AND content = ?3)
        ORDER BY claimed_at DESC, id DESC LIMIT ?6)
    UNION ALL
    SELECT 3, number FROM operations WHERE id = ?5
    UNION ALL
    SELECT * FROM (
        SELECT 4, number FROM operations
        WHERE repeat_of = ?5 AND lookup <> ?2 AND state <> 5
        ORDER BY claimed_at DESC, id DESC LIMIT 1)
)
SELECT a.role, %s, CASE WHEN a.role = 0 AND ?7 IS NOT NULL AND (o.state <> 3 OR o.settled_at + o.window > ?7) THEN
    iif(o.state = 2, (SELECT question FROM rounds WHERE operation = o.number ORDER BY number DESC LIMIT 1),
        (SELECT body FROM results WHERE operation = o.number)) END
FROM around a CROSS JOIN operations o ON o.number = a.number CROSS JOIN scopes s ON s.number = o.scope
