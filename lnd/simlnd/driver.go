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
		c.Seed = h.seed()
	}
	if c.SourcePorts == socklnd.SourceAuto {
		c.SourcePorts = socklnd.SourcePrivileged
	}
	return socklnd.New(c)
}

// seed derives a nonzero seed from the fabric's seed and the host's name.
func (h *Host) seed() uint64 {
	x := h.fabric.config.Seed
	for _, b := range []byte(h.name) {
		x = (x ^ uint64(b)) * 0x9e3779b97f4a7c15
		x ^= x >> 29
	}
	return x | 1
}
