package storetest

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A Reference is a ledger in memory: one lock, one map, no cleverness. Stores are
// compared with it. It implements Ledger.
type Reference struct {
	now    func() time.Time
	secret dedup.Secret
	since  time.Time

	mu      sync.Mutex
	ops     map[dedup.OperationID]dedup.Entry // with results
	order   map[dedup.OperationID]int         // of the first claims
	events  map[dedup.OperationID][]dedup.Event
	rounds  map[dedup.OperationID][]dedup.Round // with questions
	renames []dedup.Rename
	tallies map[day]map[dedup.TallyKind]int
	living  map[dedup.OwnerID]bool
	changed chan struct{} // closed and made anew with every change
}

type day struct{ date, upstream, tool string }

// NewReference makes an empty ledger whose clock is now.
func NewReference(now func() time.Time) *Reference {
	r := &Reference{
		now: func() time.Time { return now().UTC().Truncate(time.Millisecond) },
		ops: map[dedup.OperationID]dedup.Entry{}, order: map[dedup.OperationID]int{},
		events: map[dedup.OperationID][]dedup.Event{}, rounds: map[dedup.OperationID][]dedup.Round{}, tallies: map[day]map[dedup.TallyKind]int{},
		living: map[dedup.OwnerID]bool{}, changed: make(chan struct{}),
	}
	r.since = r.now()
	copy(r.secret[:], "a secret that is no secret at all")
	return r
}

// Open opens the ledger once more. t may be nil; then nothing closes the store.
func (r *Reference) Open(t T) dedup.Store {
	s := &referenceStore{Reference: r, owner: dedup.NewOwnerID()}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.living[s.owner] = true
	if t != nil {
		t.Cleanup(func() { _ = s.Close() })
	}
	return s
}

// Kill lets the owner of a store be dead.
func (r *Reference) Kill(_ T, s dedup.Store) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.living, s.Info().Owner)
}

// LosePower lets all owners be dead. What is in memory is as durable here as
// anything.
func (r *Reference) LosePower(T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.living)
}

// A referenceStore is one process's view of a Reference.
type referenceStore struct {
	*Reference
	owner dedup.OwnerID
}

var _ dedup.Store = (*referenceStore)(nil)

func (s *referenceStore) Info() dedup.Info {
	return dedup.Info{Secret: s.secret, Since: s.since, Owner: s.owner, Path: "memory"}
}

func (s *referenceStore) Close() error {
	s.Kill(nil, s)
	return nil
}

func (s *referenceStore) Find(ctx context.Context, q dedup.Query) (dedup.Surroundings, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.around(q), ctx.Err()
}

// around gathers with the result of Same.
func (r *Reference) around(q dedup.Query) dedup.Surroundings {
	found := r.aroundLookup(q)
	if e := found.Elsewhere; e != nil && (found.Same == nil || found.Same.State == dedup.Released) &&
		r.leads(e.Scope.Address(), q.Scope.Address(), len(r.renames)) {
		q.Lookup = e.Lookup
		return r.aroundLookup(q)
	}
	return found
}

// leads reports whether an address was renamed to another, in so many steps at most.
func (r *Reference) leads(from, to dedup.Address, steps int) bool {
	return from == to || steps > 0 && slices.ContainsFunc(r.renames, func(rename dedup.Rename) bool {
		return rename.From == from && r.leads(rename.To, to, steps-1)
	})
}

func (r *Reference) aroundLookup(q dedup.Query) dedup.Surroundings {
	found := dedup.Surroundings{Now: r.now()}
	for _, e := range r.sorted() {
		bare := withoutResult(e)
		if e.Lookup == q.Lookup {
			same := r.shown(e, found.Now)
			found.Same = &same
			if q.Rounds {
				found.Rounds = slices.Clone(r.rounds[e.ID])
			}
		}
		if e.ID == q.RepeatOf {
			found.Repeated = &bare
		}
		if e.Lookup == q.Lookup || e.State == dedup.Released {
			continue
		}
		if e.Loose == q.Loose && found.Elsewhere == nil {
			found.Elsewhere = &bare
		}
		near := found.Now.Sub(e.ClaimedAt) < q.Near
		if e.Content == q.Content && q.Near > 0 && (near || e.State == dedup.Running) && len(found.Twins) < dedup.MaxTwins {
			found.Twins = append(found.Twins, bare)
		}
		if e.RepeatOf == q.RepeatOf && !q.RepeatOf.IsZero() && found.RepeatedBy == nil {
			found.RepeatedBy = &bare
		}
	}
	return found
}

// sorted are all entries, newest claim first.
func (r *Reference) sorted() []dedup.Entry {
	return slices.SortedFunc(maps.Values(r.ops), func(a, b dedup.Entry) int {
		return cmp.Or(b.ClaimedAt.Compare(a.ClaimedAt), slices.Compare(b.ID[:], a.ID[:]))
	})
}

// shown is an entry as Find and Get give it.
func (r *Reference) shown(e dedup.Entry, now time.Time) dedup.Entry {
	if e.State == dedup.AwaitingInput {
		e.Result = nil
		for _, round := range r.rounds[e.ID] {
			e.Result = round.Question
		}
	}
	return e.Shown(now)
}

func withoutResult(e dedup.Entry) dedup.Entry {
	e.Result = nil
	return e
}

func (s *referenceStore) Get(_ context.Context, id dedup.OperationID) (dedup.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.ops[id]; ok {
		return s.shown(e, s.now()), nil
	}
	return dedup.Entry{}, dedup.ErrNotFound
}

func (s *referenceStore) Claim(ctx context.Context, q dedup.Query, decide func(dedup.Surroundings) (dedup.Change, bool)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	around := s.around(q)
	old := dedup.Entry{}
	if around.Same != nil {
		old = s.ops[around.Same.ID]
		*around.Same = withoutResult(*around.Same)
		for i := range around.Rounds {
			around.Rounds[i].Question = nil
		}
	}
	if change, wanted := decide(around); wanted {
		return s.write(old, change, around.Now)
	}
	return nil
}

func (s *referenceStore) Move(ctx context.Context, id dedup.OperationID, decide func(dedup.Entry, time.Time) (dedup.Change, bool)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	old, ok := s.ops[id]
	if !ok {
		return dedup.ErrNotFound
	}
	now := s.now()
	if change, wanted := decide(withoutResult(old), now); wanted {
		return s.write(old, change, now)
	}
	return nil
}

func (r *Reference) write(old dedup.Entry, c dedup.Change, now time.Time) error {
	e := c.Entry
	if e.State != old.State && !slices.ContainsFunc(dedup.Moves, func(m dedup.Move) bool {
		return m.From == old.State && m.To == e.State && m.Row == e.Row
	}) {
		return fmt.Errorf("no row %d from %s to %s", e.Row, old.State, e.State)
	}
	if e.State == old.State && e.Row == old.Row && e.Round != old.Round {
		return fmt.Errorf("another round without a move")
	}
	if len(e.Downstream) > dedup.MaxDownstreamBytes {
		return fmt.Errorf("a form of the key downstream of %d bytes", len(e.Downstream))
	}
	if !c.Keep {
		e.Result = old.Result
	}
	e.Result = slices.Clone(e.Result)
	c.Event.At = now
	r.ops[e.ID] = e
	if r.order[e.ID] == 0 {
		r.order[e.ID] = len(r.order) + 1
	}
	r.writeRounds(old, c)
	r.events[e.ID] = append(r.events[e.ID], c.Event)
	close(r.changed)
	r.changed = make(chan struct{})
	return nil
}

func (s *referenceStore) Await(ctx context.Context, seen dedup.Entry) error {
	for {
		s.mu.Lock()
		e, changed := s.ops[seen.ID], s.changed
		s.mu.Unlock()
		if e.State != seen.State || e.Attempt != seen.Attempt || e.Round != seen.Round || e.Open() != seen.Open() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (s *referenceStore) Tally(t dedup.Tally) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := day{s.now().Format(time.DateOnly), t.Upstream, t.Tool}
	if s.tallies[d] == nil {
		s.tallies[d] = map[dedup.TallyKind]int{}
	}
	s.tallies[d][t.Kind]++
	if e, ok := s.ops[t.Operation]; ok && t.Kind == dedup.TallyReplay {
		e.Replays++
		s.ops[e.ID] = e
	}
}

func (s *referenceStore) Unsettled(ctx context.Context) (unsettled []dedup.Entry, err error) {
	for e := range s.List(ctx, dedup.Filter{}) {
		if e.State == dedup.Running || e.Open() || e.Unanswered(s.now()) {
			unsettled = append(unsettled, e)
		}
	}
	return unsettled, nil
}

func (s *referenceStore) Overdue(ctx context.Context, limit int) (overdue []dedup.Entry, err error) {
	for e := range s.List(ctx, dedup.Filter{}) {
		if e.Overdue(s.now()) {
			overdue = append(overdue, e)
		}
	}
	slices.SortFunc(overdue, func(a, b dedup.Entry) int {
		return cmp.Or(a.SettledAt.Add(a.Window).Compare(b.SettledAt.Add(b.Window)), slices.Compare(a.ID[:], b.ID[:]))
	})
	return overdue[:min(limit, len(overdue))], nil
}

func (s *referenceStore) Alive(owner dedup.OwnerID) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.living[owner], nil
}

func (s *referenceStore) List(_ context.Context, f dedup.Filter) iter.Seq2[dedup.Entry, error] {
	return func(yield func(dedup.Entry, error) bool) {
		s.mu.Lock()
		all, now := s.sorted(), s.now()
		s.mu.Unlock()
		n := 0
		for _, e := range all {
			if (f.State == 0 || e.State == f.State) && (f.Tool == "" || e.Scope.Tool == f.Tool) &&
				(f.Since <= 0 || now.Sub(e.ClaimedAt) < f.Since) && (f.Limit <= 0 || n < f.Limit) {
				if n++; !yield(withoutResult(e), nil) {
					return
				}
			}
		}
	}
}

func (s *referenceStore) History(_ context.Context, id dedup.OperationID) ([]dedup.Event, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.events[id]) == 0 {
		return nil, dedup.ErrNotFound
	}
	return slices.Clone(s.events[id]), nil
}

func (s *referenceStore) Totals(context.Context) ([]dedup.Total, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	totals := map[day]dedup.Total{}
	at := func(d day) dedup.Total {
		if t, ok := totals[d]; ok {
			return t
		}
		return dedup.Total{Day: d.date, Upstream: d.upstream, Tool: d.tool, States: map[dedup.State]int{}, Tallies: map[dedup.TallyKind]int{}}
	}
	for _, e := range s.ops {
		d := day{e.CreatedAt.Format(time.DateOnly), e.Scope.Upstream, e.Scope.Tool}
		t := at(d)
		t.States[e.State]++
		if e.State == dedup.Completed && e.IsError {
			t.Errors++
		}
		if e.Row == 15 && e.State != dedup.Unknown {
			t.Resolved++
		}
		totals[d] = t
	}
	for d, kinds := range s.tallies {
		t := at(d)
		maps.Copy(t.Tallies, kinds)
		totals[d] = t
	}
	return slices.SortedFunc(maps.Values(totals), func(a, b dedup.Total) int {
		return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Upstream, b.Upstream), cmp.Compare(a.Tool, b.Tool))
	}), nil
}
