package config

import (
	"math"

	"github.com/lnetd/lnetd/selftest"
)

// Selftest is the section "selftest" in "lnetd".
type Selftest struct {
	// Enabled is true if the node serves tests and can be a console from the start. Otherwise the
	// command "lnetdctl lst enable" enables selftest.
	Enabled bool
	// Agent holds the limits and module parameters of the test agent.
	Agent selftest.Config
}

// SelftestMemoryMin and SelftestMemoryMax bound the key "memory", in bytes. The minimum suffices for one
// bulk transfer of 1 MiB as a client and one as a server.
const (
	SelftestMemoryMin = 2 << 20
	SelftestMemoryMax = 1 << 40
)

// SetMemory limits the memory of bulk buffers to n bytes. Half of them are for tests that the node runs
// as a client, the other half for requests that it serves.
func (s *Selftest) SetMemory(n int) {
	s.Agent.ClientMemory = n / 2
	s.Agent.ServerMemory = n - n/2
}

// Memory returns the limit of the memory of bulk buffers in bytes.
func (s *Selftest) Memory() int { return s.Agent.ClientMemory + s.Agent.ServerMemory }

// selftestKeys holds the keys of "selftest". Those that are module parameters have the parameter's name
// (selftest 10). The timeout 0 means never and is stored as a negative number for the agent.
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

// orDisabled converts a timeout of a document to one for the agent: 0, which means never, becomes -1.
func orDisabled(n int) int {
	if n == 0 {
		return -1
	}
	return n
}
