package main

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/mcp-idem/mcp-idem/internal/rawjson"
)

// burst makes the same call many times at once, and prints how many answers were
// fresh and how many replays. What the upstream answered must stand in all of
// them alike.
func (p *play) burst(_ bool, name string, args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	asked := make([]*pending, n)
	for i := range asked {
		if asked[i], err = p.ask(name, args[1:]); err != nil {
			return err
		}
	}
	var common string
	replays := 0
	for _, a := range asked {
		answered, replay, err := p.original(a)
		switch {
		case err != nil:
			return err
		case common != "" && answered != common:
			return fmt.Errorf("two answers: %s and %s", common, answered)
		case replay:
			replays++
		}
		common = answered
	}
	return p.print(fmt.Appendf(nil, "%d answers, %d fresh, %d replays: %s", n, n-replays, replays, common))
}

// original is what the upstream answered, in a fresh answer or a replay, without
// what the gateway adds.
func (p *play) original(asked *pending) (answered string, replay bool, err error) {
	if p.last, err = asked.wait(); err != nil {
		return "", false, err
	}
	said, err := readOutcome(p.last)
	if err != nil {
		return "", false, err
	}
	if said.member("outcome") != "COMPLETED" {
		return "", false, fmt.Errorf("not COMPLETED: %s", said.raw)
	}
	result, err := rawjson.ParseObject(p.last.Result)
	if err != nil {
		return "", false, err
	}
	content, _ := result.Get("content")
	blocks, err := rawjson.ParseArray(content)
	if err != nil || len(blocks) == 0 {
		return "", false, errors.Join(errors.New("no content"), err)
	}
	replay = said.member("was_replay") == "true"
	if replay {
		blocks = blocks[:len(blocks)-1]
	}
	structured, _ := result.Get("structuredContent")
	if o, err := rawjson.ParseObject(structured); err == nil {
		structured = o.Without("idempotency")
	}
	return fmt.Sprintf("%s %s", blocks, structured), replay, nil
}
