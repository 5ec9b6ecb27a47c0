-- Operations ?1 to ?2: each was answered in its first attempt, and its answer dropped.
-- They are a second apart from ?3 on, in scope ?4.
WITH RECURSIVE numbers (n) AS (SELECT ?1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?2)
INSERT INTO operations (number, id, lookup, loose, content, fingerprint, fingerprint_version, scope, key_hint, class,
    state, move, attempt, doubt, owner, created_at, claimed_at, settled_at, window, is_error, reason, kept, replays, provenance)
SELECT n, unhex(printf('%012x7', ?3 + n * 1000) || substr(hex(randomblob(10)), 2, 19)),
    randomblob(32), randomblob(32), randomblob(32), randomblob(32), 2, ?4, 'refu… (24)', 'NON_RETRYABLE',
    3, 5, 1, 0, randomblob(16), ?3 + n * 1000, ?3 + n * 1000, ?3 + n * 1000, 604800000, 0, '', 3, 0,
    CAST('{"session":"0193c5a1-f2e4-7b3c-9d8e-7f6a5b4c3d2e","client":"agent 1.0.12","request_id":12,"carrier":"model"}' AS BLOB)
FROM numbers
