package netns

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// plantedFaults is the minimum number of faults of TestDoctor.
const plantedFaults = 45

// Given hosts on which faults are planted one after the other, then "lnetdctl doctor" finds each with its code, its
// evidence and a remedy, and finds nothing after the remedy. The log has a table of the faults.
func TestDoctor(t *testing.T) {
	testenv.NeedRoot(t)
	t.Parallel()
	scenes := map[string]func(*testing.T, *record){
		"interfaces": faultyInterfaces, "waiting": faultyWaiting, "start": faultyStart, "peers": faultyPeers,
		"hosts": faultyHosts, "twins": faultyTwins, "routes": faultyRoutes, "return": faultyReturn, "rails": faultyRails,
		"router": faultyRouter, "limits": faultyLimits, "node": faultyNode, "proxies": faultyProxies,
		"client": faultyClient,
	}
	var r record
	var passed atomic.Int32
	t.Run("faults", func(t *testing.T) {
		for name, scene := range scenes {
			t.Run(name, func(t *testing.T) { t.Parallel(); scene(t, &r); passed.Add(1) })
		}
	})
	t.Logf("%d faults:\n%s", len(r.rows), r.table())
	if int(passed.Load()) == len(scenes) && len(r.rows) < plantedFaults { // -run may name a scene
		t.Errorf("%d faults were planted, want at least %d", len(r.rows), plantedFaults)
	}
}

// planted is a fault that is planted on hosts.
type planted struct {
	name string
	// plant causes the fault, and mend ends it. Each may be nil.
	plant, mend func()
	// fades means that lnetd ends the fault itself after some seconds, so that plant is called before each try.
	fades bool
	// args are arguments of doctor, and wrapper is a program that runs it, with its arguments.
	args, wrapper []string
	// code and evidence are those of the finding, or, if or is set, of a finding with that code. Others may be found, too.
	code, or diagnosis.Code
	evidence string
	// healed are the arguments of doctor after mend, if not args. rest are the findings that are left then.
	healed []string
	rest   []diagnosis.Code
}

// record has the findings about planted faults.
type record struct {
	mu   sync.Mutex // guards rows
	rows []string
}

// table returns the faults with code, evidence and remedy, as a table.
func (r *record) table() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	slices.Sort(r.rows)
	return "| code | fault | evidence | remedy |\n|---|---|---|---|\n" + strings.Join(r.rows, "\n")
}

// doctor runs "lnetdctl doctor" on the host, through a wrapper if one is given, and returns the findings and the
// exit status.
func (h *host) doctor(t *testing.T, wrapper []string, args ...string) ([]diagnosis.Finding, int) {
	t.Helper()
	line := slices.Concat([]string{"netns", "exec", h.name}, wrapper,
		[]string{program(t, "lnetdctl"), "--control-socket", h.socket(), "--json", "doctor", "--timeout", "2"}, args)
	cmd := exec.Command("ip", line...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	var found struct{ Findings []diagnosis.Finding }
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("lnetdctl doctor: %v: %q %v", err, out, exit)
	}
	return found.Findings, cmd.ProcessState.ExitCode()
}

// suffer plants faults on hosts one after the other, and checks that doctor on the host h finds them.
func (r *record) suffer(t *testing.T, h *host, faults ...planted) {
	t.Helper()
	for k := range faults {
		f := &faults[k]
		if f.plant != nil && !f.fades {
			f.plant()
		}
		var found diagnosis.Finding
		daemontest.Within(t, 2*noticePatience, f.name, func() error {
			if f.fades {
				f.plant()
			}
			findings, status := h.doctor(t, f.wrapper, f.args...)
			k := slices.IndexFunc(findings, func(o diagnosis.Finding) bool {
				return (o.Code == f.code || o.Code == f.or) && strings.Contains(o.Evidence, f.evidence)
			})
			if k < 0 || findings[k].Remedy == "" || findings[k].Page == "" {
				return fmt.Errorf("no %s with %q in %+v", f.code, f.evidence, findings)
			}
			found = findings[k]
			return checkStatus(findings, status)
		})
		r.mu.Lock()
		r.rows = append(r.rows, fmt.Sprintf("| %s | %s | %s | %s |", found.Code, f.name, found.Evidence, found.Remedy))
		r.mu.Unlock()
		if f.mend != nil {
			f.mend()
		}
		args := f.args
		if f.healed != nil {
			args = f.healed
		}
		h.wantFindings(t, "after "+f.name, args, f.rest...)
	}
}

// wantFindings waits until "lnetdctl doctor" on the host finds exactly the given codes.
func (h *host) wantFindings(t *testing.T, when string, args []string, codes ...diagnosis.Code) {
	t.Helper()
	daemontest.Within(t, 2*noticePatience, fmt.Sprintf("%s: findings %v", when, codes), func() error {
		findings, status := h.doctor(t, nil, args...)
		var found []diagnosis.Code
		for k := range findings {
			found = append(found, findings[k].Code)
		}
		if !slices.Equal(found, codes) {
			return fmt.Errorf("%+v", findings)
		}
		return checkStatus(findings, status)
	})
}

// checkStatus checks that the exit status of doctor is that of the findings.
func checkStatus(findings []diagnosis.Finding, status int) error {
	want := 0
	switch diagnosis.Worst(findings) {
	case diagnosis.Warning:
		want = 1
	case diagnosis.Error:
		want = 2
	}
	if status != want {
		return fmt.Errorf("exit status %d, want %d", status, want)
	}
	return nil
}

// firewall adds rules for arriving packets to the host. The returned function removes them.
func (h *host) firewall(t *testing.T, rules ...string) (remove func()) {
	t.Helper()
	h.nft(t, "add table inet wall\nadd chain inet wall in { type filter hook input priority 0; }\nadd rule inet wall in "+
		strings.Join(rules, "\nadd rule inet wall in ")+"\n")
	return func() { t.Helper(); h.nft(t, "delete table inet wall\n") }
}

func (h *host) nft(t *testing.T, text string) {
	t.Helper()
	cmd := exec.Command("ip", "netns", "exec", h.name, "nft", "-f", "-")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("nft: %v\n%s\n%s", err, text, out)
	}
}

// mute starts a listener for LNet on the host that closes every connection. The returned function stops it.
func (h *host) mute(t *testing.T) (stop func()) {
	t.Helper()
	l := h.listen(t, h.addr(h.networks[0])+":988")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	return func() {
		t.Helper()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		<-ended
	}
}
