-- A ledger of schema version 1, as its own program left it: an answered operation,
-- one that is unknown after one sending, a released one, one that is unknown after a
-- second sending (row 16), and one whose owner died while it ran.
PRAGMA journal_mode=WAL;
BEGIN TRANSACTION;
CREATE TABLE meta (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    secret BLOB NOT NULL CHECK (length(secret) = 32),
    since  INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES(1,X'3e8d0b0169400f72e62cce6d17c3e7e59573feae7fb986c22b1c494ae5c78bd2',1785585600000);
CREATE TABLE scopes (
    number    INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    upstream  TEXT NOT NULL,
    account   TEXT NOT NULL,
    tool      TEXT NOT NULL,
    UNIQUE (tool, upstream, account, namespace)
) STRICT;
INSERT INTO scopes VALUES(1,'ada','shop','/srv','create_refund');
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
    -- One tree finds an operation by its lookup and, under another upstream or
    -- account, by its key alone: a lookup has but one loose digest.
    UNIQUE (loose, lookup)
) STRICT;
INSERT INTO operations VALUES(1,X'01a22e1c0da87c5f8017d6ded77e1247',X'8ba03fd78c3b1b4919e120d7e4130675b56fb4504f4747e90a42e0b4cad5aa24',X'048a18413a8f901b90e58be5e4cf62aefa96ac6b5a047aa6af83bb61240834f6',X'6247690689c0a1ade19c1f8b4aca1779a77b552681ce6cfd993ff4337fede2b3',X'983676730adcaf0b5909adf927d58e3e80e2bf75b8cee99b7c35006bc7b30fdc',1,1,'refu… (16)','NON_RETRYABLE',3,5,1,0,X'01a22e1c0da67c5b833c5c52b768a5fd',NULL,1785585601000,1785585601000,1785585601000,604800000,0,'',1,NULL,0,X'7b2273657373696f6e223a227331227d');
INSERT INTO operations VALUES(2,X'01a22e1c0dbc7d14b7470dec4e57c4aa',X'e3a087534a34c99565805c9914286f900a3747ac3d5f3158c6482fc81d4aca3d',X'419c948b76d61cd061efb3f77ac331811376682ea5b49131d6ffc354e0a6e915',X'cc61a0d841e8336135743826da793e3b633f8da7d839ee7b9318016f9708ef83',X'8ba51d4736ab7181a96c15995fcdfc651e2622fdd334fb45cbb5fb86c9709cf5',1,1,'refu… (16)','DEDUPLICATE',4,8,1,0,X'01a22e1c0da67c5b833c5c52b768a5fd',NULL,1785585602000,1785585602000,1785585602000,604800000,0,'timeout',0,NULL,0,X'7b2273657373696f6e223a227331227d');
INSERT INTO operations VALUES(3,X'01a22e1c0dcf79eda8b4534cdea945ee',X'3ffb3e91e0db76e925642d1d2716e2b8d7598dc3d8c4c50325447e14be56d306',X'452047a1d053dfe88e274de464b255b578455b70cd418d4aa3d41351c7b0a618',X'2868a3c8b9e0cd2ed8d4a89160cdd86d0ab312a2f2cda8d001ba195a2d985d52',X'32aca50c55fad39bb2533c886c2f31584fe8f63dedf71ae218fb51362b4911dc',1,1,'refu… (16)','DEDUPLICATE',5,2,1,0,X'01a22e1c0da67c5b833c5c52b768a5fd',NULL,1785585603000,1785585603000,1785585603000,604800000,0,'unreachable',0,NULL,0,X'7b2273657373696f6e223a227331227d');
INSERT INTO operations VALUES(4,X'01a22e1c0dd177adb728e2b698a3a540',X'da207136f531ff4383427c11f5777aa03baea8213c33a5e77b49183add5eaf69',X'b824c819bdd1d975daaa1b3452ac0f0b6a34a37bcf3e10c11d7c46ebc36d2cbe',X'857ab53f7f5eaae1a276067ce0a324b67cecd4f94424239bf4794ccb049902a0',X'76377e7c1058788ca7faec49c6571021e2e84ae71c1aebcdad0956dafab5397b',1,1,'refu… (16)','DEDUPLICATE',4,8,2,16,X'01a22e1c0da67c5b833c5c52b768a5fd',NULL,1785585604000,1785585605000,1785585605000,604800000,0,'connection_lost',0,NULL,0,X'7b2273657373696f6e223a227331227d');
INSERT INTO operations VALUES(5,X'01a22e1c0dd77509a7afda7982fe8341',X'b2c99e1a94e81d0a3aee43b0e76d1b4e23f48acfe4d1705fd02f2a62a5855ed8',X'ad270ea86a58ec94b07c6fee9a4153e67bda4822f04cdf51bf56be130e0af49b',X'6e83e0f9880037eb2f97edabd2f984551df84b2cc26a5888540e9e08f50a9774',X'cf8efab3ab523274363b6aea4ead2056001e7d182a6e491706543783c6c476b2',1,1,'refu… (16)','NON_RETRYABLE',1,1,1,0,X'01a22e1c0da67c5b833c5c52b768a5fd',NULL,1785585606000,1785585606000,NULL,604800000,0,'',0,NULL,0,X'7b2273657373696f6e223a227331227d');
CREATE TABLE results (
    operation INTEGER PRIMARY KEY REFERENCES operations (number) ON DELETE CASCADE,
    body      BLOB NOT NULL CHECK (length(body) BETWEEN 1 AND 8388608)
) STRICT;
INSERT INTO results VALUES(1,X'7b22726566756e64223a317d');
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
INSERT INTO events VALUES(1,1,1,1,1,1785585601000,'','');
INSERT INTO events VALUES(1,2,5,1,3,1785585601000,'','');
INSERT INTO events VALUES(2,1,1,1,1,1785585602000,'','');
INSERT INTO events VALUES(2,2,8,1,4,1785585602000,'','after 30 s');
INSERT INTO events VALUES(3,1,1,1,1,1785585603000,'','');
INSERT INTO events VALUES(3,2,2,1,5,1785585603000,'','');
INSERT INTO events VALUES(4,1,1,1,1,1785585604000,'','');
INSERT INTO events VALUES(4,2,8,1,4,1785585604000,'','');
INSERT INTO events VALUES(4,3,16,2,1,1785585605000,'','');
INSERT INTO events VALUES(4,4,8,2,4,1785585605000,'','');
INSERT INTO events VALUES(5,1,1,1,1,1785585606000,'','');
CREATE TABLE tallies (
    day      TEXT NOT NULL,
    upstream TEXT NOT NULL,
    tool     TEXT NOT NULL,
    kind     TEXT NOT NULL,
    count    INTEGER NOT NULL,
    PRIMARY KEY (day, upstream, tool, kind)
) STRICT, WITHOUT ROWID;
INSERT INTO tallies VALUES('2026-08-01','shop','create_refund','refused',1);
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
CREATE INDEX operations_by_content ON operations (content, claimed_at);
CREATE INDEX operations_by_claim ON operations (claimed_at);
CREATE INDEX operations_running ON operations (content) WHERE state = 1;
CREATE INDEX operations_open ON operations (open_until) WHERE open_until IS NOT NULL;
CREATE INDEX operations_overdue ON operations (settled_at + window, id) WHERE kept = 1 AND state = 3;
CREATE INDEX operations_by_repeat ON operations (repeat_of) WHERE repeat_of IS NOT NULL;
CREATE TRIGGER operations_are_new BEFORE INSERT ON operations
BEGIN
    SELECT RAISE(ABORT, 'an operation begins with row 1, running, at attempt 1')
    WHERE NEW.state <> 1 OR NEW.move <> 1 OR NEW.attempt <> 1 OR NEW.doubt <> 0;
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
CREATE TRIGGER operations_keep_their_content
BEFORE UPDATE OF content, fingerprint, fingerprint_version, repeat_of ON operations
WHEN NEW.attempt = OLD.attempt
 AND (NEW.content <> OLD.content OR NEW.fingerprint <> OLD.fingerprint
   OR NEW.fingerprint_version <> OLD.fingerprint_version OR NEW.repeat_of IS NOT OLD.repeat_of)
BEGIN
    SELECT RAISE(ABORT, 'what an operation does changes only with a new claim');
END;
CREATE TRIGGER operations_move BEFORE UPDATE OF state, move, attempt, doubt ON operations
WHEN NEW.state <> OLD.state OR NEW.move <> OLD.move OR NEW.attempt <> OLD.attempt OR NEW.doubt <> OLD.doubt
BEGIN
    SELECT RAISE(ABORT, 'no such move')
    WHERE NOT CASE NEW.move
        WHEN 1  THEN OLD.state = 5 AND NEW.state = 1
        WHEN 2  THEN OLD.state = 1 AND NEW.state = 5 AND OLD.doubt = 0
        WHEN 3  THEN OLD.state = 1 AND NEW.state = 5 AND OLD.doubt = 0
        WHEN 4  THEN OLD.state = 1 AND NEW.state = 5 AND OLD.doubt = 0
        WHEN 5  THEN OLD.state = 1 AND NEW.state = 3
        WHEN 6  THEN OLD.state = 1 AND (NEW.state = 4 OR (NEW.state = 3 AND OLD.doubt <> 16) OR (NEW.state = 5 AND OLD.doubt = 0))
        WHEN 7  THEN OLD.state = 1 AND (NEW.state = 4 OR (NEW.state = 3 AND OLD.doubt <> 16))
        WHEN 8  THEN OLD.state = 1 AND NEW.state = 4
        WHEN 9  THEN OLD.state = 1 AND NEW.state = 4
        WHEN 10 THEN OLD.state = 1 AND NEW.state = 2
        WHEN 11 THEN OLD.state = 2 AND NEW.state = 1
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
END;
CREATE TRIGGER operations_stay BEFORE DELETE ON operations
WHEN OLD.state <> 5
BEGIN
    SELECT RAISE(ABORT, 'only a released operation is deleted');
END;
CREATE TRIGGER events_are_appended BEFORE INSERT ON events
WHEN EXISTS (SELECT 1 FROM events WHERE operation = NEW.operation AND sequence >= NEW.sequence)
BEGIN
    SELECT RAISE(ABORT, 'history is only appended to');
END;
CREATE TRIGGER events_never_change BEFORE UPDATE ON events
BEGIN
    SELECT RAISE(ABORT, 'history is only appended to');
END;
CREATE TRIGGER events_stay BEFORE DELETE ON events
WHEN EXISTS (SELECT 1 FROM operations WHERE number = OLD.operation)
BEGIN
    SELECT RAISE(ABORT, 'history is only appended to');
END;
PRAGMA application_id=1835231588;
PRAGMA user_version=1;
COMMIT;
