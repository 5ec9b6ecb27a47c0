package gateway

import (
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// observer writes what happens to the upstream into the log, and has its tools
// read anew after a restart. The upstream's own words are a field of the log,
// whose format escapes them.
func (g *Gateway) observer(c *client) upstream.Observer {
	var junk sync.Once
	log := g.log.With().Str("upstream", g.options.Scope.Upstream).Logger()
	return upstream.Observer{
		Stderr: func(line []byte) { log.Info().Bytes("stderr", line).Msg("upstream") },
		Junk: func(line []byte) {
			junk.Do(func() {
				log.Warn().Int("bytes", len(line)).Msg("the upstream writes lines to its standard output that are no messages; they are skipped")
			})
		},
		TooLong: func(e *jsonrpc.TooLongError) {
			log.Warn().Int("limit", e.Limit).Msg("a message of the upstream was dropped: it is too long")
		},
		Stray: func(jsonrpc.Message) {
			log.Warn().Msg("the upstream sent an answer to no open request")
		},
		Exited: func(err error, next time.Duration) {
			log.Warn().Err(err).Dur("restart_in_ms", next).Msg("the upstream is gone")
			c.upstreamGone()
		},
		Restarted: func(s upstream.Session) {
			log.Info().Msg("the upstream is back")
			g.tools.invalidate()
			c.requests.spawn(func() { g.state.restore(g.life, s) })
			c.requests.spawn(func() {
				c.toolsChanged(jsonrpc.Notification("notifications/tools/list_changed", nil))
			})
		},
	}
}
