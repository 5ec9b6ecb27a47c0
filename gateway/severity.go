package gateway

import (
	"slices"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

const methodMessage = "notifications/message"

// A severity is the level of a log message, counted from the least (RFC 5424,
// section 6.2.1, the other way round). The zero value is below all of them.
type severity int

var severities = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// parseSeverity reads a level's name; ok is false for any other word.
func parseSeverity(level string) (_ severity, ok bool) {
	i := slices.Index(severities, level)
	return severity(i + 1), i >= 0
}

func (s severity) String() string { return severities[s-1] }

// severityOf is the level of a notifications/message. One that cannot be read is
// kept from nobody.
func severityOf(m jsonrpc.Message) severity {
	params, err := rawjson.ParseObject(m.Params)
	if err != nil {
		return severity(len(severities))
	}
	level, _ := params.String("level")
	if s, ok := parseSeverity(level); ok {
		return s
	}
	return severity(len(severities))
}
