package config

// Metrics is what "metrics" in "lnetd" says.
type Metrics struct {
	// Peers is the most peers that have series of their own.
	Peers int
	// LustreCompat adds names that dashboards of Lustre's exporters use.
	LustreCompat bool
	// WebConfig is the path of a web-config.yml; empty: neither TLS nor passwords.
	WebConfig string
}

// DefaultMetricsPeers is Metrics.Peers of a file that does not say it, and MetricsPeersMax
// the most that it may say: each makes a scrape longer by some 100 bytes for each of its
// series.
const (
	DefaultMetricsPeers = 1000
	MetricsPeersMax     = 65536
)

// metricsKeys are the keys of "metrics".
var metricsKeys = map[string]setting[Metrics]{
	"peers":         wholes(1, MetricsPeersMax, func(m *Metrics, n int) { m.Peers = n }),
	"lustre_compat": truths(func(m *Metrics, b bool) { m.LustreCompat = b }),
	"web_config": texts(Text{"a path, or \"\"", "/etc/lnetd/web-config.yml"}, func(m *Metrics, s string) error {
		m.WebConfig = s
		return nil
	}),
}
