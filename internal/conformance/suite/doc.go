// Package suite runs the official conformance suite of the Model Context Protocol
// (@modelcontextprotocol/conformance in the npm registry) against the Go SDK's
// conformance server, directly and through the gateway, and compares the checks.
//
//	kit.go       what is fetched and run
//	place.go     the arrangements: direct, and with the gateway between
//	process.go   a program that serves an address
//	report.go    the checks that the suite has made
//	compare.go   where two reports differ
//	expected.go  which differences are known, and why
//
// Checks are counted, not scenarios: some scenarios are green with none.
package suite
