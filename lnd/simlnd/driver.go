package simlnd

import "github.com/lnetd/lnetd/lnd/socklnd"

// NewDriver returns a socklnd driver that uses the streams of h. If c does not set the seed, the wall
// clock or the source ports, they come from the fabric. Then the same fabric seed gives the same jitter,
// and two lives of an interface never have the same incarnation.
func NewDriver(h *Host, c socklnd.Config) (*socklnd.Driver, error) {
	c.Network = h
	if c.Wall == nil {
		c.Wall = h.fabric.wall
	}
	if c.Seed == 0 {
		c.Seed = h.fabric.net.Seed(h.net)
	}
	if c.SourcePorts == socklnd.SourceAuto {
		c.SourcePorts = socklnd.SourcePrivileged
	}
	return socklnd.New(c)
}
