package metrics

import "net/http"

// Options configure the metrics. The zero value is valid.
type Options struct {
	// Version is the version of the daemon.
	Version string
	// Revision is the commit that the daemon was built from, or "" if it is unknown.
	Revision string
	// LustreCompat adds metrics under the names of Lustre exporters.
	LustreCompat bool
	// PeersMax is the maximum number of peers for which there are separate time series. Their NIDs have
	// separate series too, for at most twice as many NIDs. 0 means the constant PeersMax.
	PeersMax int
	// Others answers requests for other paths than /metrics. The limits on scrapes apply to them too, and
	// /healthz and /readyz have the same limits for themselves. If it is nil, there are no other paths.
	Others http.Handler
}

// PeersMax is the default of Options.PeersMax.
const PeersMax = 1000

func (o *Options) peersMax() int {
	if o.PeersMax > 0 {
		return o.PeersMax
	}
	return PeersMax
}
