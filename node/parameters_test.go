package node_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/lnetd/lnetd/lnet"
	"github.com/lnetd/lnetd/node"
)

// lnet-core 6.5 (1)-(2), 12.4
func TestParametersAreChecked(t *testing.T) {
	if _, err := node.New(node.Config{PID: lnet.PIDAny}); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("pid any: %v, want ErrInvalid", err)
	}
	n := newNode(t, node.Config{})
	for name, change := range map[string]func(p *node.Parameters){
		"negative retries":             func(p *node.Parameters) { p.RetryCount = -1 },
		"timeout of the retry count":   func(p *node.Parameters) { p.RetryCount = 150 },
		"negative timeout":             func(p *node.Parameters) { p.TransactionTimeout = -time.Second },
		"tracking beyond all":          func(p *node.Parameters) { p.ResponseTracking = 4 },
		"sensitivity beyond 1000":      func(p *node.Parameters) { p.HealthSensitivity = 1001 },
		"negative sensitivity":         func(p *node.Parameters) { p.HealthSensitivity = -1 },
		"negative recovery limit":      func(p *node.Parameters) { p.RecoveryLimit = -1 },
		"timeout without end":          func(p *node.Parameters) { p.TransactionTimeout = math.MaxInt64 },
		"recovery limit without end":   func(p *node.Parameters) { p.RecoveryLimit = math.MaxInt64 },
		"recovery pause without end":   func(p *node.Parameters) { p.MaxRecoveryPingInterval = math.MaxInt64 },
		"recovery pings without pause": func(p *node.Parameters) { p.MaxRecoveryPingInterval = 0 },
	} {
		p := node.DefaultParameters()
		change(&p)
		if _, err := node.New(node.Config{Parameters: &p}); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%s: New: %v, want ErrInvalid", name, err)
		}
		if err := n.Admin().SetParameters(p); !errors.Is(err, node.ErrInvalid) {
			t.Errorf("%s: SetParameters: %v, want ErrInvalid", name, err)
		}
	}
	if got := n.Admin().Parameters(); got != static() {
		t.Errorf("parameters changed: %+v", got)
	}
	retries := node.DefaultParameters()
	retries.HealthSensitivity = 0
	if _, err := node.New(node.Config{Parameters: &retries}); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("retries without sensitivity: New: %v, want ErrInvalid", err)
	}
}

// The LND timeout is derived from the transaction timeout and the retry count. A
// sensitivity of 0 sets the retry count to 0, permanently.
//
// lnet-core 6.5 (3)
func TestDerivedParameters(t *testing.T) {
	n := newNode(t, node.Config{})
	p := n.Admin().Parameters()
	if got := p.LNDTimeout(); got != 49*time.Second {
		t.Errorf("LND timeout %v by default, want 49 s", got)
	}
	p.TransactionTimeout, p.RetryCount = 10*time.Second, 4
	if got := p.LNDTimeout(); got != time.Second {
		t.Errorf("LND timeout %v, want 1 s", got)
	}
	p = n.Admin().Parameters()
	p.HealthSensitivity = 0
	if err := n.Admin().SetParameters(p); err != nil {
		t.Fatal(err)
	}
	p = n.Admin().Parameters()
	if p.RetryCount != 0 || p.LNDTimeout() != 149*time.Second {
		t.Errorf("retries %d, LND timeout %v without sensitivity; want 0, 149 s", p.RetryCount, p.LNDTimeout())
	}
	p.HealthSensitivity = 100
	if err := n.Admin().SetParameters(p); err != nil {
		t.Fatal(err)
	}
	if got := n.Admin().Parameters().RetryCount; got != 0 {
		t.Errorf("retries %d with sensitivity again, want 0", got)
	}
	p.HealthSensitivity, p.RetryCount = 0, 1
	if err := n.Admin().SetParameters(p); err != nil || n.Admin().Parameters().RetryCount != 0 {
		t.Errorf("sensitivity to 0: %v, retries %d", err, n.Admin().Parameters().RetryCount)
	}
	p.RetryCount = 1
	if err := n.Admin().SetParameters(p); !errors.Is(err, node.ErrInvalid) {
		t.Errorf("retries without sensitivity: %v, want ErrInvalid", err)
	}
}
