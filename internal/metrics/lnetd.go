package metrics

import (
	"runtime"
	"time"
)

var (
	buildInfo = gaugeFamily("lnetd_build_info", "1, with what was built as labels.", "version", "revision", "goversion")

	configInfo    = gaugeFamily("lnetd_config_info", "1, with the SHA-256 of the configuration file that holds as a label, empty without a file.", "sha256")
	configLoaded  = gaugeFamily("lnetd_config_load_timestamp_seconds", "When the configuration that holds was read, in Unix time.")
	configReloads = counterFamily("lnetd_config_reloads_total",
		"Reloads of the configuration: succeeded, failed, restart_needed if a part of it has to wait for a restart.", "result")
	configGood = gaugeFamily("lnetd_config_last_reload_successful", "0 if the last reload of the configuration failed, else 1.")
	configLast = gaugeFamily("lnetd_config_last_reload_timestamp_seconds", "When the configuration was last reloaded, or that failed, in Unix time; 0: never.")

	scrapesRefused = counterFamily("lnetd_scrapes_refused_total", "Scrapes that were refused, as too many were under way.")
)

func collectBuild(p *page, version, revision string) {
	p.set(buildInfo, 1, version, revision, runtime.Version())
}

func collectConfiguration(p *page, c Configuration) {
	p.set(configInfo, 1, c.SHA256)
	p.set(configLoaded, timestamp(c.Loaded))
	p.count(configReloads, c.Succeeded, "succeeded")
	p.count(configReloads, c.Partial, "restart_needed")
	p.count(configReloads, c.Failed, "failed")
	p.set(configGood, bit(!c.LastFailed))
	p.set(configLast, timestamp(c.Last))
}

// timestamp returns t as Unix time in seconds, or 0 for the zero Time.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
