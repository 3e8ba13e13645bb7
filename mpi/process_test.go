package mpi

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary/fake"
	"github.com/lnetd/lnetd/lnd/mpilnd/job"
	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// Each rank pings all others, and then closes, which waits for the slowest one.
//
// MPI-5, MPI-7
func TestInit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake.New(3, fake.Options{Eager: 4096, Unexpected: 64})
		var all sync.WaitGroup
		for rank := range f.Size() {
			all.Go(func() {
				p, err := start(t.Context(), Config{}, func() (boundary.MPI, error) { return f.Rank(rank), nil })
				if err != nil {
					t.Error(err)
					return
				}
				if p.Self().Rank != rank || p.Node().PID() != p.Self().PID || p.Library() != "fake" {
					t.Errorf("rank %d is %+v with PID %s over %s", rank, p.Self(), p.Node().PID(), p.Library())
				}
				for _, m := range p.Members() {
					if m.Rank == rank {
						continue
					}
					if _, err := p.Node().Ping(t.Context(), lnet.ProcessID{NID: m.NID, PID: m.PID}, node.PingOptions{}); err != nil {
						t.Errorf("rank %d pings rank %d: %v", rank, m.Rank, err)
					}
				}
				if err := p.Close(t.Context()); err != nil {
					t.Errorf("rank %d: %v", rank, err)
				}
			})
		}
		all.Wait()
	})
}

// Proxies of a separate job and proxies to start exclude each other, and the hosts of the latter must have names. The
// error names the field or the environment variable.
//
// MPI-17
func TestConfig(t *testing.T) {
	for _, c := range []struct {
		config      Config
		port, spawn string // environment variables
		want        string
	}{
		{port: "file:/p", spawn: "a", want: "LNET_MPI_PORT and LNET_MPI_SPAWN exclude each other"},
		{config: Config{Spawn: "a"}, port: "p", want: "LNET_MPI_PORT and Config.Spawn exclude each other"},
		{config: Config{Port: "p", Spawn: "a"}, want: "Config.Port and Config.Spawn exclude each other"},
		{spawn: "a,,b", want: `LNET_MPI_SPAWN: a host in "a,,b" has no name`},
		{config: Config{Spawn: " "}, spawn: "a", want: "Config.Spawn: there are no hosts for the proxies"},
	} {
		t.Setenv(job.PortVariable, c.port)
		t.Setenv(job.SpawnVariable, c.spawn)
		_, err := start(t.Context(), c.config, func() (boundary.MPI, error) {
			t.Errorf("opened MPI: want %q", c.want)
			return nil, boundary.ErrNoLibrary
		})
		if !errors.Is(err, ErrConfig) || err.Error() != "mpi: invalid configuration: "+c.want {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// A rank that ends early does not keep others from ending.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := fake.New(2, fake.Options{})
		var all sync.WaitGroup
		for rank := range f.Size() {
			all.Go(func() {
				p, err := start(t.Context(), Config{}, func() (boundary.MPI, error) { return f.Rank(rank), nil })
				if err != nil {
					t.Error(err)
					return
				}
				if rank == 1 {
					if err := p.Node().Close(t.Context()); err != nil {
						t.Error(err)
					}
					return
				}
				ctx, cancel := context.WithTimeoutCause(t.Context(), 1e9, lnd.ErrTimeout)
				defer cancel()
				if err := p.Close(ctx); !errors.Is(err, lnd.ErrTimeout) {
					t.Errorf("close: %v", err)
				}
			})
		}
		all.Wait()
		f.Close()
	})
}
