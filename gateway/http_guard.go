package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rs/cors"

	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
)

// A refusal is an HTTP request that goes no further, with what the client is told.
type refusal struct {
	status  int
	header  [2]string // one more; empty: none
	problem *jsonrpc.Error
	id      []byte // of the message, where it could be read
}

func refuse(status, code int, format string, args ...any) *refusal {
	return &refusal{status: status, problem: &jsonrpc.Error{Code: code, Message: fmt.Sprintf(format, args...)}}
}

// forMessage says which message is refused.
func (r *refusal) forMessage(m jsonrpc.Message) *refusal {
	if m.IsRequest() {
		r.id = m.ID
	}
	return r
}

func (r *refusal) with(name, value string) *refusal {
	r.header = [2]string{name, value}
	return r
}

func (r *refusal) write(w http.ResponseWriter) {
	if r.header[0] != "" {
		w.Header().Set(r.header[0], r.header[1])
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(r.status)
	_, _ = w.Write(jsonrpc.ErrorReply(r.id, r.problem).Raw()) // who is refused may be gone
}

// keyring knows the bearer tokens, by what they hash to: comparing digests takes the
// same time for every token of every length.
type keyring []struct {
	principal string
	digest    [sha256.Size]byte
}

func newKeyring(tokens map[string]string) (k keyring) {
	for principal, token := range tokens {
		k = append(k, struct {
			principal string
			digest    [sha256.Size]byte
		}{principal, sha256.Sum256([]byte(token))})
	}
	return k
}

// principal says whose the request's token is (RFC 6750, section 2.1). Without any
// tokens there is no principal, and nothing is refused.
func (k keyring) principal(r *http.Request) (string, *refusal) {
	if len(k) == 0 {
		return "", nil
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", refuse(http.StatusUnauthorized, codeUnavailable, "a bearer token is needed").with("WWW-Authenticate", "Bearer")
	}
	digest := sha256.Sum256([]byte(strings.TrimSpace(token)))
	principal, known := "", 0
	for _, key := range k { // all of them, whichever it is
		if same := subtle.ConstantTimeCompare(digest[:], key.digest[:]); same == 1 {
			principal, known = key.principal, 1
		}
	}
	if known == 0 {
		return "", refuse(http.StatusUnauthorized, codeUnavailable, "the bearer token is not known").with("WWW-Authenticate", `Bearer error="invalid_token"`)
	}
	return principal, nil
}

// checkOrigin keeps web pages of strangers out. A page that has its own name resolve
// to this machine sends that name as Host; any other page sends its Origin (section
// Security of the Streamable HTTP transport; all revisions).
func (h *HTTP) checkOrigin(r *http.Request) *refusal {
	if len(h.keys) == 0 && !isLoopback(r.Host) {
		return refuse(http.StatusForbidden, codeUnavailable, "the Host %q is not this machine", r.Host)
	}
	for _, origin := range r.Header.Values("Origin") {
		if !h.admits(origin, r.Host) {
			return refuse(http.StatusForbidden, codeUnavailable, "the Origin %q is not admitted", origin)
		}
	}
	return nil
}

func (h *HTTP) admits(origin, host string) bool {
	if slices.Contains(h.options.AllowedOrigins, origin) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host != "" && (strings.EqualFold(u.Host, host) || isLoopback(u.Host))
}

// forPages lets the pages of admitted origins read the answers, and ask first whether
// they may call (CORS protocol, Fetch standard). A browser asks without credentials, so
// this comes before tokens; pages of this machine are not admitted for being that.
func (h *HTTP) forPages(next http.Handler) http.Handler {
	if len(h.options.AllowedOrigins) == 0 {
		return next
	}
	return cors.New(cors.Options{
		AllowOriginFunc:     func(origin string) bool { return slices.Contains(h.options.AllowedOrigins, origin) },
		AllowedMethods:      []string{http.MethodGet, http.MethodPost, http.MethodDelete},
		AllowedHeaders:      []string{"*"},
		ExposedHeaders:      []string{"Mcp-Session-Id", "WWW-Authenticate", "Retry-After"},
		AllowPrivateNetwork: true,
	}).Handler(next)
}

// isLoopback reports whether a host, with or without a port, is this machine.
func isLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.IsLoopback()
}

// checkMedia refuses what is no JSON, and clients that cannot read an answer.
func checkMedia(a *arrival, answers ...string) *refusal {
	if a.r.Method == http.MethodPost {
		if kind, _, err := readMediaType(a.r.Header.Get("Content-Type")); err != nil || kind != mediaJSON {
			return refuse(http.StatusUnsupportedMediaType, codeUnavailable, "the Content-Type must be "+mediaJSON)
		}
	}
	for _, answer := range answers {
		if a.accepts.preference(answer).weight == 0 {
			return refuse(http.StatusNotAcceptable, codeUnavailable, "the client must accept %s", strings.Join(answers, " and "))
		}
	}
	return nil
}

// readMediaType is mime.ParseMediaType, and quicker where there are no parameters. A
// type that it does not check is none of those that it is compared with.
func readMediaType(text string) (kind string, parameters map[string]string, err error) {
	if !strings.Contains(text, ";") {
		return strings.ToLower(strings.TrimSpace(text)), nil, nil
	}
	return mime.ParseMediaType(text)
}

// An acceptance is the ranges of media types that a client reads, in its order.
type acceptance []mediaRange

type mediaRange struct {
	kind   string
	weight float64 // 0: it does not want it
}

// readAcceptance reads Accept headers. Where there are none, anything is accepted.
func readAcceptance(headers []string) acceptance {
	if len(headers) == 0 {
		return acceptance{{"*/*", 1}}
	}
	a := make(acceptance, 0, 2)
	for part := range strings.SplitSeq(strings.Join(headers, ","), ",") {
		if kind, parameters, err := readMediaType(part); err == nil {
			a = append(a, mediaRange{kind, weightOf(parameters["q"])})
		}
	}
	return a
}

// prefersEvents reports whether a client that reads both would rather have events than
// an object: by their weights, or else by what it names first.
func (a acceptance) prefersEvents() bool {
	events, object := a.preference(mediaEvents), a.preference(mediaJSON)
	return events.weight > object.weight || events.weight == object.weight && events.place < object.place
}

// A preference is how much a client likes a media type.
type preference struct {
	weight float64 // 0: it does not accept it
	place  int     // of the range that the type is in, among all
}

// preference finds how much a media type is liked. Of the ranges that it is in, the
// narrowest counts (RFC 9110, section 12.5.1).
func (a acceptance) preference(want string) (found preference) {
	family, _, _ := strings.Cut(want, "/")
	ranges := [...]string{"*/*", family + "/*", want}
	narrowest := -1
	for place, r := range a {
		if i := slices.Index(ranges[:], r.kind); i > narrowest {
			narrowest, found = i, preference{r.weight, place}
		}
	}
	return found
}

// weightOf reads a weight (RFC 9110, section 12.4.2); what is none counts as none given.
func weightOf(q string) float64 {
	if q == "" {
		return 1
	}
	if weight, err := strconv.ParseFloat(q, 64); err == nil && weight >= 0 && weight <= 1 {
		return weight
	}
	return 1
}

// read reads the body, once and whole, and the message in it.
func (h *HTTP) read(w http.ResponseWriter, r *http.Request) (jsonrpc.Message, *refusal) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(h.options.ReadTimeout)) // a writer that knows no deadlines has none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.options.MaxBody))
	if err == nil { // else the rest of the body is not waited for either
		_ = rc.SetReadDeadline(time.Time{})
	}
	var tooLarge *http.MaxBytesError
	var late net.Error
	switch {
	case errors.As(err, &tooLarge):
		return jsonrpc.Message{}, refuse(http.StatusRequestEntityTooLarge, jsonrpc.CodeInvalidRequest, "a body of more than %d bytes is refused; nothing was sent", tooLarge.Limit)
	case errors.As(err, &late) && late.Timeout():
		return jsonrpc.Message{}, refuse(http.StatusRequestTimeout, jsonrpc.CodeInvalidRequest, "the body did not come within %s; nothing was sent", h.options.ReadTimeout)
	case err != nil:
		return jsonrpc.Message{}, refuse(http.StatusBadRequest, jsonrpc.CodeParseError, "the body is cut off; nothing was sent")
	}
	m, err := jsonrpc.Parse(body)
	var bad *jsonrpc.Error
	if errors.As(err, &bad) {
		return m, &refusal{status: http.StatusBadRequest, problem: bad, id: m.ID}
	}
	return m, nil
}

// headerKeys are the keys that a harness has put beside the message. The header is a
// string of RFC 8941 in the IETF's draft, and bare in most clients.
func headerKeys(h http.Header) (keys []string) {
	for _, value := range h.Values("Idempotency-Key") {
		value = strings.TrimSpace(value)
		if inner, ok := strings.CutPrefix(value, `"`); ok {
			if inner, ok = strings.CutSuffix(inner, `"`); ok {
				value = inner
			}
		}
		keys = append(keys, value)
	}
	return keys
}
