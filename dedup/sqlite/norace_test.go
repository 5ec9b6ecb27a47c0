//go:build !race

package sqlite

// modelChecks is how many random histories are compared with the reference.
const modelChecks = "25"
