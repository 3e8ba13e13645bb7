package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnd/mpilnd"
	"github.com/lnetd/lnetd/lnd/mpilnd/boundary"
	"github.com/lnetd/lnetd/lnet"
)

// Defaults and limits of Config (mpilnd B.4, B.9).
const (
	DefaultRankBits = 14
	MinRankBits     = 8
	MaxRankBits     = 20
	DefaultTimeout  = time.Minute
)

// Config configures Start. Open, Net and Driver are required. Net and RankBits must be the same in all processes.
type Config struct {
	// Open opens MPI. It is called once, by a goroutine that is locked to its thread and makes all calls of MPI.
	Open func() (boundary.MPI, error)
	// Net is the net of all processes.
	Net lnet.Net
	// Proxy is set in proxies.
	Proxy *Proxy
	// Listen is set in proxies that are a separate job, to which the application connects (MPI-17). It is set in
	// all of them, and called in rank 0 with the name of the port. It makes the name known to the application.
	Listen func(port string) error
	// Connect is set in applications that connect to a job of proxies. It is set in all processes, and called in rank
	// 0. It waits for the name of the port until ctx is done, and returns it.
	Connect func(ctx context.Context) (port string, err error)
	// Spawn is set in applications that start their proxies: the program is lnet-mpi-proxy with the option --spawned.
	// It is set in all processes, and that of rank 0 is used. Spawned is set in such proxies.
	Spawn   *boundary.Program
	Spawned bool
	// Name is the name of this host, which the others display. It is cut after 64 bytes.
	Name string
	// RankBits is the number of low bits of a client's address that are its rank: MinRankBits to MaxRankBits. The bits
	// above are the slot of the application. 0 means DefaultRankBits.
	RankBits int
	// Timeout is how long Start and Close wait for the other processes, and how long proxies wait for a sign of life of
	// an application that has connected. 0 means DefaultTimeout.
	Timeout time.Duration
	// Driver is the driver's configuration. Start sets MPI, Comms, Peers, Type, PID and Proxy.
	Driver mpilnd.Config
	// Abort makes each error of MPI end all processes of the job with the exit status 1 (MPI-3). Otherwise the
	// operation concerned fails.
	Abort bool
}

// Proxy is what a proxy has of the lnetd of its host (UP-3). Start calls the functions in the goroutine of MPI,
// while the other processes wait.
type Proxy struct {
	// NID returns the NID of the NI that the proxy serves.
	NID func() (lnet.NID, error)
	// Allocate returns a PID that no other application has. Only the proxy with the lowest rank is asked. Start asks
	// again if another proxy cannot register the PID.
	Allocate func() (lnet.PID, error)
	// Register reserves the PID that the first proxy has allocated. It is called in the other proxies.
	Register func(pid lnet.PID) error
}

// apart reports whether the application and its proxies are two jobs.
func (c *Config) apart() bool {
	return c.Listen != nil || c.Connect != nil || c.Spawn != nil || c.Spawned
}

// resolve validates c and sets defaults.
func (c *Config) resolve() error {
	c.RankBits = cmp.Or(c.RankBits, DefaultRankBits)
	c.Timeout = cmp.Or(c.Timeout, DefaultTimeout)
	switch {
	case c.Open == nil:
		return errors.New("Config.Open is not set")
	case c.RankBits < MinRankBits || c.RankBits > MaxRankBits:
		return fmt.Errorf("RankBits is %d, not from %d to %d", c.RankBits, MinRankBits, MaxRankBits)
	case c.Proxy != nil && (c.Proxy.NID == nil || c.Proxy.Allocate == nil || c.Proxy.Register == nil):
		return errors.New("Proxy.NID, Proxy.Allocate and Proxy.Register must be set")
	case (c.Listen != nil || c.Spawned) && c.Proxy == nil:
		return errors.New("Config.Listen or Config.Spawned is set, but this process is not a proxy")
	case (c.Connect != nil || c.Spawn != nil) && c.Proxy != nil:
		return errors.New("Config.Connect or Config.Spawn is set, but this process is a proxy")
	case c.Listen != nil && c.Spawned, c.Connect != nil && c.Spawn != nil:
		return errors.New("only one of Config.Listen and Config.Spawned, or of Config.Connect and Config.Spawn, can be set")
	case c.Spawn != nil && (c.Spawn.Path == "" || len(c.Spawn.Hosts) == 0):
		return errors.New("Config.Spawn has no path or no hosts")
	}
	return nil
}

// proxyNID returns the NID of the proxy.
func (c *Config) proxyNID() (lnet.NID, error) {
	nid, err := c.Proxy.NID()
	switch {
	case err != nil:
		return nid, err
	case nid.Net() != c.Net:
		return nid, fmt.Errorf("the NID %s of the proxy is not on the net %s", nid, c.Net)
	case isClient(nid):
		return nid, fmt.Errorf("the NID %s of the proxy is one of clients, whose first octet is 0", nid)
	}
	return nid, nil
}
