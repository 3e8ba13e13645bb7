package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnd/mpilnd/shim"
	"github.com/lnetd/lnetd/lnd/uplnd/proxy"
	"github.com/lnetd/lnetd/lnet"
)

// attachPause is the time between two attempts to attach to lnetd.
const attachPause = 200 * time.Millisecond

// serve takes part in the job until the application ends, ctx is done, or lnetd or MPI fails. It returns nil only in
// the first case.
func (o *options) serve(ctx context.Context, log *slog.Logger) error {
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	a := &attachment{options: o, ctx: ctx, log: log}
	o.driver.Logger = log
	listen, withdraw := o.port()
	processes := 2 // a rank and a proxy
	if listen != nil || o.spawned {
		processes = 1
	}
	j, err := job.Start(ctx, job.Config{
		Open: func() (boundary.MPI, error) {
			return shim.Open(o.library, shim.Options{Dir: o.shims, Processes: processes})
		},
		Listen: listen, Spawned: o.spawned,
		Net: o.net, Name: host, RankBits: o.rankBits, Timeout: o.startTimeout, Driver: o.driver, Abort: o.onError == "abort",
		Proxy: &job.Proxy{NID: a.nid, Allocate: a.allocate, Register: a.register},
	})
	if err := errors.Join(err, withdraw()); err != nil {
		return err
	}
	log.Info("the proxy is part of an application", "nid", j.Self().NID, "pid", j.PID(), "rank", j.Self().Rank,
		"processes", len(j.Table().Members()), "library", j.Library())
	serving, stop := context.WithCancel(ctx)
	defer stop()
	finished := make(chan error, 1)
	go func() {
		finished <- j.Finish(serving)
		stop()
	}()
	lost := a.proxy.Serve(serving, j.Driver()) // an error if lnetd ends: the interface has told the ranks
	stop()
	if err := errors.Join(lost, <-finished); err != nil {
		return err
	}
	return j.Close(ctx)
}

// port returns the function that makes the name of a port known in the file of --listen, or nil if the proxies are
// ranks of the application. withdraw removes the file if the function has written it: proxies serve one application.
func (o *options) port() (listen func(port string) error, withdraw func() error) {
	if o.listen == "" {
		return nil, func() error { return nil }
	}
	var written atomic.Bool
	listen = func(port string) error {
		err := job.ListenFile(o.listen)(port)
		written.Store(err == nil)
		return err
	}
	return listen, func() error {
		if !written.Load() {
			return nil
		}
		return os.Remove(o.listen)
	}
}

// attachment is the connection to lnetd, which the goroutine of MPI opens while the job starts.
type attachment struct {
	options *options
	ctx     context.Context
	log     *slog.Logger
	proxy   *proxy.Proxy
}

// nid attaches to lnetd and returns the NID of the NI. It tries again for a while if the reason for a failure may
// pass.
func (a *attachment) nid() (lnet.NID, error) {
	o := a.options
	ctx, cancel := context.WithTimeout(a.ctx, o.attachTimeout)
	defer cancel()
	ahead := o.maxAhead
	if ahead == 0 {
		ahead = -1
	}
	for first := true; ; first = false {
		var err error
		a.proxy, err = proxy.Attach(ctx, proxy.Config{
			Socket: o.socket, Name: o.name, Net: o.net, NID: o.nid, MaxAhead: ahead, Logger: a.log,
		})
		if err == nil {
			return a.proxy.NID(), nil
		}
		if !temporary(err) {
			return lnet.NID{}, err
		}
		if first {
			a.log.Info("waiting for lnetd", "error", err)
		}
		select {
		case <-time.After(attachPause):
		case <-ctx.Done():
			return lnet.NID{}, fmt.Errorf("%w (tried for %s)", err, o.attachTimeout)
		}
	}
}

// temporary reports whether an attempt to attach may succeed later: lnetd does not run yet, or has no NI for this
// proxy yet, or a proxy that has left still counts.
func temporary(err error) bool {
	for _, e := range []error{
		syscall.ENOENT, syscall.ECONNREFUSED, syscall.ENODEV, syscall.EAGAIN, syscall.EDQUOT, syscall.ESHUTDOWN,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

func (a *attachment) allocate() (lnet.PID, error) { return a.proxy.AllocatePID(a.ctx) }
func (a *attachment) register(pid lnet.PID) error { return a.proxy.RegisterPID(a.ctx, pid) }
