package gateway

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// An audience is who is on the other side of the gateway: one client, or many. It
// takes what the upstream says of its own accord, and must not block.
type audience interface {
	upstream.Handler
	// upstreamGone takes note that nobody waits for the answers to the upstream's
	// requests any more.
	upstreamGone()
	// upstreamBack takes note that the upstream was started again, and that its
	// tools may be others.
	upstreamBack(upstream.Session)
}

// dial makes the upstream of the gateway.
func (g *Gateway) dial(a audience) error {
	options := g.options.Upstream
	options.Handler, options.Observer = a, g.observer(a)
	server, err := g.options.Dial(options)
	if err != nil {
		return err
	}
	g.server = server
	return nil
}

// observer writes what happens to the upstream into the log, and has its tools
// read anew after a restart. The upstream's own words are a field of the log,
// whose format escapes them.
func (g *Gateway) observer(a audience) upstream.Observer {
	var junk sync.Once
	var last atomic.Pointer[string] // that was said of an exit
	log := g.log
	if !g.isOneOfSeveral() {
		log = log.With().Str("upstream", g.options.Scope.Upstream).Logger()
	}
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
		EraFound: g.options.Upstream.Observer.EraFound,
		Exited: func(err error, next time.Duration) {
			level := zerolog.WarnLevel
			text := err.Error()
			if said := last.Swap(&text); said != nil && *said == text {
				level = zerolog.DebugLevel // it is tried on and on
			}
			message := "the upstream is gone"
			if !g.met.Load() {
				message = "the upstream cannot be reached; it is tried again"
			}
			log.WithLevel(level).Err(err).Int64("restart_in_ms", next.Milliseconds()).Msg(message)
			a.upstreamGone()
		},
		Restarted: func(s upstream.Session) {
			last.Store(nil)
			log.Info().Msg("the upstream is back")
			g.tools.invalidate()
			a.upstreamBack(s)
		},
	}
}
