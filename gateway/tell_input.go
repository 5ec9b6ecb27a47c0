package gateway

import (
	"fmt"
	"strings"

	"github.com/mcp-idem/mcp-idem/dedup"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/upstream"
)

const (
	answerAdvice  = "Repeat the same call with the SAME key, and with inputResponses and requestState as the question asks for."
	waitingAdvice = "Repeat the call with the SAME key: it gets the question."
)

// tellQuestion: the upstream asks for input before it goes on.
func tellQuestion(e dedup.Entry, question []byte) told {
	o := outcomeOf(e, Accepted, effectUnknown).because(dedup.ReasonInputRequired).next(actRetrySameKey, 0, answerAdvice)
	if question == nil {
		return told{
			text:    fmt.Sprintf("ACCEPTED: the tool's server has asked for input (%s), and its question was too large to keep. %s", e.ID, answerAdvice),
			outcome: o, notError: true,
		}
	}
	return told{outcome: o, result: question, question: question}
}

// tellAsked: the upstream has asked that before.
func tellAsked(e dedup.Entry) told {
	e.Replays++ // this one; the ledger writes it with its next commit
	t := tellQuestion(e, e.Result)
	t.outcome.WasReplay = true
	return t
}

// unanswered is a question that the client was not asked, or has not answered. The
// operation goes on waiting.
func (t told) unanswered(why string, question []byte) told {
	advice := "Tell the user, and repeat the call with the SAME key once it can be answered."
	o := t.outcome.next(actAskHuman, 0, advice)
	return told{
		text:    fmt.Sprintf("ACCEPTED: the tool's server needs input before it goes on (%s), and it was not given: %s. %s", *o.OperationID, oneLine(why), advice),
		outcome: o, quote: wording(question), notError: true,
	}
}

// oneLine is a text of others without what would end the line that it stands in.
func oneLine(text string) string {
	return strings.TrimRight(strings.Join(strings.Fields(text), " "), ".")
}

// wording is what the requests of a question say to people.
func wording(question []byte) string {
	o, err := rawjson.ParseObject(question)
	if err != nil {
		return ""
	}
	requests, _ := o.Get(requestsMember)
	asked, err := rawjson.ParseObject(requests)
	if err != nil {
		return ""
	}
	var texts []string
	for _, member := range asked.Members() {
		request, _ := rawjson.ParseObject(member.Value)
		inner, _ := request.Get("params")
		params, _ := rawjson.ParseObject(inner)
		if text, ok := params.String("message"); ok {
			texts = append(texts, text)
		}
	}
	return strings.Join(texts, "\n")
}

// tellStray: the call answers no question that stands. Nothing was sent.
func tellStray(s dedup.Stray) told {
	detail := "the call answers a question that was not asked under this key"
	if s.Reason == dedup.ReasonKeyFormChanged {
		detail = "the call goes on with one that has told the tool's server its key in another way, and the server would not know it again"
	}
	advice := "Repeat the call with the SAME key and without inputResponses and requestState: it gets the question that stands, or its result."
	return told{
		text:    fmt.Sprintf("FAILED_BEFORE_INPUT (%s): %s. Nothing was sent to the tool. %s", s.Reason, detail, advice),
		outcome: notSent(FailedBeforeInput, s.Reason).next(actRetrySameKey, 0, advice),
	}
}

// tellInputRefused: the answer to a question is proven not to have been taken, and the
// question stands.
func tellInputRefused(e dedup.Entry, reason dedup.Reason, f upstream.Finding) told {
	fact := "the input was not sent to the tool"
	if reason != dedup.ReasonUnreachable {
		fact = "the tool's server refused the input before using it"
	}
	return told{
		text:    fmt.Sprintf("ACCEPTED (%s): %s (%s). The call waits for it as before. %s", reason, fact, e.ID, waitingAdvice),
		outcome: outcomeOf(e, Accepted, effectUnknown).because(reason).next(actRetrySameKey, retryAfter, waitingAdvice),
		quote:   quote(f),
	}
}

// tellWaiting: the operation waits for its caller's input.
func tellWaiting(e dedup.Entry) told {
	return told{
		text:    fmt.Sprintf("ACCEPTED: the call of %s (%s) waits for input until %s. %s", when(e.ClaimedAt), e.ID, when(e.InputUntil), waitingAdvice),
		outcome: outcomeOf(e, Accepted, effectUnknown).next(actRetrySameKey, 0, waitingAdvice),
	}
}
