// Command mcp-idem stands in front of an MCP server and makes its side effects
// safe to repeat.
package main

import "os"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }
