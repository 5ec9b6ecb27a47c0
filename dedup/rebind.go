package dedup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// An Address is where operations act: an upstream by its name, and its account.
type Address struct{ Upstream, Account string }

// Address is the scope's.
func (s Scope) Address() Address { return Address{s.Upstream, s.Account} }

// A Rename says that what was done at one address counts as done at another: it is the
// same server and account under another name. It is put on record for good.
//
// The digests that operations are found by hold their address, and cannot be made anew,
// since keys are not kept. So operations stay as they are, and a claim that meets its key
// at another address looks whether that was renamed to its own (Query.Scope).
type Rename struct {
	From, To Address
	At       time.Time // filled by the store
	Actor    string    // who says so
	Note     string    // on what grounds
}

// A Rebinding asks for renames.
type Rebinding struct {
	Upstream   string  // the name that was
	Account    *string // nil: all accounts that it has operations of
	ToUpstream string  // the name that is
	ToAccount  *string // nil: the account stays; only with Account
	By         string
	Note       string
	DryRun     bool // only say what would be renamed
}

// A Rebound is a rename with the number of operations that it brings along.
type Rebound struct {
	Rename
	Operations int
}

// ErrNothingToRebind is returned by Rebind where no operation is of the name.
var ErrNothingToRebind = errors.New("there is no operation under that name")

// Rebind lets operations count as those of an upstream or account that was renamed, and
// returns what was renamed, by account. From then on a call under the new name that uses
// a key of theirs is answered from them. Each goes on being found under the old name too.
//
// Near-duplicates are not seen across it: what is of the same content under the old name
// does not stand in the way of a call with another key under the new one.
func (l *Ledger) Rebind(ctx context.Context, r Rebinding) ([]Rebound, error) {
	switch {
	case r.By == "" || r.Note == "":
		return nil, errors.New("to rebind operations needs the name of who does and a note on what grounds")
	case r.Account == nil && r.ToAccount != nil:
		return nil, errors.New("another account can be given to the operations of one account only")
	}
	counts := map[string]int{}
	for record, err := range l.store.Records(ctx, RecordFilter{}) {
		if err != nil {
			return nil, err
		}
		if at := record.Entry.Scope.Address(); at.Upstream == r.Upstream && (r.Account == nil || at.Account == *r.Account) {
			counts[at.Account]++
		}
	}
	if len(counts) == 0 {
		return nil, ErrNothingToRebind
	}
	var rebound []Rebound
	var renames []Rename
	for account, n := range counts {
		rename := Rename{From: Address{r.Upstream, account}, To: Address{r.ToUpstream, account}, Actor: r.By, Note: r.Note}
		if r.ToAccount != nil {
			rename.To.Account = *r.ToAccount
		}
		if rename.From == rename.To {
			return nil, fmt.Errorf("%q and its account are called so already", r.ToUpstream)
		}
		rebound = append(rebound, Rebound{rename, n})
	}
	slices.SortFunc(rebound, func(a, b Rebound) int { return cmp.Compare(a.From.Account, b.From.Account) })
	for _, r := range rebound {
		renames = append(renames, r.Rename)
	}
	if r.DryRun {
		return rebound, nil
	}
	return rebound, l.store.Rename(ctx, renames)
}

// Renames returns the renames on record, oldest first, for the operator.
func (l *Ledger) Renames(ctx context.Context) ([]Rename, error) { return l.store.Renames(ctx) }

// formerly are the addresses that were renamed to this one, the last before the earlier.
func formerly(at Address, renames []Rename) []Address {
	known := []Address{at}
	for i := 0; i < len(known); i++ {
		for _, r := range renames {
			if r.To == known[i] && !slices.Contains(known, r.From) {
				known = append(known, r.From)
			}
		}
	}
	return known[1:]
}
