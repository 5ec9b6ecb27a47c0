package sqlite

import (
	"context"
	"errors"

	"sync"
	"time"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// DefaultBusyTimeout is how long a write waits for another process's.
const DefaultBusyTimeout = 10 * time.Second

// Options say how to open a ledger. The zero value is what a gateway uses.
type Options struct {
	// BusyTimeout is how long a write waits for other processes before it fails
	// with nothing written. 0: DefaultBusyTimeout.
	BusyTimeout time.Duration
	// Now is the store's clock, for tests. nil: time.Now.
	Now func() time.Time
	// Unsynced lets commits return before they are on disk, for measurements: with it
	// the store does not keep what dedup.Store promises.
	Unsynced bool
}

// A Store keeps a ledger in a SQLite file. It implements dedup.Store, whose
// comment is its contract.
type Store struct {
	info    dedup.Info
	now     func() time.Time
	readers *readers
	writer  *writer
	tallies *tallies
	watch   *watch
	owners  *owners
	closing sync.Once
	closed  error // what Close came to
}

var _ dedup.Store = (*Store)(nil)

// Open opens the ledger at path, and makes it, its folder included, where
// nothing is. Any number of processes may do so at once, also through symbolic
// links to the file or its folder: Info.Path is where it really stands. An error
// is an *OpenError, one line that says what to do.
func Open(path string, o Options) (*Store, error) {
	if o.BusyTimeout == 0 {
		o.BusyTimeout = DefaultBusyTimeout
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	resolved, err := locate(path)
	if err != nil {
		return nil, explain(resolved, err)
	}
	s, err := open(resolved, o)
	if err != nil {
		return nil, explain(resolved, err)
	}
	return s, nil
}

func open(path string, o Options) (s *Store, err error) {
	if err := prepare(path, o); err != nil {
		return nil, err
	}
	s = &Store{
		now:     func() time.Time { return o.Now().UTC().Truncate(time.Millisecond) },
		tallies: newTallies(),
		watch:   newWatch(),
		owners:  &owners{folder: path + "-owners"},
	}
	defer func() {
		if err != nil {
			_ = s.Close() // err says what went wrong
		}
	}()
	at, err := locationOf(path)
	if err != nil {
		return s, err
	}
	if s.readers, err = openReaders(at, o); err != nil {
		return s, err
	}
	if s.info, err = s.readers.info(); err != nil {
		return s, err
	}
	s.info.Path = path
	s.info.Owner = dedup.NewOwnerID()
	if err = s.owners.join(s.info.Owner); err != nil {
		return s, err
	}
	return s, s.startWriter(at, o)
}

func (s *Store) startWriter(at location, o Options) error {
	w := &writer{dsn: dsn(at.path, toWrite, o), at: at, tallies: s.tallies, watch: s.watch}
	if err := w.start(); err != nil {
		return err
	}
	s.writer = w
	return nil
}

// Info tells what does not change while the store is open.
func (s *Store) Info() dedup.Info { return s.info }

// Tally counts something with the next commit, or after two seconds.
func (s *Store) Tally(t dedup.Tally) {
	s.tallies.add(t, s.now())
}

// Alive reports whether an owner's process lives, by the lock on its file.
func (s *Store) Alive(owner dedup.OwnerID) (bool, error) { return s.owners.alive(owner) }

// Close finishes the writes that were begun, writes the tallies, and gives up
// this process's ownership last. It may be called more than once.
func (s *Store) Close() error {
	s.closing.Do(func() {
		var errs []error
		close(s.watch.closed)
		if s.writer != nil {
			s.writer.stop()
		}
		if s.readers != nil {
			errs = append(errs, s.readers.close())
		}
		s.closed = errors.Join(append(errs, s.owners.release())...)
	})
	return s.closed
}

// Claim gathers what stands in a claim's way, asks decide, and writes the change
// that it wants.
func (s *Store) Claim(ctx context.Context, q dedup.Query, decide func(dedup.Surroundings) (dedup.Change, bool)) error {
	return s.write(ctx, func(tx *session) (outcome, error) {
		now := s.now()
		around, same, err := surroundings(context.Background(), tx.conn, q, now, false)
		if err != nil {
			return outcome{}, err
		}
		if q.Rounds {
			if around.Rounds, err = rounds(context.Background(), tx.conn, same.number, false); err != nil {
				return outcome{}, err
			}
		}
		change, wanted := decide(around)
		if !wanted {
			return outcome{}, nil
		}
		if same.number != 0 {
			return alter(tx, same, change, now)
		}
		if err := belongs(change.Entry, q); err != nil {
			return outcome{err: err}, nil
		}
		return outcome{wrote: change.Entry.ID}, tx.add(change, now)
	})
}

// Move loads one operation, asks decide, and writes the change that it wants.
func (s *Store) Move(ctx context.Context, id dedup.OperationID, decide func(dedup.Entry, time.Time) (dedup.Change, bool)) error {
	return s.write(ctx, func(tx *session) (outcome, error) {
		now := s.now()
		r, err := tx.find(id)
		if errors.Is(err, dedup.ErrNotFound) {
			return outcome{err: err}, nil
		}
		if err != nil {
			return outcome{}, err
		}
		change, wanted := decide(r.entry, now)
		if !wanted {
			return outcome{}, nil
		}
		return alter(tx, r, change, now)
	})
}

func (s *Store) write(ctx context.Context, apply func(*session) (outcome, error)) error {
	return s.writer.write(ctx, apply)
}

// alter writes a change of an operation that exists.
func alter(tx *session, r row, c dedup.Change, now time.Time) (outcome, error) {
	if was, is := r.entry, c.Entry; is.ID != was.ID || is.Lookup != was.Lookup || is.Loose != was.Loose ||
		is.Scope != was.Scope || is.KeyHint != was.KeyHint || !is.CreatedAt.Equal(was.CreatedAt) {
		return outcome{err: errors.New("a change names another operation than the one that it was asked about")}, nil
	}
	return outcome{wrote: r.entry.ID}, tx.change(r, c, now)
}

// belongs makes sure that a new operation is what the claim asked about.
func belongs(e dedup.Entry, q dedup.Query) error {
	if e.Lookup != q.Lookup || e.Loose != q.Loose || e.Content != q.Content || e.ID.IsZero() {
		return errors.New("a new operation is not the one that its claim asked about")
	}
	return nil
}
