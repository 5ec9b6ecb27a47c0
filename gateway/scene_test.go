package gateway_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/mcp-idem/mcp-idem/dedup"
)

// A kind is one way in which a tool describes its results.
type kind struct {
	output     string // the outputSchema; empty: none
	structured string // what the tool answers
	annotates  bool   // whether a replay may say so in structuredContent
}

var kinds = map[string]kind{
	"without outputSchema":        {structured: `{ "id":"marker-result","n":1.10}`, annotates: true},
	"without, but with our name":  {structured: `{"id":"marker-result", "idempotency":"mine"}`},
	"with an open outputSchema":   {output: `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}`, structured: `{ "id":"marker-result","n":1.10}`, annotates: true},
	"with a closed outputSchema":  {output: `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`, structured: `{ "id":"marker-result" }`, annotates: true},
	"with our name in its schema": {output: `{"type":"object","properties":{"id":{"type":"string"},"idempotency":{"type":"string"}},"additionalProperties":false}`, structured: `{"id":"marker-result", "idempotency":"mine"}`},
	"with a counting schema":      {output: `{"type":"object","maxProperties":1}`, structured: `{"id":"marker-result"}`},
}

func (k kind) tool() string {
	if k.output == "" {
		return refundTool
	}
	return `[{"name":"refund","inputSchema":{"type":"object"},"outputSchema":` + k.output + `}]`
}

// result is an answer that is written as nobody writes it.
func (k kind) result() string {
	return `{ "content":[ {"type":"text","text":"re \u00e9\/"}, {"type":"x-unknown","n":9007199254740993} ],"structuredContent":` + k.structured + `, "_meta":{"x/y":1.0},"x_more":[1 , 2] }`
}

const (
	errorResult = `{"isError": true,"content":[{"type":"text","text":"no order marker-result"}]}`
	taskResult  = `{"task":{"taskId":"marker-result","status":"working"},"content":[ ]}`
)

// A scene is one situation on the stage of one kind of tool.
type scene struct {
	*rig
	kind
	number int
}

// arguments are those of the scene's own order, under its n-th key.
func (s *scene) arguments(n int) string {
	return fmt.Sprintf(`{"order":"marker-argument-%d","idempotency_key":"marker-key:%d:%d"}`, s.number, s.number, n)
}

// other are other arguments under the first key.
func (s *scene) other() string {
	return strings.Replace(s.arguments(1), "marker-argument", "marker-argument-other", 1)
}

func (s *scene) first() reply  { return s.call("refund", s.arguments(1)) }
func (s *scene) second() reply { return s.call("refund", s.arguments(2)) }

// leased is the scene's first call, made by somebody else.
func (s *scene) leased() *dedup.Lease { return s.run(s.asked("refund", s.arguments(1))) }

func (s *scene) completed(evidence dedup.Evidence, body string, reason dedup.Reason) dedup.Entry {
	e, err := s.leased().Complete(dedup.Answer{Evidence: evidence, Body: []byte(body), Reason: reason})
	require.NoError(s.server.t, err)
	return e
}

func (s *scene) succeeded() dedup.Entry {
	return s.completed(dedup.AnsweredResult, s.result(), "")
}

func (s *scene) failed() dedup.Entry {
	return s.completed(dedup.AnsweredErrorResult, errorResult, "")
}

func (s *scene) stranded(reason dedup.Reason, openFor time.Duration) dedup.Entry {
	e, late, err := s.leased().Strand(dedup.Stranding{Evidence: dedup.NoAnswer, Reason: reason, OpenFor: openFor})
	require.NoError(s.server.t, err)
	if late != nil {
		s.server.t.Cleanup(func() { assert.NoError(s.server.t, late.Close()) })
	}
	return e
}

// repeating are the arguments of the first key's content under the n-th key, with
// the operation that the caller means to repeat.
func (s *scene) repeating(n int, operation string) string {
	return strings.TrimSuffix(s.arguments(n), "}") + fmt.Sprintf(`,"idempotency_repeat_of":%q}`, operation)
}
