-- A ledger of schema version 4, as its own program left it: an answered operation, one
-- that is unknown after one sending, a released one, one that is unknown after a second
-- sending (row 16), one that awaits input, one that was asked and answered, one that was
-- answered with a task, which has ended, one that a person has resolved, and one whose
-- owner died while it ran.
PRAGMA journal_mode=WAL;
BEGIN TRANSACTION;
CREATE TABLE meta (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    secret BLOB NOT NULL CHECK (length(secret) = 32),
    since  INTEGER NOT NULL
) STRICT;
INSERT INTO meta VALUES(1,X'053f7d5c9d3353afdfff97f4ac7404de070f50b6f5b247799c2d99a118e75f40',1785585600000);
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
    downstream          TEXT NOT NULL DEFAULT '' CHECK (length(CAST(downstream AS BLOB)) <= 255),
    round               INTEGER NOT NULL DEFAULT 0 CHECK (round >= 0),
    input_until         INTEGER CHECK (input_until IS NULL OR state IN (1, 2)),
    task                BLOB CHECK (task IS NULL OR length(task) = 32),
    task_status         TEXT NOT NULL DEFAULT '' CHECK (task_status IN ('', 'completed', 'failed', 'cancelled')),
    -- One tree finds an operation by its lookup and, under another upstream or
    -- account, by its key alone: a lookup has but one loose digest.
    UNIQUE (loose, lookup)
) STRICT;
INSERT INTO operations VALUES(1,X'01a22f430d0e73e2aa5a149155a451c7',X'7730c0f1ae42e92f77d76482a5b3b9aa43cd27a3e2ed31eb20d12aa20ee949ef',X'f0bba8e5fb09a708fb04dc3031f73e7712dd482825b9d94ab85ec18ddcd18e85',X'04d0c9a4ec3deaefb136ee5408f6c5111aa96e726f9685c33bd7b07254e6e8e7',X'3d59058841093377c40c26ba12d47d1efc3b618d68f38200fa281f05fbb9fc7a',1,1,'refu… (16)','DEDUPLICATE',3,5,1,0,X'01a22f430d087715afa35723ad39e187',NULL,1785585601000,1785585601000,1785585601000,604800000,0,'',1,NULL,0,X'7b2273657373696f6e223a227331227d','params.client_token',0,NULL,NULL,'');
INSERT INTO operations VALUES(2,X'01a22f430d1c76c6bf9f2a66d88d2b2a',X'03df9a8bef72bec8a545d8611b975b4b9d233f9d8afa45fb41dee4da195692da',X'ef98d2e143d132c1f37175a276d685a9fcb5f91c27361adc713dcbda855b73be',X'04d0c9a4ec3deaefb136ee5408f6c5111aa96e726f9685c33bd7b07254e6e8e7',X'3d59058841093377c40c26ba12d47d1efc3b618d68f38200fa281f05fbb9fc7a',1,1,'refu… (16)','DEDUPLICATE',4,8,1,0,X'01a22f430d087715afa35723ad39e187',NULL,1785585602000,1785585602000,1785585602000,604800000,0,'connection_lost',0,NULL,0,X'7b2273657373696f6e223a227331227d','params.client_token',0,NULL,NULL,'');
INSERT INTO operations VALUES(3,X'01a22f430d2276aa9d4c13415d4e21b2',X'c97c6f8879cc7f8ef3ada835505cd27438774bf803729eed6cb2e633fd315579',X'9bd5d72a5219319041e718558410bd3b38002387a01f279439ec24cf641a2b2d',X'04d0c9a4ec3deaefb136ee5408f6c5111aa96e726f9685c33bd7b07254e6e8e7',X'3d59058841093377c40c26ba12d47d1efc3b618d68f38200fa281f05fbb9fc7a',1,1,'refu… (16)','DEDUPLICATE',5,2,1,0,X'01a22f430d087715afa35723ad39e187',NULL,1785585603000,1785585603000,1785585603000,604800000,0,'unreachable',0,NULL,0,X'7b2273657373696f6e223a227331227d','params.client_token',0,NULL,NULL,'');
INSERT INTO operations VALUES(4,X'01a22f430d2878c190becdfa96ada4ab',X'80d91517905153816c13a79d4ca66e12ab10873ea03936aa3f8efb115339620b',X'1b4436865167e7b1cd58edbff199a20a3ceaf7f238f1da78f577b2e6ab11f765',X'04d0c9a4ec3deaefb136ee5408f6c5111aa96e726f9685c33bd7b07254e6e8e7',X'3d59058841093377c40c26ba12d47d1efc3b618d68f38200fa281f05fbb9fc7a',1,1,'refu… (16)','DEDUPLICATE',4,8,2,16,X'01a22f430d087715afa35723ad39e187',NULL,1785585604000,1785585605000,1785585605000,604800000,0,'connection_lost',0,NULL,0,X'7b2273657373696f6e223a227331227d','params.client_token',1,NULL,NULL,'');
INSERT INTO operations VALUES(5,X'01a22f430d3371108f48a893d38619e8',X'5e01f1137deeaa7384bc88aeb6017059774adc63db7891c48b7a3eee245c2f0b',X'370efbb9a7c9bd1246bec454f72ab6ddcd315c59e7412dc6f133ee3d2609cb40',X'04d0c9a4ec3deaefb136ee5408f6c5111aa96e726f9685c33bd7b07254e6e8e7',X'3d59058841093377c40c26ba12d47d1efc3b618d68f38200fa281f05fbb9fc7a',1,1,'refu… (16)','DEDUPLICATE',2,10,1,0,X'01a22f430d087715afa35723ad39e187',NULL,1785585606000,1785585606000,NULL,604800000,0,'input_required',0,NULL,0,X'7b2273657373696f6e223a227331227d','params.client_token',0,1785589206000,NULL,'');
INSERT INTO operations VALUES(6,X'01a22f430d35713e8502974eaf5b92ff',X'c362e8744a9057d54c99318de1943041fd11690ba0970b4d3a6d9af039cf2ce2',X'97330151b1eb2e4da6fa1239601e45e0f13d51ff787f21f4a4d8376c307ce4d3',X'04d0c9a4ec3deaefb136ee5408f6c5111aa96e726f9685c33bd7b07254e6e8e7',X'3d59058841093377c40c26ba12d47d1efc3b618d68f38200fa281f05fbb9fc7a',1,1,'refu… (16)','DEDUPLICATE',3,5,1,0,X'01a22f430d087715afa35723ad39e187',NULL,1785585607000,1785585607000,1785585608000,604800000,0,'',1,NULL,0,X'7b2273657373696f6e223a227331227d','params.client_token',1,NULL,NULL,'');
INSERT INTO operations VALUES(7,X'01a22f430d5879fd8777f074a0ffbe7d',X'8461cc337b8dfe69f81bb64013e756a5f1484bf0e59d9147a7e451f484bf4fac',X'5b581c029848e3f688fda94af485a066ae30c6c21b24b3ddfd95f0221c16e3d3',X'04d0c9a4ec3deaefb136ee5408f6c5111aa96e726f9685c33bd7b07254e6e8e7',X'3d59058841093377c40c26ba12d47d1efc3b618d68f38200fa281f05fbb9fc7a',1,1,'refu… (16)','DEDUPLICATE',3,5,1,0,X'01a22f430d087715afa35723ad39e187',NULL,1785585609000,1785585609000,1785585609000,604800000,0,'',1,NULL,0,X'7b2273657373696f6e223a227331227d','params.client_token',0,NULL,X'5a9da3a1c914bbb4b1748f8f5d3a26b3c29096e60ed6752cea37b993aaf80882','completed');
INSERT INTO operations VALUES(8,X'01a22f430d5c7e55ac15e1867a42ba55',X'b501ad4981477f2da9804e8cacdda3324c4c663f9a291c035366084941461d8f',X'852a887ecfd75fe48f0c005381b118a69a1faa026b18679770b4c3f75e9a8cba',X'04d0c9a4ec3deaefb136ee5408f6c5111aa96e726f9685c33bd7b07254e6e8e7',X'3d59058841093377c40c26ba12d47d1efc3b618d68f38200fa281f05fbb9fc7a',1,1,'refu… (16)','DEDUPLICATE',3,15,1,0,X'01a22f430d087715afa35723ad39e187',NULL,1785585610000,1785585610000,1785585611000,604800000,0,'resolved_executed',0,NULL,0,X'7b2273657373696f6e223a227331227d','params.client_token',0,NULL,NULL,'');
INSERT INTO operations VALUES(9,X'01a22f430d63705d9e3fa94d4302baff',X'52820ae01dbdb323b76a634de0e8e695094b016a383b6af31a7a14971903c0b1',X'e70082b318ba9c721b8acf3bfcebc80d2b5f6105ee7cdb5b279696d7616bf09f',X'04d0c9a4ec3deaefb136ee5408f6c5111aa96e726f9685c33bd7b07254e6e8e7',X'3d59058841093377c40c26ba12d47d1efc3b618d68f38200fa281f05fbb9fc7a',1,1,'refu… (16)','DEDUPLICATE',1,1,1,0,X'01a22f430d087715afa35723ad39e187',NULL,1785585612000,1785585612000,NULL,604800000,0,'',0,NULL,0,X'7b2273657373696f6e223a227331227d','params.client_token',0,NULL,NULL,'');
CREATE TABLE results (
    operation INTEGER PRIMARY KEY REFERENCES operations (number) ON DELETE CASCADE,
    body      BLOB NOT NULL CHECK (length(body) BETWEEN 1 AND 8388608)
) STRICT;
INSERT INTO results VALUES(1,X'7b22726566756e64223a317d');
INSERT INTO results VALUES(6,X'7b22726566756e64223a317d');
INSERT INTO results VALUES(7,X'7b227461736b223a387d');
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
INSERT INTO rounds VALUES(5,0,1,X'e8bc163c82eee18733288c7d4ac636db3a6deb013ef2d37b68322be20edc45cc',0,'params.client_token',X'0000000000000000000000000000000000000000000000000000000000000000',X'7b2261736b223a317d');
INSERT INTO rounds VALUES(6,0,1,X'e8bc163c82eee18733288c7d4ac636db3a6deb013ef2d37b68322be20edc45cc',0,'params.client_token',X'8a798890fe93817163b10b5f7bd2ca4d25d84c52739a645a889c173eee7d9d3d',X'7b2261736b223a317d');
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
INSERT INTO events VALUES(2,2,8,1,4,1785585602000,'','');
INSERT INTO events VALUES(3,1,1,1,1,1785585603000,'','');
INSERT INTO events VALUES(3,2,2,1,5,1785585603000,'','');
INSERT INTO events VALUES(4,1,1,1,1,1785585604000,'','');
INSERT INTO events VALUES(4,2,8,1,4,1785585604000,'','');
INSERT INTO events VALUES(4,3,16,2,1,1785585605000,'','');
INSERT INTO events VALUES(4,4,8,2,4,1785585605000,'','');
INSERT INTO events VALUES(5,1,1,1,1,1785585606000,'','');
INSERT INTO events VALUES(5,2,10,1,2,1785585606000,'','');
INSERT INTO events VALUES(6,1,1,1,1,1785585607000,'','');
INSERT INTO events VALUES(6,2,10,1,2,1785585607000,'','');
INSERT INTO events VALUES(6,3,11,1,1,1785585608000,'','');
INSERT INTO events VALUES(6,4,5,1,3,1785585608000,'','');
INSERT INTO events VALUES(7,1,1,1,1,1785585609000,'','');
INSERT INTO events VALUES(7,2,5,1,3,1785585609000,'','');
INSERT INTO events VALUES(7,3,5,1,3,1785585610000,'','task completed');
INSERT INTO events VALUES(8,1,1,1,1,1785585610000,'','');
INSERT INTO events VALUES(8,2,8,1,4,1785585610000,'','');
INSERT INTO events VALUES(8,3,15,1,3,1785585611000,'ada','looked');
INSERT INTO events VALUES(9,1,1,1,1,1785585612000,'','');
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
CREATE INDEX operations_by_content ON operations (claimed_at / 3600000, substr(content, 1, 8));
CREATE INDEX operations_by_claim ON operations (claimed_at);
CREATE INDEX operations_running ON operations (content) WHERE state = 1;
CREATE INDEX operations_open ON operations (open_until) WHERE open_until IS NOT NULL;
CREATE INDEX operations_overdue ON operations (settled_at + window, id) WHERE kept = 1 AND state = 3;
CREATE INDEX operations_by_repeat ON operations (repeat_of) WHERE repeat_of IS NOT NULL;
CREATE INDEX operations_asked ON operations (input_until) WHERE state = 2;
CREATE INDEX operations_by_task ON operations (task, settled_at) WHERE task IS NOT NULL;
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
CREATE TRIGGER operations_keep_their_content
BEFORE UPDATE OF content, fingerprint, fingerprint_version, repeat_of ON operations
WHEN NEW.attempt = OLD.attempt
 AND (NEW.content <> OLD.content OR NEW.fingerprint <> OLD.fingerprint
   OR NEW.fingerprint_version <> OLD.fingerprint_version OR NEW.repeat_of IS NOT OLD.repeat_of)
BEGIN
    SELECT RAISE(ABORT, 'what an operation does changes only with a new claim');
END;
CREATE TRIGGER operations_keep_their_downstream BEFORE UPDATE OF downstream ON operations
WHEN NEW.downstream <> OLD.downstream
 AND (NEW.attempt = OLD.attempt OR (OLD.state = 4 AND (NEW.move <> 17 OR NEW.downstream <> '')))
BEGIN
    SELECT RAISE(ABORT, 'the form of the key downstream changes only with a new claim');
END;
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
CREATE TRIGGER rounds_stay BEFORE DELETE ON rounds
WHEN EXISTS (SELECT 1 FROM operations WHERE number = OLD.operation AND (state <> 1 OR move <> 1))
BEGIN
    SELECT RAISE(ABORT, 'a round is part of what an operation was told');
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
PRAGMA user_version=4;
COMMIT;
