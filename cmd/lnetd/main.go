// Command lnetd is an LNet node in user space.
package main

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/daemon"
	"github.com/lnetd/lnetd/internal/lnetd/spelling"
)

// Exit statuses, besides that of cli.Interrupted after a second signal.
const (
	exitOK      = 0
	exitFailure = 1 // lnetd failed
	exitUsage   = 2 // the command line or the configuration is invalid
)

func main() {
	cli.ExecO2IB()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run runs lnetd with the arguments args and returns the exit status.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	cmd := o.command(func() error { return o.run(stdout, stderr) })
	cmd.SetArgs(args)
	cmd.SetOut(stdout)
	cmd.SetErr(stderr)
	err := cmd.Execute()
	var fault *api.Fault
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &fault):
		fmt.Fprint(stderr, "lnetd: "+fault.WithRemedy().Report())
		if fault.Code != api.CodeConfigInvalid && fault.Code != api.CodeConfigUnreadable {
			return exitFailure
		}
	case o.running:
		fmt.Fprintf(stderr, "lnetd: %v\n", err)
		return exitFailure
	default:
		fmt.Fprintf(stderr, "lnetd: %v\nTry 'lnetd --help'.\n", err)
	}
	return exitUsage
}

// lustreCompat is the name of the option that adds metrics with the names of other exporters. Like
// --web.config.file, the name has a dot, because options of Prometheus exporters are spelled like this.
const lustreCompat = "metrics.lustre-compat"

// options holds the options of the command line.
type options struct {
	override config.Override
	port     int
	file     string
	// lustreCompat is the value of the option with the name lustreCompat.
	lustreCompat bool
	reference    bool
	schema       bool
	check        bool
	json         bool
	// running is set if the command line was valid, so that an error is not about the command line.
	running bool
}

func (o *options) command(do func() error) *cobra.Command {
	c := &cobra.Command{
		Use:           "lnetd",
		Short:         "an LNet node in user space",
		Version:       api.BuildVersion(),
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
		RunE: func(c *cobra.Command, _ []string) error {
			if c.Flags().Changed("port") {
				o.override.Port = &o.port
			}
			if c.Flags().Changed(lustreCompat) {
				o.override.LustreCompat = &o.lustreCompat
			}
			if o.json && !o.check {
				return errors.New("option '--json' needs the option --check")
			}
			o.running = true
			return do()
		},
	}
	c.CompletionOptions.DisableDefaultCmd = true
	c.SetVersionTemplate("lnetd {{.Version}}\n")
	c.SetHelpTemplate(manPage)
	f := c.Flags()
	f.StringVar(&o.file, "config", "", "configuration `FILE`: YAML in the format of \"lnetctl export\"")
	f.StringArrayVar(&o.override.Networks, "net", nil, "`NETS` of this node, such as \"tcp(eth0),tcp1(eth1)\", or its NID; replaces the nets of the file")
	f.IntVar(&o.port, "port", 0, "TCP `PORT` to listen on and to connect to (default 988)")
	f.StringVar(&o.override.ControlSocket, "control-socket", "", "`PATH` of the control socket")
	f.StringVar(&o.override.MetricsAddr, "metrics-addr", "", "`HOST:PORT` to serve Prometheus' /metrics on (default none)")
	f.BoolVar(&o.lustreCompat, lustreCompat, false, "also serve metrics under the names that dashboards for Lustre exporters use")
	f.StringVar(&o.override.WebConfig, "web.config.file", "", "`FILE` with the TLS and password settings of /metrics, in the format of Prometheus exporters (default none)")
	f.StringVar(&o.override.LogLevel, "log-level", "", "lowest `LEVEL` to log: debug, info, warn, error (default info)")
	f.BoolVar(&o.check, "check", false, "check the configuration file and the command line, report all errors, and exit")
	f.BoolVar(&o.json, "json", false, "print the result of --check as JSON, and whether the ports of the NIs are free")
	f.BoolVar(&o.reference, "print-reference-config", false, "print a configuration file with every key and its default, and exit")
	f.BoolVar(&o.schema, "print-config-schema", false, "print a JSON Schema of configuration files, and exit")
	cli.Once(c)
	cli.ExplainOptions(c)
	return c
}

// run performs what the options request: it prints the reference or the schema, checks the configuration, or
// runs the daemon.
func (o *options) run(stdout, stderr io.Writer) error {
	if o.reference {
		_, err := stdout.Write(config.Reference(daemon.AllDrivers().Options()))
		return err
	}
	if o.schema {
		_, err := stdout.Write(config.Schema(daemon.AllDrivers().Options()))
		return err
	}
	c, err := o.load()
	if o.json {
		return o.checkedJSON(stdout, &c, err)
	}
	if err != nil {
		return err
	}
	if o.check {
		return o.checked(stdout, &c)
	}
	level := &slog.LevelVar{}
	level.Set(c.LogLevel)
	log := daemon.NewLogger(stderr, level, c.LogFormat)
	d := daemon.New(c, daemon.AllDrivers(), log)
	d.SetLevel(level)
	ctx, stop := cli.UntilSignal(func(sig syscall.Signal) { d.Logger().Info("received a signal", "signal", sig.String()) })
	defer stop()
	defer onHangup(func() { d.Reload(ctx, o.load) })()
	return d.Run(ctx)
}

// checked prints the warnings about a valid configuration, including those that depend on the present state of
// this host. It returns an error if lnetd could not start with the configuration on this host.
func (o *options) checked(stdout io.Writer, c *config.Config) error {
	from := o.from(c)
	rules := daemon.ForeseeRules(from, c)
	rules = append(rules, daemon.ForeseeCPTs(from, &c.State, os.DirFS("/sys"))...)
	waits, refused := drivers(c).Foresee(from, &c.State, "lnetd waits for it")
	for _, w := range slices.Concat(c.Warnings, rules, waits) {
		fmt.Fprintln(stdout, "warning: "+w.Error())
	}
	unsafe, err := daemon.CheckWebConfig(c)
	for _, w := range unsafe {
		fmt.Fprintln(stdout, "warning: "+w)
	}
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		return daemon.RefusedFault(refused)
	}
	_, err = fmt.Fprintln(stdout, "the configuration has no errors")
	return err
}

// from returns the source of the NIs in c for messages: the option --net or the configuration file.
func (o *options) from(c *config.Config) string {
	if c.Given.Networks {
		return "--net"
	}
	return o.file
}

// drivers returns the drivers of an lnetd with the configuration c, to check NIs with.
func drivers(c *config.Config) daemon.Drivers {
	return daemon.AllDrivers().WithProxies(c.Proxies.NetTypes, nil)
}

// undriven returns an error if c has NIs for which this lnetd has no driver. The argument from is the source of
// the NIs for messages.
func undriven(from string, c *config.Config) error {
	list := drivers(c).Undriven(from, &c.State)
	if len(list) == 0 {
		return nil
	}
	remedy := ""
	if !slices.ContainsFunc(list, func(p *config.Problem) bool { return p.Remedy != list[0].Remedy }) {
		remedy = list[0].Remedy // all remedies are equal: print it once
		for _, p := range list {
			p.Remedy = ""
		}
	}
	return api.Fault{Code: api.CodeConfigInvalid, Text: "this lnetd cannot use the configuration", Remedy: remedy}.Because(list)
}

// load reads the configuration file, if one is given, and applies the options of the command line to it. The
// error has all problems of both.
func (o *options) load() (config.Config, error) {
	c := config.Default()
	options := daemon.AllDrivers().Options()
	var inFile error
	if o.file != "" {
		b, err := config.ReadFile(o.file)
		if err != nil {
			return c, api.Fault{
				Code: api.CodeConfigUnreadable, Text: "the configuration cannot be read",
				Remedy: "check --config and the permissions of the file",
			}.Because(err)
		}
		c, inFile = config.Parse(o.file, b, options)
		c.SHA256 = fmt.Sprintf("%x", sha256.Sum256(b))
	}
	err := c.Apply(o.override, options)
	if err == nil && inFile == nil {
		return c, undriven(o.from(&c), &c)
	}
	f := api.Fault{Code: api.CodeConfigInvalid, Text: "the configuration has errors", Remedy: "see the keys and their values with: lnetd --print-reference-config"}
	if inFile == nil {
		f.Text, f.Remedy = "the command line has errors", cmp.Or(spelling.MeantNetType(err), "see lnetd --help")
	}
	return c, f.Because(errors.Join(inFile, err))
}

// onHangup calls heard for each SIGHUP until stop is called. Without this, SIGHUP would end the program.
func onHangup(heard func()) (stop func()) {
	signals, stopped := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(signals, syscall.SIGHUP)
	go func() {
		for {
			select {
			case <-signals:
				heard()
			case <-stopped:
				return
			}
		}
	}()
	return func() { signal.Stop(signals); close(stopped) }
}
