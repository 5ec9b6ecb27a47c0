package dedup

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
)

// A Digest is a SHA-256 or HMAC-SHA256 value.
type Digest [sha256.Size]byte

// A Scope says within what a key names one operation. Session, connection,
// request id, client and process are not part of it: they change with every
// reconnect, and a retry after a reconnect must find its operation.
type Scope struct {
	Namespace string // who calls: principals never see each other's operations
	Upstream  string // the configured name of the server behind the gateway
	Account   string // which of the upstream's accounts or folders is acted on
	Tool      string // the upstream's own name of the tool
}

// digestVersion names how digests are made. It is part of every digest, so
// that another way can live in the same ledger.
const digestVersion = "1"

// A Secret keys the digests of one ledger. It is made with the ledger and never
// changes: with another one, every key would be forgotten.
type Secret [32]byte

// lookup is the digest that one operation is found by.
func (s Secret) lookup(scope Scope, key Key) Digest {
	return s.digest("lookup", scope.Namespace, scope.Upstream, scope.Account, scope.Tool, key.text)
}

// loose is the digest by which the same key is found under another upstream
// name or account.
func (s Secret) loose(scope Scope, key Key) Digest {
	return s.digest("loose", scope.Namespace, scope.Tool, key.text)
}

// content is the digest by which the same call is found under another key.
func (s Secret) content(scope Scope, fingerprint Digest) Digest {
	return s.digest("content", scope.Namespace, scope.Upstream, scope.Account, scope.Tool, string(fingerprint[:]))
}

// task is the digest that the operation is found by whose upstream went on by a task.
// Who has asked is no part of it: how a task has ended is the upstream's to say, to
// whomever.
func (s Secret) task(scope Scope, id string) Digest {
	return s.digest("task", scope.Upstream, scope.Account, id)
}

// downstreamKey is the key that an upstream gets which takes one: the same for
// all attempts of an operation, and of no use to find the caller's own.
// It is a UUID of version 8 (RFC 9562, section 5.8).
func (s Secret) downstreamKey(lookup Digest) string {
	d := s.digest("downstream", string(lookup[:]))
	id := uuid.UUID(d[:16])
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}

// digest is the HMAC-SHA256 of the parts, each behind its length, so that no
// two lists of parts read the same.
func (s Secret) digest(purpose string, parts ...string) (d Digest) {
	mac := hmac.New(sha256.New, s[:])
	var length [8]byte
	for _, part := range append([]string{digestVersion, purpose}, parts...) {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		mac.Write(length[:])
		mac.Write([]byte(part))
	}
	mac.Sum(d[:0])
	return d
}
