package config

import (
	"math"

	"github.com/lnetd/lnetd/selftest"
)

// Selftest is the section "selftest" in "lnetd".
type Selftest struct {
	// Enabled reports that the node serves tests and is a console from the start. Otherwise
	// "lnetdctl lst enable" enables that.
	Enabled bool
	// Agent holds the limits and module parameters of the test agent.
	Agent selftest.Config
}

// SelftestMemoryMin and SelftestMemoryMax bound "memory", in bytes. The minimum is a bulk of 1
// MiB for each side.
const (
	SelftestMemoryMin = 2 << 20
	SelftestMemoryMax = 1 << 40
)

// SetMemory limits bulk buffers to n bytes. Half of it is for tests that the node runs as a
// client, the other half for requests that it serves.
func (s *Selftest) SetMemory(n int) {
	s.Agent.ClientMemory = n / 2
	s.Agent.ServerMemory = n - n/2
}

// Memory returns the limit that SetMemory has set, in bytes.
func (s *Selftest) Memory() int { return s.Agent.ClientMemory + s.Agent.ServerMemory }

// selftestKeys holds the keys of "selftest", which are module parameters under their own names
// (selftest 10). A timeout of 0 means never, which is a negative value for the agent.
var selftestKeys = map[string]setting[Selftest]{
	"enabled":            boolSettings(func(s *Selftest, b bool) { s.Enabled = b }),
	"memory":             wholes(SelftestMemoryMin>>20, SelftestMemoryMax>>20, func(s *Selftest, n int) { s.SetMemory(n << 20) }),
	"units":              wholes(1, 1<<24, func(s *Selftest, n int) { s.Agent.MaxUnits = n }),
	"tests":              wholes(1, 1<<20, func(s *Selftest, n int) { s.Agent.MaxTests = n }),
	"requests":           wholes(1, 1<<20, func(s *Selftest, n int) { s.Agent.MaxServing = n }),
	"session_timeout":    wholes(0, maxSeconds, func(s *Selftest, n int) { s.Agent.SessionTimeout = seconds(orDisabled(n)) }),
	"rpc_timeout":        wholes(0, maxSeconds, func(s *Selftest, n int) { s.Agent.RPCTimeout = seconds(orDisabled(n)) }),
	"brw_srv_workitems":  wholes(1, 1<<20, func(s *Selftest, n int) { s.Agent.BRWWorkItems = n }),
	"ping_srv_workitems": wholes(1, 1<<20, func(s *Selftest, n int) { s.Agent.PingWorkItems = n }),
	"brw_inject_errors":  wholes(0, math.MaxInt32, func(s *Selftest, n int) { s.Agent.InjectErrors = n }),
}

// orDisabled returns n, or -1 for 0.
func orDisabled(n int) int {
	if n == 0 {
		return -1
	}
	return n
}
