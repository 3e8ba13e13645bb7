package config

import (
	"fmt"
	"slices"
	"time"

	"github.com/lnetd/lnetd/discovery"
	"github.com/lnetd/lnetd/internal/lnetd/control/parameters"
	"github.com/lnetd/lnetd/node"
)

// globalKeys holds the keys of "global" (lnetctl 6).
var globalKeys = func() map[string]setting[Config] {
	keys := parameterSettings(parameters.Global)
	keys[discoveryName] = orModeName(keys[discoveryName])
	return keys
}()

// discoveryName is the name of the parameter for discovery. Its values are numbers in requests, and
// modes in the configuration.
const discoveryName = "discovery"

// renamedGlobals maps older names of keys of "global" to the current ones.
var renamedGlobals = func() map[string]string {
	names := map[string]string{}
	for _, p := range parametersIn(parameters.Global) {
		if p.OldName != "" {
			names[p.OldName] = p.Name
		}
	}
	return names
}()

// orModeName extends number, the setting of discovery with the values 0 and 1 that kernels have, so that
// it also accepts the name of a mode. While 1 does not change the mode Verify, a name always sets the
// mode that it names.
func orModeName(number setting[Config]) setting[Config] {
	return setting[Config]{
		either{number.form, scalar{discoveryWords}},
		func(c *Config, at place) {
			if !slices.Contains(discoveryWords, at.node.Value) {
				number.read(c, at)
			} else if k, ok := at.word(discoveryWords); ok {
				c.Parameters.Discovery = discoveryModes[k]
			}
		},
	}
}

// discoveryWords holds the names of the discovery modes; discoveryModes holds the modes in the
// same order.
var (
	discoveryWords = Words{discovery.On.String(), discovery.Off.String(), discovery.Verify.String()}
	discoveryModes = []discovery.Mode{discovery.On, discovery.Off, discovery.Verify}
)

// applyGlobals stores the values of "global" in c. Values that limit each other are compared after all
// values have been read (lnetctl 7.3).
func (c *Config) applyGlobals(f fileGlobals) {
	for name, m := range f {
		at := m.value
		before := len(at.file.problems)
		globalKeys[name].read(c, at)
		if now := at.file.problems; len(now) > before && !at.empty() {
			w := now[before]
			w.Text = fmt.Sprintf("invalid value '%s' for key '%s': %s", at.node.Value, m.key, w.Text)
		}
	}
	g := &c.Parameters
	if m, ok := f["retry_count"]; ok && g.HealthSensitivity == 0 && g.RetryCount > 0 {
		m.value.problemf("%d: must be 0 because health_sensitivity is 0", g.RetryCount).
			remedyf("write 'retry_count: 0', or a health_sensitivity from 1 to %d", node.MaxHealth)
	} else if g.HealthSensitivity == 0 {
		g.RetryCount = 0
	}
	for _, name := range []string{"transaction_timeout", "retry_count"} {
		if m, ok := f[name]; ok && g.TransactionTimeout <= seconds(g.RetryCount) {
			m.value.problemf("transaction_timeout %d s must be greater than retry_count %d",
				int(g.TransactionTimeout/time.Second), g.RetryCount).
				remedyf("write a transaction_timeout of at least %d, or a smaller retry_count", g.RetryCount+1)
			return
		}
	}
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }
