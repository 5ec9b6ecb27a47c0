package main

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/mcp-idem/mcp-idem/gateway"
	"github.com/mcp-idem/mcp-idem/toolschema"
)

// toolsFlags are what tools takes besides the flags that it shares with wrap.
type toolsFlags struct {
	serverSettings
	tool, color string
	json        bool
}

func toolsCommand() *cobra.Command {
	var f toolsFlags
	cmd := &cobra.Command{
		Use:   "tools [flags] (CONFIG | -- COMMAND [ARG...] | --url URL)",
		Short: "Show what wrap or serve would make of servers' tools: class, rule, schema",
		Long: `tools starts COMMAND, an MCP server that speaks stdio, or goes to the server behind
URL, or to all servers of CONFIG, a file as of serve; asks for the tools, ends what
it has started, and shows how wrap or serve with the same flags would offer them:
which ask for a key, which rule decided that, and what stands in the way. No tool is
called, and no ledger is opened.`,
		Example: `  mcp-idem tools -- npx -y @modelcontextprotocol/server-memory

  # one tool, with its definition before and after:
  mcp-idem tools --tool create_entities -- npx -y @modelcontextprotocol/server-memory

  # for programs:
  mcp-idem tools --json -- npx -y @modelcontextprotocol/server-memory | jq -r 'select(.keyed) | .name'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := fromEnvironment(cmd); err != nil {
				return err
			}
			if f.at.url == "" && len(args) == 1 && cmd.ArgsLenAtDash() != 0 && isConfiguration(args[0]) {
				return showAllTools(cmd, &f, args[0])
			}
			if err := f.at.needsServer("tools")(cmd, args); err != nil {
				return err
			}
			return showTools(cmd, &f, args)
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().StringVar(&f.tool, "tool", "", "only the tool of this `name`, with its definition before and after")
	cmd.Flags().StringVar(&f.color, "color", "auto", "auto, always or never; auto is colour on a terminal, unless NO_COLOR is set")
	cmd.Flags().BoolVar(&f.json, "json", false, "print JSON, one object a line")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func showTools(cmd *cobra.Command, f *toolsFlags, command []string) error {
	options, err := f.options(command)
	if err != nil {
		return err
	}
	tools, err := gateway.Inspect(cmd.Context(), options, version())
	if err != nil {
		return err
	}
	l := listing{Options: options, tools: tools}
	if f.tool != "" {
		if l.tools, err = named(tools, f.tool); err != nil {
			return err
		}
	}
	return f.print(cmd, l)
}

// print prints a listing as the flags say.
func (f *toolsFlags) print(cmd *cobra.Command, l listing) error {
	out, err := colored(cmd.OutOrStdout(), f.color)
	switch {
	case err != nil:
	case f.json:
		err = l.printJSON(cmd.OutOrStdout())
	case f.tool != "":
		_, err = io.WriteString(out, l.details())
	default:
		_, err = io.WriteString(out, l.overview(widthOf(cmd.OutOrStdout())))
	}
	return err
}

// A listing is what there is to say of an upstream's tools.
type listing struct {
	gateway.Options
	tools []gateway.InspectedTool
}

// heading says whose tools they are, and how many of them need a key.
func (l listing) heading() string {
	keyed := 0
	for _, t := range l.tools {
		refused := t.Problem != "" && l.Policy.OnProblem == toolschema.OnProblemRefuse
		if needsKey(t) && t.Offered && !refused {
			keyed++
		}
	}
	need := "need"
	if keyed == 1 {
		need = "needs"
	}
	return fmt.Sprintf("%s, account %s, namespace %s: %s, %d %s a key\n",
		plain(l.Scope.Upstream), plain(l.Scope.Account), plain(l.Scope.Namespace), counted(len(l.tools), "tool"), keyed, need)
}

// needsKey reports whether calls of the tool need a key. Of one whose definition
// cannot be read there are no calls.
func needsKey(t gateway.InspectedTool) bool { return t.Class != "" && t.Keyed() }

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// colored is a writer that leaves colours out where they are not wanted. What is
// written at once has to hold whole escape sequences.
func colored(w io.Writer, mode string) (io.Writer, error) {
	switch {
	case mode == "always":
		return &colorprofile.Writer{Forward: w, Profile: colorprofile.ANSI}, nil
	case mode == "never", mode == "auto" && os.Getenv("NO_COLOR") != "": // whatever its value: no-color.org
		return &colorprofile.Writer{Forward: w, Profile: colorprofile.NoTTY}, nil
	case mode == "auto":
		return colorprofile.NewWriter(w, os.Environ()), nil
	}
	return nil, usagef("--color: %q is none of auto, always, never", mode)
}

// widthOf is the width of a terminal in columns; 0, which is no limit, of
// everything else.
func widthOf(w io.Writer) int {
	if !isTerminal(w) {
		return 0
	}
	width, _, err := term.GetSize(int(w.(*os.File).Fd()))
	if err != nil {
		return 0
	}
	return width
}

// named returns the tool of the name, or all of them where a server has several.
func named(tools []gateway.InspectedTool, name string) (found []gateway.InspectedTool, err error) {
	var others []string
	for _, t := range tools {
		if t.Name == name {
			found = append(found, t)
		}
		others = append(others, t.Name)
	}
	if len(found) > 0 {
		return found, nil
	}
	if near := similar(name, others); len(near) > 0 {
		return nil, fmt.Errorf("there is no tool %q; similar ones are %s", name, strings.Join(near, ", "))
	}
	return nil, fmt.Errorf("there is no tool %q among %s; without --tool they are listed", name, counted(len(tools), "tool"))
}

// refusals are why model APIs would refuse the tool under the name that they see.
func (l listing) refusals(t gateway.InspectedTool) []toolschema.Refusal {
	definition := t.Upstream
	if l.Name != "" {
		definition = toolschema.Rename(definition, l.Offered(t.Name))
	}
	return toolschema.Refusals(definition)
}
