package config

// Metrics is the section "metrics" in "lnetd".
type Metrics struct {
	// Peers is the maximum number of peers for which there are separate time series.
	Peers int
	// LustreCompat adds metrics with the names that dashboards for Lustre's exporters use.
	LustreCompat bool
	// WebConfig is the path of a file with the TLS and password settings, in the format of
	// Prometheus exporters. If it is empty, metrics are served without TLS and passwords.
	WebConfig string
	// StatusPage reports whether the metrics server also serves a page for people.
	StatusPage bool
}

// DefaultMetricsPeers is the default of Metrics.Peers, and MetricsPeersMax its maximum. The answer to a
// scrape grows by about 100 bytes for each time series of each peer.
const (
	DefaultMetricsPeers = 1000
	MetricsPeersMax     = 65536
)

// metricsKeys holds the keys of "metrics".
var metricsKeys = map[string]setting[Metrics]{
	"peers":         wholes(1, MetricsPeersMax, func(m *Metrics, n int) { m.Peers = n }),
	"lustre_compat": boolSettings(func(m *Metrics, b bool) { m.LustreCompat = b }),
	"status_page":   boolSettings(func(m *Metrics, b bool) { m.StatusPage = b }),
	"web_config": texts(Text{"a path, or \"\"", "/etc/lnetd/web-config.yml"}, func(m *Metrics, s string) error {
		m.WebConfig = s
		return nil
	}),
}
