-- The ledger. Times are milliseconds since 1970 (UTC) of the store's clock.
-- States, evidence rows and kept are the numbers of package dedup; the triggers
-- hold its table of moves a second time, against mistakes and not against malice.

CREATE TABLE meta (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    secret BLOB NOT NULL CHECK (length(secret) = 32),
    since  INTEGER NOT NULL
) STRICT;

CREATE TRIGGER meta_keeps_its_secret BEFORE UPDATE OF only, secret ON meta
BEGIN
    SELECT RAISE(ABORT, 'the secret of a ledger never changes');
END;

CREATE TRIGGER meta_is_made_once BEFORE INSERT ON meta
WHEN EXISTS (SELECT 1 FROM meta)
BEGIN
    SELECT RAISE(ABORT, 'the secret of a ledger never changes');
END;

CREATE TRIGGER meta_stays BEFORE DELETE ON meta
BEGIN
    SELECT RAISE(ABORT, 'the secret of a ledger never changes');
END;

-- A ledger knows few scopes and many operations.
CREATE TABLE scopes (
    number    INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    upstream  TEXT NOT NULL,
    account   TEXT NOT NULL,
    tool      TEXT NOT NULL,
    UNIQUE (tool, upstream, account, namespace)
) STRICT;

CREATE TABLE operations (
    number              INTEGER PRIMARY KEY,
    id                  BLOB NOT NULL UNIQUE CHECK (length(id) = 16),
    lookup              BLOB NOT NULL CHECK (length(lookup) = 32),
    loose               BLOB NOT NULL CHECK (length(loose) = 32),
    content             BLOB NOT NULL CHECK (length(content) = 32),
    fingerprint         BLOB NOT NULL CHECK (length(fingerprint) = 32),
    fingerprint_version INTEGER NOT NULL,
    scope               INTEGER NOT NULL REFERENCES scopes (number),
    key_hint            TEXT NOT NULL,
    class               TEXT NOT NULL,
    state               INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5),
    move                INTEGER NOT NULL CHECK (move BETWEEN 1 AND 20),
    attempt             INTEGER NOT NULL CHECK (attempt >= 1),
    doubt               INTEGER NOT NULL CHECK (doubt IN (0, 16, 17)),
    owner               BLOB NOT NULL CHECK (length(owner) = 16),
    open_until          INTEGER CHECK (open_until IS NULL OR state = 4),
    created_at          INTEGER NOT NULL,
    claimed_at          INTEGER NOT NULL,
    settled_at          INTEGER CHECK ((settled_at IS NULL) = (state IN (1, 2))),
    window              INTEGER NOT NULL CHECK (window >= 0),
    is_error            INTEGER NOT NULL CHECK (is_error IN (0, 1)),
    reason              TEXT NOT NULL,
    kept                INTEGER NOT NULL CHECK (kept BETWEEN 0 AND 3),
    repeat_of           BLOB CHECK (repeat_of IS NULL OR length(repeat_of) = 16),
    replays             INTEGER NOT NULL CHECK (replays >= 0),
    provenance          BLOB,
    downstream          TEXT NOT NULL DEFAULT '' CHECK (length(CAST(downstream AS BLOB)) <= 255),
    round               INTEGER NOT NULL DEFAULT 0 CHECK (round >= 0),
    input_until         INTEGER CHECK (input_until IS NULL OR state IN (1, 2)),
    task                BLOB CHECK (task IS NULL OR length(task) = 32),
    task_status         TEXT NOT NULL DEFAULT '' CHECK (task_status IN ('', 'completed', 'failed', 'cancelled')),
    -- One tree finds an operation by its lookup and, under another upstream or
    -- account, by its key alone: a lookup has but one loose digest.
    UNIQUE (loose, lookup)
) STRICT;

-- Whoever looks for operations of the same content looks at the last few hours, and a
-- claim writes where others of its hour have. Of the content the beginning will do.
CREATE INDEX operations_by_content ON operations (claimed_at / 3600000, substr(content, 1, 8));
CREATE INDEX operations_by_claim ON operations (claimed_at);
CREATE INDEX operations_running ON operations (content) WHERE state = 1;
CREATE INDEX operations_open ON operations (open_until) WHERE open_until IS NOT NULL;
CREATE INDEX operations_overdue ON operations (settled_at + window, id) WHERE kept = 1 AND state = 3;
CREATE INDEX operations_by_repeat ON operations (repeat_of) WHERE repeat_of IS NOT NULL;
CREATE INDEX operations_asked ON operations (input_until) WHERE state = 2;
CREATE INDEX operations_by_task ON operations (task, settled_at) WHERE task IS NOT NULL;

-- INSERT OR REPLACE would delete the row in its way without firing the trigger
-- on deletes; this one fires first.
CREATE TRIGGER operations_are_new BEFORE INSERT ON operations
BEGIN
    SELECT RAISE(ABORT, 'an operation begins with row 1, running, at attempt 1')
    WHERE NEW.state <> 1 OR NEW.move <> 1 OR NEW.attempt <> 1 OR NEW.doubt <> 0 OR NEW.round <> 0;
    SELECT RAISE(ABORT, 'the operation exists')
    WHERE EXISTS (SELECT 1 FROM operations WHERE loose = NEW.loose AND lookup = NEW.lookup)
       OR EXISTS (SELECT 1 FROM operations WHERE id = NEW.id)
       OR EXISTS (SELECT 1 FROM operations WHERE number = NEW.number);
END;

CREATE TRIGGER operations_keep_their_names
BEFORE UPDATE OF number, id, lookup, loose, scope, key_hint, created_at ON operations
WHEN NEW.number <> OLD.number OR NEW.id <> OLD.id OR NEW.lookup <> OLD.lookup OR NEW.loose <> OLD.loose
  OR NEW.scope <> OLD.scope OR NEW.key_hint <> OLD.key_hint OR NEW.created_at <> OLD.created_at
BEGIN
    SELECT RAISE(ABORT, 'what names an operation never changes');
END;

-- A new claim may bring other arguments (row 1), another algorithm of their
-- fingerprint or another operation to repeat (rows 16 and 17); nothing else may.
CREATE TRIGGER operations_keep_their_content
BEFORE UPDATE OF content, fingerprint, fingerprint_version, repeat_of ON operations
WHEN NEW.attempt = OLD.attempt
 AND (NEW.content <> OLD.content OR NEW.fingerprint <> OLD.fingerprint
   OR NEW.fingerprint_version <> OLD.fingerprint_version OR NEW.repeat_of IS NOT OLD.repeat_of)
BEGIN
    SELECT RAISE(ABORT, 'what an operation does changes only with a new claim');
END;

-- downstream is the form in which all attempts that may have executed have carried
-- a key. A claim by row 1 begins anew; one by row 17 may end it, and none other.
CREATE TRIGGER operations_keep_their_downstream BEFORE UPDATE OF downstream ON operations
WHEN NEW.downstream <> OLD.downstream
 AND (NEW.attempt = OLD.attempt OR (OLD.state = 4 AND (NEW.move <> 17 OR NEW.downstream <> '')))
BEGIN
    SELECT RAISE(ABORT, 'the form of the key downstream changes only with a new claim');
END;

-- doubt is 0 where every earlier attempt was proven not to have executed, else
-- the row that began the newest attempt; it bounds what evidence proves. round counts
-- the sendings since that of row 1.
CREATE TRIGGER operations_move BEFORE UPDATE OF state, move, attempt, doubt, round ON operations
WHEN NEW.state <> OLD.state OR NEW.move <> OLD.move OR NEW.attempt <> OLD.attempt OR NEW.doubt <> OLD.doubt OR NEW.round <> OLD.round
BEGIN
    SELECT RAISE(ABORT, 'no such move')
    WHERE NOT CASE NEW.move
        WHEN 1  THEN OLD.state = 5 AND NEW.state = 1
        WHEN 2  THEN OLD.state = 1 AND NEW.state = 5 AND OLD.doubt = 0 AND OLD.move IN (1, 16, 17)
        WHEN 3  THEN OLD.state = 1 AND NEW.state = 5 AND OLD.doubt = 0 AND OLD.move IN (1, 16, 17)
        WHEN 4  THEN OLD.state = 1 AND NEW.state = 5 AND OLD.doubt = 0 AND OLD.move IN (1, 16, 17)
        WHEN 5  THEN OLD.state = 1 AND NEW.state = 3
        WHEN 6  THEN OLD.state = 1 AND (NEW.state = 4 OR (NEW.state = 3 AND OLD.doubt <> 16) OR (NEW.state = 5 AND OLD.doubt = 0))
        WHEN 7  THEN OLD.state = 1 AND (NEW.state = 4 OR (NEW.state = 3 AND OLD.doubt <> 16))
        WHEN 8  THEN OLD.state = 1 AND NEW.state = 4
        WHEN 9  THEN OLD.state = 1 AND NEW.state = 4
        WHEN 10 THEN OLD.state = 1 AND NEW.state = 2
        WHEN 11 THEN (OLD.state = 2 AND NEW.state = 1) OR (OLD.state = 1 AND NEW.state = 2 AND OLD.move = 11)
        WHEN 12 THEN OLD.state = 4 AND (NEW.state = 3 OR (NEW.state = 5 AND OLD.doubt = 0))
        WHEN 13 THEN OLD.state = 4 AND NEW.state = 3
        WHEN 14 THEN OLD.state = 4 AND NEW.state = 5
        WHEN 15 THEN (OLD.state = 4 AND NEW.state IN (3, 5)) OR (OLD.state = 2 AND NEW.state = 4)
        WHEN 16 THEN (OLD.state = 4 AND NEW.state = 1) OR (OLD.state = 1 AND NEW.state = 4 AND OLD.doubt <> 0)
        WHEN 17 THEN OLD.state = 4 AND NEW.state = 1
        WHEN 18 THEN OLD.state = 5 AND NEW.state = 3 AND OLD.move IN (14, 15)
        WHEN 20 THEN OLD.state = 1 AND NEW.state = 4
        ELSE 0
    END;
    SELECT RAISE(ABORT, 'an attempt begins with rows 1, 16 and 17')
    WHERE NEW.attempt <> OLD.attempt + (NEW.state = 1 AND NEW.move IN (1, 16, 17));
    SELECT RAISE(ABORT, 'doubt changes only with a new attempt')
    WHERE NEW.doubt <> CASE
        WHEN NEW.attempt = OLD.attempt THEN OLD.doubt
        WHEN OLD.state = 4 THEN NEW.move
        ELSE 0
    END;
    SELECT RAISE(ABORT, 'a round begins with rows 11, 16 and 17, and the first with row 1')
    WHERE NEW.round <> CASE
        WHEN NEW.attempt <> OLD.attempt AND NEW.move = 1 THEN 0
        ELSE OLD.round + (NEW.state = 1 AND OLD.state IN (2, 4))
    END;
END;

CREATE TRIGGER operations_keep_the_end_of_their_task BEFORE UPDATE OF task, task_status ON operations
WHEN NEW.attempt = OLD.attempt
 AND ((OLD.task IS NOT NULL AND NEW.task IS NOT OLD.task) OR (OLD.task_status <> '' AND NEW.task_status <> OLD.task_status))
BEGIN
    SELECT RAISE(ABORT, 'a task, and how it has ended, never change');
END;

CREATE TRIGGER operations_stay BEFORE DELETE ON operations
WHEN OLD.state <> 5
BEGIN
    SELECT RAISE(ABORT, 'only a released operation is deleted');
END;

-- Results stand apart, so that the rows that every claim reads stay small.
CREATE TABLE results (
    operation INTEGER PRIMARY KEY REFERENCES operations (number) ON DELETE CASCADE,
    body      BLOB NOT NULL CHECK (length(body) BETWEEN 1 AND 8388608)
) STRICT;

-- What operations were asked before they went on, by the round that was answered so.
CREATE TABLE rounds (
    operation  INTEGER NOT NULL REFERENCES operations (number) ON DELETE CASCADE,
    number     INTEGER NOT NULL CHECK (number >= 0),
    attempt    INTEGER NOT NULL CHECK (attempt >= 1),
    state      BLOB NOT NULL CHECK (length(state) = 32),
    bare       INTEGER NOT NULL CHECK (bare IN (0, 1)),
    downstream TEXT NOT NULL CHECK (length(CAST(downstream AS BLOB)) <= 255),
    answers    BLOB NOT NULL CHECK (length(answers) = 32),
    question   BLOB CHECK (length(question) BETWEEN 1 AND 8388608),
    PRIMARY KEY (operation, number)
) STRICT;

CREATE TRIGGER rounds_are_appended BEFORE INSERT ON rounds
WHEN EXISTS (SELECT 1 FROM rounds WHERE operation = NEW.operation AND number >= NEW.number)
BEGIN
    SELECT RAISE(ABORT, 'rounds are only appended');
END;

CREATE TRIGGER rounds_keep_what_was_asked
BEFORE UPDATE OF operation, number, attempt, state, bare, downstream, question ON rounds
WHEN NEW.operation <> OLD.operation OR NEW.number <> OLD.number OR NEW.attempt <> OLD.attempt OR NEW.state <> OLD.state
  OR NEW.bare <> OLD.bare OR NEW.downstream <> OLD.downstream OR (NEW.question IS NOT OLD.question AND NEW.question IS NOT NULL)
BEGIN
    SELECT RAISE(ABORT, 'what was asked never changes');
END;

-- Rounds go with their operation, or when it begins anew.
CREATE TRIGGER rounds_stay BEFORE DELETE ON rounds
WHEN EXISTS (SELECT 1 FROM operations WHERE number = OLD.operation AND (state <> 1 OR move <> 1))
BEGIN
    SELECT RAISE(ABORT, 'a round is part of what an operation was told');
END;

CREATE TABLE events (
    operation INTEGER NOT NULL REFERENCES operations (number) ON DELETE CASCADE,
    sequence  INTEGER NOT NULL,
    move      INTEGER NOT NULL CHECK (move BETWEEN 0 AND 20),
    attempt   INTEGER NOT NULL,
    state     INTEGER NOT NULL CHECK (state BETWEEN 1 AND 5),
    at        INTEGER NOT NULL,
    actor     TEXT NOT NULL,
    note      TEXT NOT NULL,
    PRIMARY KEY (operation, sequence)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER events_are_appended BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE operation = NEW.operation AND sequence >= NEW.sequence)
BEGIN
    SELECT RAISE(ABORT, 'history is only appended to');
END;

CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'history is only appended to');
END;

-- Events go only with their operation.
CREATE TRIGGER events_stay BEFORE DELETE ON events
WHEN EXISTS (SELECT 1 FROM operations WHERE number = OLD.operation)
BEGIN
    SELECT RAISE(ABORT, 'history is only appended to');
END;

-- Upstreams and accounts that were renamed: what was claimed under the first name counts
-- as claimed under the second too. Operations keep their own, which their digests hold.
CREATE TABLE renames (
    upstream    TEXT NOT NULL,
    account     TEXT NOT NULL,
    to_upstream TEXT NOT NULL,
    to_account  TEXT NOT NULL,
    at          INTEGER NOT NULL,
    actor       TEXT NOT NULL CHECK (actor <> ''),
    note        TEXT NOT NULL CHECK (note <> ''),
    UNIQUE (upstream, account, to_upstream, to_account)
) STRICT;

CREATE TRIGGER renames_are_appended BEFORE INSERT ON renames
WHEN EXISTS (SELECT 1 FROM renames WHERE upstream = NEW.upstream AND account = NEW.account
    AND to_upstream = NEW.to_upstream AND to_account = NEW.to_account)
BEGIN
    SELECT RAISE(ABORT, 'renames are only appended');
END;

CREATE TRIGGER renames_never_change BEFORE UPDATE ON renames
BEGIN
    SELECT RAISE(ABORT, 'renames are only appended');
END;

CREATE TRIGGER renames_stay BEFORE DELETE ON renames
BEGIN
    SELECT RAISE(ABORT, 'renames are only appended');
END;

CREATE TABLE tallies (
    day      TEXT NOT NULL,
    upstream TEXT NOT NULL,
    tool     TEXT NOT NULL,
    kind     TEXT NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (day, upstream, tool, kind)
) STRICT, WITHOUT ROWID;
