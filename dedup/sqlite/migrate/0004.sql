-- Version 4: operations of the same content are found by the hour of their claim.
DROP INDEX operations_by_content;
CREATE INDEX operations_by_content ON operations (claimed_at / 3600000, substr(content, 1, 8));
