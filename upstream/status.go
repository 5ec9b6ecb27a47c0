package upstream

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// maxStatusText is how many bytes of what came with a status are kept.
const maxStatusText = 4 << 10

// A StatusError says that a request was answered with an HTTP status and nothing
// that is a JSON-RPC response to it. Alone it proves nothing; see
// Judgement.JudgeLoss.
type StatusError struct {
	Status   int
	Text     string // what came with it, where that was JSON: at most 4 KiB
	Location string // where a redirect leads, without its query; empty for other statuses
}

// Error says the status, what the server says of it, and what can be done.
func (e *StatusError) Error() string {
	text := strings.TrimSpace(fmt.Sprintf("it answered with HTTP status %d %s", e.Status, http.StatusText(e.Status)))
	if said := e.said(); said != "" {
		text += fmt.Sprintf(" (%q)", said)
	}
	return text + e.advice()
}

// said returns the message of the JSON-RPC error that came with the status, if
// one did.
func (e *StatusError) said() string {
	v, err := rawjson.Parse([]byte(e.Text))
	if err != nil {
		return ""
	}
	message, _ := v.Get("error").Get("message").Text()
	return message[:min(len(message), 200)]
}

func (e *StatusError) advice() string {
	switch {
	case e.Status == http.StatusUnauthorized:
		return "; it asks for authorization: give --header 'Authorization: Bearer TOKEN'"
	case e.Status == http.StatusForbidden:
		return "; it refuses access: check what --header says"
	case e.Status == http.StatusNotFound, e.Status == http.StatusMethodNotAllowed:
		return "; check the URL"
	case e.Location != "":
		return fmt.Sprintf("; it redirects to %q: if that is right, give that URL", e.Location)
	}
	return ""
}

// refuses reports whether a server answers with the status, by convention, before
// it executes anything: it has not let the request in, or would not read it.
func (e *StatusError) refuses() bool {
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests:
		return true
	}
	return false
}

// JudgeLoss says what it proves that a call has no answer; err is what Call.Wait
// returned. Some HTTP statuses are given before anything is executed, which is
// row 3 of the table; their Finding has a Proof, unless StrictCodes is set, or the
// text that came with the status speaks of something that AmbiguousTexts find.
// Everything else is row 8, FoundUnreadable: nobody knows.
func (j Judgement) JudgeLoss(err error) Finding {
	status := &StatusError{}
	if errors.As(err, &status) && status.refuses() && !j.StrictCodes && !j.ambiguous(status.Text) {
		return Finding{
			Kind: FoundNotExecuted, Row: 3, Reason: reasonRefused,
			Proof: &NotExecuted{row: 3, text: status.Error()},
		}
	}
	reason := reasonBadAnswer
	if lost := (&LostError{}); errors.As(err, &lost) {
		reason = string(lost.Cause)
	}
	return Finding{Kind: FoundUnreadable, Row: 8, Reason: reason}
}
