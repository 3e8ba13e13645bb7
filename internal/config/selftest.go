package config

import (
	"math"

	"github.com/lnetd/lnetd/selftest"
)

// Selftest is what "selftest" in "lnetd" says.
type Selftest struct {
	// Enabled has the node serve tests, and be a console, from its start; else
	// that is for "lnetdctl lst enable".
	Enabled bool
	// Agent is the agent's part: its bounds and module parameters.
	Agent selftest.Config
}

// SelftestMemoryMin is the least that "memory" may be, a bulk of 1 MiB for each
// side, and SelftestMemoryMax the most; bytes.
const (
	SelftestMemoryMin = 2 << 20
	SelftestMemoryMax = 1 << 40
)

// SetMemory divides n bytes of bulk buffers: one half for what the node asks for
// as a client, the other for what it serves.
func (s *Selftest) SetMemory(n int) {
	s.Agent.ClientMemory = n / 2
	s.Agent.ServerMemory = n - n/2
}

// Memory is what SetMemory has divided.
func (s *Selftest) Memory() int { return s.Agent.ClientMemory + s.Agent.ServerMemory }

// selftestKeys are the keys of "selftest", module parameters under their own
// names (selftest 10). Where 0 stands for never, that is a negative value for
// the agent.
var selftestKeys = map[string]setting[Selftest]{
	"enabled":            truths(func(s *Selftest, b bool) { s.Enabled = b }),
	"memory":             wholes(SelftestMemoryMin>>20, SelftestMemoryMax>>20, func(s *Selftest, n int) { s.SetMemory(n << 20) }),
	"units":              wholes(1, 1<<24, func(s *Selftest, n int) { s.Agent.MaxUnits = n }),
	"tests":              wholes(1, 1<<20, func(s *Selftest, n int) { s.Agent.MaxTests = n }),
	"requests":           wholes(1, 1<<20, func(s *Selftest, n int) { s.Agent.MaxServing = n }),
	"session_timeout":    wholes(0, maxSeconds, func(s *Selftest, n int) { s.Agent.SessionTimeout = seconds(orNever(n)) }),
	"rpc_timeout":        wholes(0, maxSeconds, func(s *Selftest, n int) { s.Agent.RPCTimeout = seconds(orNever(n)) }),
	"brw_srv_workitems":  wholes(1, 1<<20, func(s *Selftest, n int) { s.Agent.BRWWorkItems = n }),
	"ping_srv_workitems": wholes(1, 1<<20, func(s *Selftest, n int) { s.Agent.PingWorkItems = n }),
	"brw_inject_errors":  wholes(0, math.MaxInt32, func(s *Selftest, n int) { s.Agent.InjectErrors = n }),
}

// orNever is a number of seconds, or -1 for 0.
func orNever(n int) int {
	if n == 0 {
		return -1
	}
	return n
}
