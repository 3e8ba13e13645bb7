package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lnetd/lnetd/cmd/internal/cli"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnet"
)

// options are the options of the command line.
type options struct {
	socket, name  string
	listen        string // file for the name of the port, or empty
	spawned       bool   // the application has started this proxy
	netName       string // name of the net type, with the number of the net
	netType       uint8
	nidText       string
	library       string
	shims         string
	rankBits      int
	startTimeout  time.Duration
	attachTimeout time.Duration
	onError       string
	maxAhead      int
	set           []string
	level         level

	// resolve sets the fields below.
	net    lnet.Net
	nid    lnet.NID // or zero
	driver mpilnd.Config
}

func newOptions() *options {
	return &options{driver: mpilnd.DefaultConfig(), level: level(slog.LevelWarn)}
}

// command returns the command, which calls do with valid options.
func (o *options) command(do func() error) *cobra.Command {
	c := &cobra.Command{
		Use: "lnet-mpi-proxy [OPTIONS]", Short: "connect an MPI application with lnetd", Long: description,
		Example: examples, Version: api.BuildVersion(), Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true,
		DisableFlagsInUseLine: true,
		PreRunE:               func(*cobra.Command, []string) error { return o.resolve() },
		RunE:                  func(*cobra.Command, []string) error { return do() },
	}
	c.CompletionOptions.DisableDefaultCmd = true
	c.SetVersionTemplate("lnet-mpi-proxy {{.Version}}\n")
	help.Install(c)
	f := c.Flags()
	f.StringVar(&o.netName, "net", "mpi", "`NET` of lnetd to serve, such as mpi or mpi1 (default mpi)")
	f.Uint8Var(&o.netType, "net-type", uint8(mpilnd.DefaultType), "`NUMBER` of the type of the net, as in lnetd's net_types (default 127)")
	f.StringVar(&o.nidText, "nid", "", "`NID` of lnetd's NI, if it has several on the net")
	f.StringVar(&o.socket, "socket", "/run/lnetd/proxies.sock", "`PATH` of lnetd's socket for proxies (default /run/lnetd/proxies.sock)")
	f.StringVar(&o.name, "name", "mpi", "`NAME` of this proxy, which lnetd displays and compares with \"proxy\" of the NI (default mpi)")
	f.StringVar(&o.listen, "listen", "", "`FILE` for the port at which this job of proxies waits for the application, which is a job of its own")
	f.BoolVar(&o.spawned, "spawned", false, "the application has started this proxy by MPI_Comm_spawn; added by the application")
	f.StringVar(&o.library, "library", "", "MPI `LIBRARY`: openmpi, mpich or the path of a shim (default that of mpirun)")
	f.StringVar(&o.shims, "shims", "", "`DIR` of lnetd-openmpi.so and lnetd-mpich.so (default that of this program, then /usr/lib/lnetd)")
	f.IntVar(&o.rankBits, "rank-bits", job.DefaultRankBits, "`BITS` of a rank in its address, as in the application (default 14)")
	f.DurationVar(&o.attachTimeout, "attach-timeout", 30*time.Second, "`TIME` to wait for lnetd and its NI (default 30s)")
	f.DurationVar(&o.startTimeout, "timeout", job.DefaultTimeout, "`TIME` to wait for the other processes of the job at its start and end (default 1m)")
	f.StringVar(&o.onError, "on-error", "return", "`ACTION` after an error of MPI: return fails the message, abort ends the job (default return)")
	f.IntVar(&o.maxAhead, "max-ahead", lnet.MTU, "largest payload in `BYTES` that is received before lnetd has memory for it (default 1048576)")
	f.StringArrayVar(&o.set, "set", nil, "set a tunable of the driver, `NAME=VALUE`; may be repeated")
	f.Var(&o.level, "log-level", "lowest `LEVEL` to log: debug, info, warn, error (default warn)")
	cli.Once(c)
	return c
}

// resolve checks the options.
func (o *options) resolve() error {
	t := lnet.NetType(o.netType)
	if err := lnet.NameType(lnet.NamedType{Type: t, Name: strings.TrimRight(o.netName, "0123456789"), IP: true}); err != nil {
		return fmt.Errorf("option '--net': %w", err)
	}
	var err error
	if o.net, err = lnet.ParseNet(o.netName); err != nil {
		return fmt.Errorf("option '--net': %w", err)
	}
	if o.net.Type() != t {
		return fmt.Errorf("option '--net': %s is not of the type %d", o.netName, o.netType)
	}
	if o.nidText != "" {
		if o.nid, err = lnet.ParseNID(o.nidText); err == nil && o.nid.Net() != o.net {
			err = fmt.Errorf("%s is not on the net %s", o.nid, o.net)
		}
		if err != nil {
			return fmt.Errorf("option '--nid': %w", err)
		}
	}
	switch {
	case o.spawned && o.listen != "":
		return errors.New("options '--spawned' and '--listen' exclude each other")
	case o.onError != "return" && o.onError != "abort":
		return fmt.Errorf("option '--on-error': '%s' is not return or abort", o.onError)
	case o.rankBits < job.MinRankBits || o.rankBits > job.MaxRankBits:
		return fmt.Errorf("option '--rank-bits': %d is not from %d to %d", o.rankBits, job.MinRankBits, job.MaxRankBits)
	case o.startTimeout <= 0 || o.attachTimeout <= 0:
		return errors.New("options '--timeout' and '--attach-timeout': a time must be positive")
	case o.maxAhead < 0 || o.maxAhead > lnet.MTU:
		return fmt.Errorf("option '--max-ahead': %d is not from 0 to %d", o.maxAhead, lnet.MTU)
	}
	for _, text := range o.set {
		name, value, found := strings.Cut(text, "=")
		n, err := strconv.ParseInt(value, 0, 64)
		switch {
		case !found:
			return fmt.Errorf("option '--set': '%s' is not NAME=VALUE", text)
		case err != nil:
			return fmt.Errorf("option '--set': the value of '%s' is not a whole number", text)
		}
		if err := o.driver.Set(name, n); err != nil {
			return fmt.Errorf("option '--set': %w", err)
		}
	}
	return nil
}
