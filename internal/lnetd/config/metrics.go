package config

// Metrics is the section "metrics" in "lnetd".
type Metrics struct {
	// Peers is the maximum number of peers with their own series.
	Peers int
	// LustreCompat adds the metric names that dashboards of Lustre's exporters use.
	LustreCompat bool
	// WebConfig is the path of a web-config.yml. If it is empty, neither TLS nor passwords are
	// used.
	WebConfig string
}

// DefaultMetricsPeers is the default of Metrics.Peers, and MetricsPeersMax its maximum. Each peer
// adds about 100 bytes per series to a scrape.
const (
	DefaultMetricsPeers = 1000
	MetricsPeersMax     = 65536
)

// metricsKeys holds the keys of "metrics".
var metricsKeys = map[string]setting[Metrics]{
	"peers":         wholes(1, MetricsPeersMax, func(m *Metrics, n int) { m.Peers = n }),
	"lustre_compat": boolSettings(func(m *Metrics, b bool) { m.LustreCompat = b }),
	"web_config": texts(Text{"a path, or \"\"", "/etc/lnetd/web-config.yml"}, func(m *Metrics, s string) error {
		m.WebConfig = s
		return nil
	}),
}
