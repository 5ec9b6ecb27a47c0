// Command scripted is the scripted MCP server of package upstreamtest.
package main

import (
	"os"

	"github.com/mcp-idem/mcp-idem/upstream/upstreamtest"
)

func main() {
	upstreamtest.Main() // as a grandchild of itself
	os.Exit(upstreamtest.Run(os.Args[1:]))
}
