package main

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/mcp-idem/mcp-idem/config"
	"github.com/mcp-idem/mcp-idem/gateway"
)

func serveCommand() *cobra.Command {
	var s serveSettings
	cmd := &cobra.Command{
		Use:   "serve [flags] CONFIG",
		Short: "Protect several MCP servers: serve them as one, by a configuration file",
		Long: `serve reads CONFIG, a file with the mcpServers object that every MCP client
writes (JSON with comments, or YAML), and serves all servers in it as one, on its
own stdin and stdout or by HTTP. Their tools are called SERVER__TOOL. Blocks
"idempotency" in the file say how calls are guarded; docs/configuration.md has all
of it.

A server that is down does not hide the others, and appears when it comes. A
changed file is taken over while serve runs, at once on SIGHUP; one that is wrong
changes nothing, and the log says why. Servers get the variables of the
environment that the platform needs, and those that the file names.

Flags, and the environment's MCP_IDEM_*, go before what the file says.`,
		Example: `  # the whole of a client's configuration, with one server in it:
  {"mcpServers": {"all": {"command": "mcp-idem", "args": ["serve", "/path/to/servers.json"]}}}

  # for clients that come by HTTP:
  mcp-idem serve --http 127.0.0.1:7423 servers.yaml`,
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := s.http.takeAddress(cmd, args)
			switch {
			case err != nil:
			case len(args) == 0:
				err = usagef("serve: no configuration; give a file with an mcpServers object, for instance: mcp-idem serve servers.json")
			case len(args) > 1:
				err = usagef("serve: there is %q behind the configuration %q; give one file", args[1], args[0])
			default:
				err = fromEnvironment(cmd)
			}
			if err != nil {
				return s.decline(cmd, err)
			}
			s.flags, s.file = cmd.Flags(), args[0]
			return serve(cmd, &s)
		},
	}
	s.registerGuard(cmd.Flags())
	s.registerGate(cmd.Flags())
	cmd.Flags().DurationVar(&s.lateStart, "late-start", gateway.DefaultLateAfter, "how long a client's handshake waits for servers that start slowly, once one is there")
	cmd.Flags().SetInterspersed(false)
	return cmd
}

func serve(cmd *cobra.Command, s *serveSettings) error {
	upstreams, log, err := s.start(cmd)
	if err != nil {
		return s.decline(cmd, err)
	}
	web, err := s.http.optionsIfAny(false, log)
	if err != nil {
		return s.decline(cmd, err)
	}
	ledger, path, err := s.openLedger(cmd.Context(), log)
	if err != nil {
		return s.decline(cmd, err)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // see wrap
	s.logChanges(upstreams, log)
	log.Info().Str("config", absolute(s.file)).Str("ledger", absolute(path)).Str("version", version()).Msg("starting")
	options := gateway.FrontOptions{Version: version(), LateAfter: s.lateStart, Log: log}
	if s.http.address == "" {
		front := gateway.NewFront(ledger, options)
		err = s.run(cmd.Context(), front, upstreams, log, func(ctx context.Context) error {
			return front.ServeStdio(ctx, cmd.InOrStdin(), cmd.OutOrStdout())
		})
		return errors.Join(err, ledger.Close())
	}
	l, err := s.http.listen()
	if err != nil {
		return errors.Join(err, ledger.Close())
	}
	front := gateway.NewHTTPFront(ledger, options, web, upstreams[0].Scope.Namespace)
	err = s.run(cmd.Context(), front, upstreams, log, func(ctx context.Context) error { return front.Serve(ctx, l) })
	return errors.Join(err, ledger.Close())
}

// start reads the file, and what it says.
func (s *serveSettings) start(cmd *cobra.Command) ([]gateway.Options, zerolog.Logger, error) {
	file, err := config.Load(s.file, os.LookupEnv)
	if err != nil {
		return nil, zerolog.Nop(), &usageError{err}
	}
	if err := s.adopt(file); err != nil {
		return nil, zerolog.Nop(), err
	}
	log, err := s.logger(cmd.ErrOrStderr())
	if err != nil {
		return nil, log, err
	}
	for _, note := range file.Notes {
		log.Info().Msg(note)
	}
	if err := haveLength(span{"late-start", s.lateStart}); err != nil {
		return nil, log, err
	}
	upstreams, err := s.upstreams(file, log)
	return upstreams, log, err
}

// A front is a gateway whose upstreams can be replaced while it serves.
type front interface {
	Replace(upstreams []gateway.Options) error
}

// run serves the upstreams, and takes over the file whenever it has changed.
func (s *serveSettings) run(ctx context.Context, f front, upstreams []gateway.Options, log zerolog.Logger, serve func(context.Context) error) error {
	if err := f.Replace(upstreams); err != nil {
		return &usageError{err}
	}
	watching, stop := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.watch(watching, func() { s.reload(f, log) })
	}()
	defer func() { stop(); <-watched }()
	return serve(ctx)
}

// reload takes over the file as it is now, or says why it does not.
func (s *serveSettings) reload(f front, log zerolog.Logger) {
	const kept = "the configuration was changed, and is not taken over; what was there before goes on"
	file, err := config.Load(s.file, os.LookupEnv)
	if err != nil {
		for _, line := range lines(err) {
			log.Error().Str("problem", line).Msg(kept)
		}
		return
	}
	for _, name := range s.needRestart(file) {
		log.Warn().Str("setting", name).Msg("a setting has changed that is read only at the start; start mcp-idem again for it")
	}
	upstreams, err := s.upstreams(file, log)
	if err == nil {
		err = f.Replace(upstreams)
	}
	if err != nil {
		log.Error().Err(err).Msg(kept)
		return
	}
	s.logChanges(upstreams, log)
	log.Info().Msg("the changed configuration is taken over")
}

// logChanges says which upstreams are new, others than before, or gone.
func (s *serveSettings) logChanges(upstreams []gateway.Options, log zerolog.Logger) {
	before := s.running
	s.running = map[string]string{}
	for _, o := range upstreams {
		s.running[o.Name] = o.Digest
		if before[o.Name] != o.Digest || o.Digest == "" {
			log.Info().Str("upstream", o.Name).Str("account", o.Scope.Account).Str("namespace", o.Scope.Namespace).Msg("configured")
		}
	}
	for name := range before {
		if _, still := s.running[name]; !still {
			log.Info().Str("upstream", name).Msg("no longer configured")
		}
	}
}
