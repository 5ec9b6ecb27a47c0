package gateway

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/toolschema"
	"github.com/mcp-idem/mcp-idem/upstream"
)

// Defaults of Options.
const (
	DefaultCallTimeout   = 10 * time.Minute
	DefaultLateWindow    = time.Hour
	DefaultWait          = 25 * time.Second
	DefaultWindow        = 168 * time.Hour
	DefaultNearDuplicate = 10 * time.Minute
	// DefaultReachWithin is how long a call waits for an upstream that is being
	// started again, before it is refused with nothing claimed.
	DefaultReachWithin = 10 * time.Second
	DefaultMaxAttempts = 2048
	// listWithin is how long an upstream may take to list its tools.
	listWithin            = time.Minute
	DefaultUpstreamWindow = 24 * time.Hour
)

// MaxRequestsInFlight is how many requests of one client may be open at a time.
// Over it, a request is refused and nothing is sent.
const MaxRequestsInFlight = 4096

// MaxMessageBytes is the largest message that a client may send.
const MaxMessageBytes = 32 << 20

// Options are the settings of a gateway. Zero durations are the defaults.
type Options struct {
	Scope         dedup.Scope // without Tool
	Policy        toolschema.Policy
	Keys          KeyPolicy
	Tools         []ToolRule    // what is said of single tools
	CallTimeout   time.Duration // until a caller is told EFFECT_UNKNOWN
	LateWindow    time.Duration // how long an answer is listened for after that; negative: not at all
	Wait          time.Duration // how long a repeated call waits for the running one
	MaxAttempts   int           // how many keyed calls may run at a time, those included whose callers have left; over it nothing is claimed
	InputWindow   time.Duration // how long a question of the upstream's may be answered
	NearDuplicate time.Duration // how far back a call of the same content counts
	// UpstreamWindow is how long, from the first send, an upstream of class
	// DEDUPLICATE is taken to honour a key.
	UpstreamWindow time.Duration
	ReachWithin    time.Duration
	DrainFor       time.Duration      // how long calls may go on after the client has closed its side; zero: as long as the call of any tool may take
	Judgement      upstream.Judgement // zero: upstream.DefaultJudgement
	// Dial makes the upstream; Upstream are its limits, without Handler, and of
	// the Observer only EraFound.
	Dial     upstream.Dialer
	Upstream upstream.Options
	// Name is that of one among several upstreams: a Front offers its tools as
	// Name__tool. Empty: the upstream is the only one.
	Name string
	// Digest is of all that says what the upstream is and how it is guarded. A Front
	// leaves alone what it has an upstream of the same Name and Digest of already.
	Digest string
	Log    zerolog.Logger
}

// separator stands between the name of an upstream and that of what it offers.
const separator = "__"

// Local returns a Dialer that starts a command, and keeps it running. Its errors are
// of type *upstream.StartError.
func Local(command upstream.Command) upstream.Dialer {
	return func(o upstream.Options) (upstream.Server, error) {
		process, err := upstream.Start(command, o)
		if err != nil {
			return nil, err
		}
		return process, nil
	}
}

// Remote returns a Dialer for a server behind a URL. Its errors are of type
// *upstream.StartError.
func Remote(to upstream.Endpoint) upstream.Dialer {
	return func(o upstream.Options) (upstream.Server, error) {
		remote, err := upstream.Dial(to, o)
		if err != nil {
			return nil, err
		}
		return remote, nil
	}
}

// A KeyPolicy says where keys may come from.
type KeyPolicy string

// The key policies.
const (
	KeysEither  KeyPolicy = "either"  // a harness's carrier, or the model's argument
	KeysModel   KeyPolicy = "model"   // only the argument
	KeysHarness KeyPolicy = "harness" // only a harness's carrier; tools are offered unchanged
)

// ParseKeyPolicy reads the word of a key policy.
func ParseKeyPolicy(word string) (KeyPolicy, error) {
	switch p := KeyPolicy(word); p {
	case KeysEither, KeysModel, KeysHarness:
		return p, nil
	}
	return "", fmt.Errorf("%q says not where keys come from: use model, harness or either", word)
}

// A Gateway stands between clients and one upstream. It is safe for concurrent
// use.
type Gateway struct {
	options Options
	log     zerolog.Logger
	ledger  *dedup.Ledger
	server  upstream.Server
	tools   *catalog

	// attempts run on their own, whatever becomes of their callers.
	attempts  sync.WaitGroup
	running   atomic.Int64    // of the attempts
	listeners sync.WaitGroup  // for late answers
	life      context.Context // ends when attempts and listeners must be given up
	end       context.CancelCauseFunc
	progress  progress
	tasks     *tasks
	state     clientState
	met       atomic.Bool // the upstream has once answered a handshake
	hasTools  atomic.Bool // it has declared tools
	announces atomic.Bool // and that it announces changes of them
}

var errShutdown = errors.New("the gateway is being shut down")

// New returns a gateway on a ledger, which stays the caller's to close. The
// upstream is started when a client is served.
func New(ledger *dedup.Ledger, options Options) *Gateway {
	options.fill()
	life, end := context.WithCancelCause(context.Background())
	g := &Gateway{tasks: &tasks{}, options: options, log: options.Log, ledger: ledger, life: life, end: end}
	if g.isOneOfSeveral() {
		g.log = g.log.With().Str("upstream", options.Name).Logger()
	}
	g.tools = newCatalog(g)
	return g
}

// isOneOfSeveral reports whether clients meet the upstream as a part of a Front, which
// then says what is to be said for all.
func (g *Gateway) isOneOfSeveral() bool { return g.options.Name != "" }

func (o *Options) fill() {
	for _, d := range []struct {
		value    *time.Duration
		standard time.Duration
	}{
		{&o.CallTimeout, DefaultCallTimeout}, {&o.LateWindow, DefaultLateWindow}, {&o.Wait, DefaultWait}, {&o.InputWindow, dedup.DefaultInputWindow},
		{&o.NearDuplicate, DefaultNearDuplicate}, {&o.ReachWithin, DefaultReachWithin},
		{&o.Policy.Window, DefaultWindow}, {&o.UpstreamWindow, DefaultUpstreamWindow},
	} {
		if *d.value == 0 {
			*d.value = d.standard
		}
	}
	if o.MaxAttempts == 0 {
		o.MaxAttempts = DefaultMaxAttempts
	}
	if o.DrainFor == 0 {
		o.DrainFor = o.longestCall()
	}
	if o.Keys == "" {
		o.Keys = KeysEither
	}
	o.Policy.HarnessKeys = o.Keys == KeysHarness
	if o.Judgement.AmbiguousTexts == nil {
		o.Judgement = upstream.DefaultJudgement()
	}
	if o.Name != "" {
		o.Policy.Prefix = o.Name + separator
	}
	if o.Policy.StatusTool == "" {
		o.Policy.StatusTool = StatusTool
	}
}
