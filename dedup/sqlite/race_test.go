//go:build race

package sqlite

// modelChecks is how many random histories are compared with the reference. The
// race detector makes SQLite, which is Go here, some twenty times slower.
const modelChecks = "5"
