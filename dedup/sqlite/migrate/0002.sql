-- Version 2: in which form an operation's attempts have carried a key downstream. Of
-- older operations nobody has noted it, and so none of them is sent again by row 16.
ALTER TABLE operations ADD COLUMN downstream TEXT NOT NULL DEFAULT '' CHECK (length(CAST(downstream AS BLOB)) <= 255);

CREATE TRIGGER operations_keep_their_downstream BEFORE UPDATE OF downstream ON operations
WHEN NEW.downstream <> OLD.downstream
 AND (NEW.attempt = OLD.attempt OR (OLD.state = 4 AND (NEW.move <> 17 OR NEW.downstream <> '')))
BEGIN
    SELECT RAISE(ABORT, 'the form of the key downstream changes only with a new claim');
END;
