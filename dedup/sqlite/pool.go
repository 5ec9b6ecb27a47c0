package sqlite

import (
	"context"
	"errors"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// maxReaders is how many reads run at once.
const maxReaders = 4

// readers are the connections that only read.
type readers struct {
	at     location
	dsn    string
	free   chan *connection // maxReaders of them; nil stands for one that is yet to be opened
	closed chan struct{}
}

// openReaders opens one connection, and the others when they are needed.
func openReaders(at location, o Options) (*readers, error) {
	r := &readers{at: at, dsn: dsn(at.path, toRead, o), free: make(chan *connection, maxReaders), closed: make(chan struct{})}
	first, err := at.connect(r.dsn)
	if err != nil {
		return nil, err
	}
	r.free <- first
	for range maxReaders - 1 {
		r.free <- nil
	}
	return r, nil
}

// use lends a connection. One on which something has failed is given up.
func (r *readers) use(ctx context.Context, read func(*connection) error) (err error) {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var c *connection
	select {
	case <-r.closed:
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	case c = <-r.free:
	}
	defer func() { r.free <- c }()
	if c == nil {
		if c, err = r.at.connect(r.dsn); err != nil {
			return err
		}
	}
	if err = read(c); err != nil {
		err, c = errors.Join(err, c.close()), nil
	}
	return err
}

// one reads the only row of a query, or fails with dedup.ErrNotFound. It does not
// watch ctx, which would cost more than the microseconds that it takes.
func (r *readers) one(ctx context.Context, query string, read func(*columns) error, args ...any) error {
	found := false
	err := r.use(ctx, func(c *connection) error {
		return c.query(context.Background(), query, func(row *columns) error {
			found = true
			return read(row)
		}, args...)
	})
	if err == nil && !found {
		err = dedup.ErrNotFound
	}
	return err
}

// all reads the rows of a query that may take long, until ctx ends.
func (r *readers) all(ctx context.Context, query string, each func(*columns) error, args ...any) error {
	return r.use(ctx, func(c *connection) error { return c.query(ctx, query, each, args...) })
}

// close waits for the reads that go on, and closes the connections.
func (r *readers) close() error {
	close(r.closed)
	var errs []error
	for range maxReaders {
		if c := <-r.free; c != nil {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(errs...)
}

// info reads what was made with the ledger.
func (r *readers) info() (info dedup.Info, err error) {
	err = r.one(context.Background(), infoQuery, func(c *columns) error {
		c.array(info.Secret[:])
		info.Since = c.time()
		return nil
	})
	return info, err
}
