-- Version 5: upstreams and accounts that were renamed. Nothing of an older ledger was.
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
