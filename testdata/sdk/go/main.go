// Command client is a client of the official Go SDK that does what its standard
// input says. README.md in the folder above has the language.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An order is a line of the input.
type order struct {
	Do, Name, Tool, Of string
	Arguments          json.RawMessage
	Progress           bool
}

// An answer is a line of the output.
type answer struct {
	Name     string   `json:"name"`
	Done     bool     `json:"done,omitempty"`
	Threw    string   `json:"threw,omitempty"`
	Heard    int      `json:"heard,omitempty"`
	Revision string   `json:"revision,omitempty"`
	Tools    []string `json:"tools,omitempty"`
	Text     string   `json:"text,omitempty"`
	IsError  bool     `json:"isError,omitempty"`
	Outcome  string   `json:"outcome,omitempty"`
	Replay   bool     `json:"replay,omitempty"`
}

func main() {
	p := &player{era: os.Args[1], target: os.Args[2:], running: map[string]context.CancelFunc{}, heard: map[string]int{}}
	lines := bufio.NewScanner(os.Stdin)
	var all sync.WaitGroup
	for lines.Scan() {
		var o order
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			fmt.Fprintln(os.Stderr, "client:", err)
			os.Exit(2)
		}
		ctx, cancel := context.WithCancel(context.Background())
		p.begin(o.Name, cancel)
		if o.Do != "call" { // only calls overtake each other
			p.obey(ctx, o)
			continue
		}
		all.Go(func() { p.obey(ctx, o) })
	}
	all.Wait()
	if p.session != nil {
		_ = p.session.Close() // whatever was to be seen has been printed
	}
}

// A player is the client and its calls.
type player struct {
	era     string
	target  []string
	session *mcp.ClientSession // changed by the reader of the input alone

	mu      sync.Mutex // for what follows, and for the output
	running map[string]context.CancelFunc
	heard   map[string]int
}

func (p *player) begin(name string, cancel context.CancelFunc) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running[name] = cancel
}

func (p *player) print(a answer) {
	line, err := json.Marshal(a)
	if err != nil {
		panic(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if a.Heard > 0 {
		p.heard[a.Name]++
		line = fmt.Appendf(nil, `{"name":%q,"heard":%d}`, a.Name, p.heard[a.Name])
	}
	fmt.Println(string(line))
}

// obey prints what came of an order, whatever it was.
func (p *player) obey(ctx context.Context, o order) {
	a, err := p.do(ctx, o)
	a.Name, a.Done = o.Name, true
	if err != nil {
		a.Threw = err.Error()
	}
	p.print(a)
}

func (p *player) do(ctx context.Context, o order) (answer, error) {
	switch o.Do {
	case "connect", "reconnect":
		return p.connect(ctx)
	case "list":
		listed, err := p.session.ListTools(ctx, nil)
		if err != nil {
			return answer{}, err
		}
		var a answer
		for _, tool := range listed.Tools {
			a.Tools = append(a.Tools, tool.Name)
		}
		return a, nil
	case "call":
		return p.call(ctx, o)
	case "cancel":
		p.mu.Lock()
		defer p.mu.Unlock()
		p.running[o.Of]()
		return answer{}, nil
	}
	return answer{}, errors.New("no such deed: " + o.Do)
}

func (p *player) connect(ctx context.Context) (answer, error) {
	client := mcp.NewClient(&mcp.Implementation{Name: "sdk_test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, request *mcp.ProgressNotificationClientRequest) {
			p.print(answer{Name: fmt.Sprint(request.Params.ProgressToken), Heard: 1})
		},
	})
	revision := map[string]string{"legacy": "2025-11-25", "modern": "2026-07-28"}[p.era]
	session, err := client.Connect(ctx, p.transport(), &mcp.ClientSessionOptions{ProtocolVersion: revision})
	if err != nil {
		return answer{}, err
	}
	p.session = session
	return answer{Revision: session.InitializeResult().ProtocolVersion}, nil
}

func (p *player) transport() mcp.Transport {
	if strings.HasPrefix(p.target[0], "http") {
		return &mcp.StreamableClientTransport{Endpoint: p.target[0]}
	}
	cmd := exec.Command(p.target[0], p.target[1:]...)
	cmd.Stderr = os.Stderr
	return &mcp.CommandTransport{Command: cmd}
}

func (p *player) call(ctx context.Context, o order) (answer, error) {
	params := &mcp.CallToolParams{Name: o.Tool, Arguments: o.Arguments}
	if o.Progress {
		params.SetProgressToken(o.Name)
	}
	result, err := p.session.CallTool(ctx, params)
	if err != nil {
		return answer{}, err
	}
	a := answer{IsError: result.IsError}
	var texts []string
	for _, content := range result.Content {
		if text, ok := content.(*mcp.TextContent); ok {
			texts = append(texts, text.Text)
		}
	}
	a.Text = strings.Join(texts, "\n")
	told, _ := result.Meta["mcp-idem/outcome"].(map[string]any) // readers have none
	a.Outcome, _ = told["outcome"].(string)
	a.Replay, _ = told["was_replay"].(bool)
	return a, nil
}
