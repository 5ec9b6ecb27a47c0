package main

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/internal/jsonrpc"
	"github.com/mcp-idem/mcp-idem/internal/rawjson"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// A toolRow is a tool as it is printed for programs. Null are class and rule where
// the definition cannot be read, window where no key is needed, problem where there
// is none, and tool where it is not offered.
type toolRow struct {
	Upstream      string       `json:"upstream"`
	Name          string       `json:"name"`
	Class         *string      `json:"class"`
	Keyed         bool         `json:"keyed"`
	Rule          *string      `json:"rule"`
	ByOperator    bool         `json:"by_operator"`
	NearDuplicate string       `json:"near_duplicate"`
	Window        *string      `json:"window"`
	Problem       *string      `json:"problem"`
	Offered       bool         `json:"offered"`
	NativeKeys    []nativeRow  `json:"native_keys"`
	Refusals      []refusalRow `json:"refusals"`
	Tool          *struct{}    `json:"tool"` // the place of the definition
}

type nativeRow struct {
	Path       string `json:"path"`
	Shown      bool   `json:"shown"`
	Raw        bool   `json:"raw"`
	Configured bool   `json:"configured"`
}

type refusalRow struct {
	API     string `json:"api"`
	Problem string `json:"problem"`
}

func (l listing) printJSON(w io.Writer) error {
	for _, t := range l.tools {
		line, err := json.Marshal(l.toolRow(t))
		if err != nil {
			return err
		}
		if t.Offered {
			// A message on stdio is one line, and so is every definition in it: its
			// bytes can stand here as they are.
			o, err := rawjson.ParseObject(line)
			if err != nil {
				return err
			}
			line = o.Set("tool", t.Definition)
		}
		if _, err := w.Write(jsonrpc.Line(line)); err != nil {
			return err
		}
	}
	return nil
}

func (l listing) toolRow(t gateway.InspectedTool) toolRow {
	r := toolRow{
		Upstream: l.Scope.Upstream, Name: t.Name, Class: orNull(string(t.Class)), Keyed: needsKey(t), Rule: orNull(t.Rule), ByOperator: t.ByOperator,
		NearDuplicate: string(t.NearDuplicate), Problem: orNull(t.Problem), Offered: t.Offered, NativeKeys: []nativeRow{}, Refusals: []refusalRow{},
	}
	if r.NearDuplicate == "" {
		r.NearDuplicate = string(toolschema.NearDuplicateOff)
	}
	if r.Keyed {
		r.Window = orNull(brief(t.Window))
	}
	for _, n := range t.Natives {
		r.NativeKeys = append(r.NativeKeys, nativeRow{n.String(), n.Shown, n.Raw, n.Configured})
	}
	for _, refusal := range l.refusals(t) {
		r.Refusals = append(r.Refusals, refusalRow(refusal))
	}
	return r
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// brief writes a length of time as a flag takes it, without units of nothing:
// 168h in place of 168h0m0s.
func brief(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}
