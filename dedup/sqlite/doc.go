// Package sqlite keeps a ledger in one SQLite file: the default store of
// package dedup.
//
// Several processes share a file as a rule, since every agent client starts a
// gateway of its own. Beside the file stand SQLite's own -wal and -shm, and the
// folder <ledger>-owners, in which every process that has the ledger open holds
// a lock on a file of its own until its end. They stand beside the file that
// symbolic links lead to; a file with several hard links is refused.
//
// Writes go through one goroutine, which commits them in groups: all that wait
// share one transaction and one sync to disk. Nobody is answered before the
// transaction that holds his write is durable.
//
// No other code of the process may open the file: closing any descriptor of a file
// drops all locks that the process holds on it (fcntl(2), "Record locks").
//
// # Compatibility
//
// The file carries an application id and a schema version. Opening a ledger of an
// older version migrates it, in one transaction and for good. A program refuses a
// version that it does not know when it opens the file, and within every
// transaction that writes, because another program may have migrated the file
// meanwhile: from then on the older one goes on reading, but must be restarted as
// the newer one to write.
package sqlite
