package sqlite

import (
	"context"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	driver "modernc.org/sqlite"
)

// A connection leads to the ledger's file through SQLite's driver, without the pool
// of database/sql, whose locks, conversions and watching of contexts cost about as
// much as the statements of a claim. It is used by one goroutine at a time.
type connection struct {
	conn     sqldriver.Conn
	prepared map[string]*statement // by their text, for the connection's life
}

// A statement is prepared, and keeps the room for its arguments and for a row.
type statement struct {
	stmt interface {
		sqldriver.Stmt
		sqldriver.StmtExecContext
		sqldriver.StmtQueryContext
	}
	args []sqldriver.NamedValue
	row  []sqldriver.Value
}

// A location is where the ledger's file was when it was opened.
type location struct {
	path string
	file os.FileInfo
}

// locationOf finds what stands at the path.
func locationOf(path string) (location, error) {
	file, err := os.Stat(path)
	return location{path, file}, err
}

// check fails with ErrReplaced where something else, or nothing, stands at the place
// by now. To open that would do more than see the wrong file: beside one that is empty,
// SQLite removes the log, and with it what was committed last.
func (l location) check() error {
	if named, err := os.Stat(l.path); err != nil || !os.SameFile(named, l.file) {
		return ErrReplaced
	}
	return nil
}

// connect opens a connection to the file at the place. It is closed with close.
func (l location) connect(dsn string) (*connection, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	return connect(dsn)
}

// memory opens a database of its own that is in no file.
func memory() (*connection, error) { return connect(":memory:") }

func connect(dsn string) (*connection, error) {
	connector, err := driver.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	conn, err := connector.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn, prepared: map[string]*statement{}}, nil
}

// close gives everything up; a transaction that stands is rolled back.
func (c *connection) close() error {
	var errs []error
	for _, s := range c.prepared {
		errs = append(errs, s.stmt.Close())
	}
	return errors.Join(append(errs, c.conn.Close())...)
}

// statement prepares a query, the first time.
func (c *connection) statement(query string) (*statement, error) {
	if s := c.prepared[query]; s != nil {
		return s, nil
	}
	stmt, err := c.conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	s := &statement{}
	var ok bool
	if s.stmt, ok = stmt.(interface {
		sqldriver.Stmt
		sqldriver.StmtExecContext
		sqldriver.StmtQueryContext
	}); !ok {
		return nil, errors.Join(errors.New("the driver's statements take no context"), stmt.Close())
	}
	c.prepared[query] = s
	return s, nil
}

// exec runs a statement that returns no rows, to its end whatever happens.
func (c *connection) exec(query string, args ...any) (sqldriver.Result, error) {
	return c.run(context.Background(), query, args...)
}

// run runs a statement that returns no rows, until ctx ends.
func (c *connection) run(ctx context.Context, query string, args ...any) (sqldriver.Result, error) {
	s, err := c.statement(query)
	if err != nil {
		return nil, err
	}
	return s.stmt.ExecContext(ctx, s.bind(args))
}

// query runs a statement and hands over its rows, one by one. What each keeps of a
// row it copies; it may run other statements of the connection.
func (c *connection) query(ctx context.Context, query string, each func(*columns) error, args ...any) (err error) {
	s, err := c.statement(query)
	if err != nil {
		return err
	}
	rows, err := s.stmt.QueryContext(ctx, s.bind(args))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	if n := len(rows.Columns()); len(s.row) != n {
		s.row = make([]sqldriver.Value, n)
	}
	for {
		switch err := rows.Next(s.row); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		row := columns{left: s.row}
		if err := errors.Join(each(&row), row.err); err != nil {
			return err
		}
	}
}

// bind makes arguments what the driver takes. SQLite copies them.
func (s *statement) bind(args []any) []sqldriver.NamedValue {
	s.args = s.args[:0]
	for i, a := range args {
		if n, ok := a.(int); ok {
			a = int64(n)
		}
		s.args = append(s.args, sqldriver.NamedValue{Ordinal: i + 1, Value: a})
	}
	return s.args
}

// columns are the values of a row, read from the first to the last. A value that is
// not of the kind that is read fails the row.
type columns struct {
	left []sqldriver.Value
	err  error
}

// next takes a value. NULL is the kind's zero value.
func next[T any](c *columns) (v T) {
	if len(c.left) == 0 {
		c.fail("a row of more columns was expected")
		return v
	}
	value := c.left[0]
	c.left = c.left[1:]
	v, ok := value.(T)
	if !ok && value != nil {
		c.fail(fmt.Sprintf("%T was expected, and not %T", v, value))
	}
	return v
}

func (c *columns) fail(problem string) {
	if c.err == nil {
		c.err = errors.New(problem)
	}
}

func (c *columns) integer() int  { return int(next[int64](c)) }
func (c *columns) flag() bool    { return next[int64](c) != 0 }
func (c *columns) text() string  { return next[string](c) }
func (c *columns) blob() []byte  { return next[[]byte](c) }
func (c *columns) millis() int64 { return next[int64](c) }

// array reads a blob of one size. NULL leaves the array as it is.
func (c *columns) array(into []byte) {
	if blob := c.blob(); blob != nil && copy(into, blob) != max(len(blob), len(into)) {
		c.fail(fmt.Sprintf("a blob of %d bytes was expected", len(into)))
	}
}

// time reads milliseconds since 1970. NULL is no time.
func (c *columns) time() (t time.Time) {
	if len(c.left) > 0 && c.left[0] == nil {
		c.left = c.left[1:]
		return t
	}
	return time.UnixMilli(c.millis()).UTC()
}
