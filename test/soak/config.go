package soak

import (
	"fmt"
	"net/netip"
	"os"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Config defines the duration and the load of a soak. Both processes have the same Config.
type Config struct {
	// Time is how long messages are sent. The soak takes longer, because operations in progress must end.
	Time time.Duration
	// Transaction is the nodes' transaction timeout, in whole seconds. An operation whose answer is lost
	// ends after 1 to 1.25 times this time.
	Transaction time.Duration
	// Window is the number of operations that each side keeps in progress, not counting those whose answer
	// is probably lost.
	Window int
	// Rails is the number of nets that connect the two nodes.
	Rails int
	// KillMin and KillMax are the limits of the time between two connection failures in each process.
	KillMin, KillMax time.Duration
	// Seed determines the messages and the failures. Which messages a failure affects still differs from
	// run to run.
	Seed uint64
	// Sample is the interval of samples of memory and rates.
	Sample time.Duration
	// First is the first of the loopback addresses that are used. Each rail needs two addresses.
	First netip.Addr
	// Port is the port at which the nodes listen.
	Port int
}

// DefaultConfig is the configuration of a full soak.
func DefaultConfig() Config {
	pid := os.Getpid() // so that simultaneous runs on a host use different addresses
	return Config{
		Time:        30 * time.Minute,
		Transaction: 20 * time.Second,
		Window:      64,
		Rails:       1,
		KillMin:     50 * time.Millisecond,
		KillMax:     500 * time.Millisecond,
		Seed:        uint64(time.Now().UnixNano()),
		Sample:      5 * time.Second,
		First:       netip.AddrFrom4([4]byte{127, byte(16 + pid>>8%200), byte(pid), 1}),
		Port:        9985,
	}
}

// Validate returns an error for the first field that is out of range.
func (c *Config) Validate() error {
	switch {
	case c.Time <= 0:
		return fmt.Errorf("time %v: must be positive", c.Time)
	case c.Transaction < 2*time.Second:
		return fmt.Errorf("transaction timeout %v: must be at least 2s", c.Transaction)
	case c.Window < 1:
		return fmt.Errorf("window %d: must be at least 1", c.Window)
	case c.Rails < 1 || c.Rails > 4:
		return fmt.Errorf("rails %d: must be 1 to 4", c.Rails)
	case c.KillMin <= 0 || c.KillMax < c.KillMin:
		return fmt.Errorf("kills %v to %v apart: must be positive and in order", c.KillMin, c.KillMax)
	case c.Sample <= 0:
		return fmt.Errorf("sample %v: must be positive", c.Sample)
	}
	return nil
}

// side is one of the two processes.
type side int

const (
	parent side = iota
	child
)

func (s side) String() string { return [...]string{"parent", "child"}[s] }

func (s side) other() side { return 1 - s }

// nid returns the NID of a side's NI on a rail.
func (c *Config) nid(s side, rail int) lnet.NID {
	a := c.First.As4()
	a[3] += byte(int(s)*c.Rails + rail)
	return lnet.NIDFromIP(lnet.MakeNet(lnet.TypeTCP, uint16(rail)), netip.AddrFrom4(a))
}

// seed returns the seed of the messages that a side sends.
func (c *Config) seed(s side) uint64 { return mix(c.Seed + uint64(s)) }

// lostAfter is how long an operation counts toward the window. An operation that takes longer has
// probably lost its answer, and another one takes its place.
const lostAfter = 150 * time.Millisecond

// drainTimeout is the time limit for all operations to end after the last one was started, and then
// again for the node to become idle.
func (c *Config) drainTimeout() time.Duration { return 2*c.Transaction + 15*time.Second }
