package metrics

// Options say what is shown. The zero value is ready.
type Options struct {
	// Version is the daemon's.
	Version string
	// Revision is the commit that the daemon was built from, "" if that is not known.
	Revision string
	// LustreCompat adds the names by which exporters of Lustre show LNet.
	LustreCompat bool
	// PeersMax is how many peers have series of their own, and half of how many of their
	// NIDs have; 0: PeersMax.
	PeersMax int
}

// PeersMax is how many peers have series of their own by default.
const PeersMax = 1000

func (o *Options) peersMax() int {
	if o.PeersMax > 0 {
		return o.PeersMax
	}
	return PeersMax
}
