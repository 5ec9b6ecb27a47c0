-- Version 3: questions of upstreams and their rounds, and tasks. Nothing of an older
-- ledger had any.
ALTER TABLE operations ADD COLUMN round               INTEGER NOT NULL DEFAULT 0 CHECK (round >= 0);
ALTER TABLE operations ADD COLUMN input_until         INTEGER CHECK (input_until IS NULL OR state IN (1, 2));
ALTER TABLE operations ADD COLUMN task                BLOB CHECK (task IS NULL OR length(task) = 32);
ALTER TABLE operations ADD COLUMN task_status         TEXT NOT NULL DEFAULT '' CHECK (task_status IN ('', 'completed', 'failed', 'cancelled'));

CREATE INDEX operations_asked ON operations (input_until) WHERE state = 2;
CREATE INDEX operations_by_task ON operations (task, settled_at) WHERE task IS NOT NULL;

DROP TRIGGER operations_are_new;
CREATE TRIGGER operations_are_new BEFORE INSERT ON operations
BEGIN
    SELECT RAISE(ABORT, 'an operation begins with row 1, running, at attempt 1')
    WHERE NEW.state <> 1 OR NEW.move <> 1 OR NEW.attempt <> 1 OR NEW.doubt <> 0 OR NEW.round <> 0;
    SELECT RAISE(ABORT, 'the operation exists')
    WHERE EXISTS (SELECT 1 FROM operations WHERE loose = NEW.loose AND lookup = NEW.lookup)
       OR EXISTS (SELECT 1 FROM operations WHERE id = NEW.id)
       OR EXISTS (SELECT 1 FROM operations WHERE number = NEW.number);
END;

DROP TRIGGER operations_move;
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

CREATE TRIGGER rounds_stay BEFORE DELETE ON rounds
WHEN EXISTS (SELECT 1 FROM operations WHERE number = OLD.operation AND (state <> 1 OR move <> 1))
BEGIN
    SELECT RAISE(ABORT, 'a round is part of what an operation was told');
END;
