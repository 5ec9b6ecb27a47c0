package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"math/rand/v2"
	"os"

	"github.com/mcp-idem/mcp-idem/internal/filelock"
)

// A refund is one effect: a line in the upstream's book.
type refund struct {
	ID     string `json:"id"`
	Order  string `json:"order"`
	Amount int    `json:"amount"` // in cents
	// AnswerLost: the answer to the call was withheld. The upstream's tools do
	// not show it: whoever loses an answer does not know of it.
	AnswerLost bool `json:"answer_lost"`
}

// A book is the file in which an upstream commits its refunds, one JSON object a
// line. One process at a time has it open: the next generation of the upstream
// waits until the one before is gone, and so knows all that it did. It is not
// safe for concurrent use.
type book struct {
	file, lock *os.File
	refunds    []refund
	perOrder   map[string]int
	losing     loss
}

// openBook opens the book at path, or makes it, as soon as no other process has
// it open.
func openBook(path string, losing loss) (*book, error) {
	held, err := os.OpenFile(lockPath(path), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	b := &book{lock: held, perOrder: map[string]int{}, losing: losing}
	if err := filelock.Lock(held); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if b.refunds, err = readBook(path); err != nil {
		return nil, errors.Join(err, b.close())
	}
	for _, r := range b.refunds {
		b.perOrder[r.Order]++
	}
	if b.file, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func lockPath(path string) string { return path + ".lock" }

// add commits a refund; it is on the disk when add returns.
func (b *book) add(order string, amount int) (refund, error) {
	nth := b.perOrder[order] + 1
	r := refund{ID: fmt.Sprintf("re_%d", len(b.refunds)+1), Order: order, Amount: amount, AnswerLost: b.losing.loses(order, nth)}
	line, err := json.Marshal(r)
	if err != nil {
		return r, err
	}
	if _, err := b.file.Write(append(line, '\n')); err != nil {
		return r, err
	}
	if err := b.file.Sync(); err != nil {
		return r, err
	}
	b.refunds = append(b.refunds, r)
	b.perOrder[order] = nth
	return r, nil
}

func (b *book) close() error {
	var err error
	if b.file != nil {
		err = b.file.Close()
	}
	return errors.Join(err, b.lock.Close())
}

// readBook reads the refunds in a book; one that does not exist has none.
func readBook(path string) ([]refund, error) {
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	var refunds []refund
	for line := range bytes.Lines(data) {
		var r refund
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, len(refunds)+1, err)
		}
		refunds = append(refunds, r)
	}
	return refunds, nil
}

// A loss says which answers are lost. The n-th refund of an order has the same
// fate in every run with the same seed, in whatever order the calls arrive, so
// that runs can be compared.
type loss struct {
	share float64 // of the answers, from 0 to less than 1
	seed  uint64
}

func (l loss) loses(order string, nth int) bool {
	h := fnv.New64a()
	fmt.Fprintf(h, "%s#%d", order, nth)
	return rand.New(rand.NewPCG(l.seed, h.Sum64())).Float64() < l.share
}
