package metrics

import (
	"runtime"
	"time"

	"github.com/lnetd/lnetd/lnd/boundedlog"
)

var (
	buildInfo = gaugeFamily("lnetd_build_info", "Always 1. The labels describe the build.", "version", "revision", "goversion")

	configInfo    = gaugeFamily("lnetd_config_info", "Always 1. The label is the SHA-256 of the configuration file in use, or empty without a file.", "sha256")
	configLoaded  = gaugeFamily("lnetd_config_load_timestamp_seconds", "Unix time at which the configuration in use was read.")
	configReloads = counterFamily("lnetd_config_reloads_total",
		"Reloads of the configuration, by result: succeeded, failed, or restart_needed if a part of it takes effect only after a restart.", "result")
	configGood = gaugeFamily("lnetd_config_last_reload_successful", "0 if the last reload of the configuration failed, otherwise 1.")
	configLast = gaugeFamily("lnetd_config_last_reload_timestamp_seconds", "Unix time of the last attempt to reload the configuration, 0 if there was none.")

	logSummarized = counterFamily("lnetd_log_events_summarized_total", "Events that had no log line of their own when they happened, but are counted in a later one.")
	logOverBudget = counterFamily("lnetd_log_events_over_budget_total",
		"Those of the summarized events that are first failures or recoveries of a peer or another subject, or of too many subjects: the budget of log lines was used up.")
	logOmitted = counterFamily("lnetd_log_debug_lines_omitted_total", "Log lines at level debug that were left out because there were too many.")

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

func collectLog(p *page, s boundedlog.Stats) {
	p.count(logSummarized, s.Summarized)
	p.count(logOverBudget, s.OverBudget)
	p.count(logOmitted, s.Omitted)
}

// timestamp returns t as Unix time in seconds. For the zero Time it returns 0.
func timestamp(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
