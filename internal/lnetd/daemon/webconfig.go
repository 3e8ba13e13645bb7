package daemon

import (
	"time"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/metrics"
)

// CheckWebConfig checks the web_config file of the metrics, if one is configured, and the certificates
// that it names. It returns warnings about them. If they cannot be used, the error is an *api.Fault.
func CheckWebConfig(c *config.Config) (warnings []string, _ error) {
	if c.Metrics.WebConfig == "" {
		return nil, nil
	}
	warnings, err := metrics.CheckWebConfig(c.Metrics.WebConfig, time.Now())
	if err != nil {
		return warnings, api.Fault{
			Code: api.CodeConfigInvalid, Text: "the web_config file of the metrics has errors",
			Remedy: "see docs/monitoring.md, and check with: lnetd --check",
		}.Because(err)
	}
	return warnings, nil
}

// checkWebConfig calls CheckWebConfig and logs the warnings that it returns.
func (d *Daemon) checkWebConfig(c *config.Config) error {
	warnings, err := CheckWebConfig(c)
	for _, w := range warnings {
		d.log.Warn("web_config warning", "warning", w)
	}
	return err
}
