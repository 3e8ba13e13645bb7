package metrics

import (
	"runtime"
	"time"
)

var (
	buildInfo = gaugeFamily("lnetd_build_info", "Always 1. The labels describe the build.", "version", "revision", "goversion")

	configInfo    = gaugeFamily("lnetd_config_info", "Always 1. The label is the SHA-256 of the configuration file in use, or empty without a file.", "sha256")
	configLoaded  = gaugeFamily("lnetd_config_load_timestamp_seconds", "Unix time at which the configuration in use was read.")
	configReloads = counterFamily("lnetd_config_reloads_total",
		"Reloads of the configuration, by result: succeeded, failed, or restart_needed if a part of it takes effect only after a restart.", "result")
	configGood = gaugeFamily("lnetd_config_last_reload_successful", "0 if the last reload of the configuration failed, otherwise 1.")
	configLast = gaugeFamily("lnetd_config_last_reload_timestamp_seconds", "Unix time of the last attempt to reload the configuration, 0 if there was none.")

	scrapesRefused = counterFamily("lnetd_scrapes_refused_total", "Scrapes that were refused because too many were in progress.")
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

// timestamp returns t as Unix time in seconds. For the zero Time it returns 0.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
