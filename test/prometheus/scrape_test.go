package prometheus

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/selftest/message"
)

// Given two lnetds and a Prometheus that scrapes them, when one writes to the other and reads from
// it with LNet selftest, then queries return the byte counts that lst prints. When a link is cut,
// an alert fires, only for the NI on it. When the link is repaired, the alert is resolved.
func TestPrometheus(t *testing.T) {
	w := newWorld(t, 2)
	s := w.prometheus(t)
	await := func(what string, f func() error) {
		t.Helper()
		daemontest.Within(t, patience, what, f)
	}
	await("both are scraped", func() error { return s.is(`sum(up{job="lnetd"})`, 2, 2) })
	for _, direction := range [][]string{{"--write"}, nil} { // reads without an option
		w.host(1).Must(t, append([]string{"lst", "quick", "--from", nid(1), "--to", nid(2), "--size", "64K", "--time", "1s"}, direction...)...)
	}
	lst := counters(t, w.host(2))
	if lst.BulkGet < 1<<20 || lst.BulkPut < 1<<20 || lst.Errors+lst.Dropped+lst.Expired > 0 {
		t.Fatalf("lst tells %+v", lst)
	}
	t.Logf("lst tells %d bytes fetched and %d delivered in %d RPCs", lst.BulkGet, lst.BulkPut, lst.Received)
	for direction, bulk := range map[string]uint64{"get": lst.BulkGet, "put": lst.BulkPut} {
		query := fmt.Sprintf("lnet_selftest_bulk_bytes_total{instance=%q, direction=%q}", instance(2), direction)
		await(query, func() error { return s.is(query, float64(bulk), float64(bulk)) })
	}
	for direction, bulk := range map[string]uint64{"received": lst.BulkGet, "sent": lst.BulkPut} {
		// In addition to bulk data, each RPC is a request and a reply. The rest is pings and pushes
		// of discovery.
		least := float64(bulk + uint64(lst.Received)*message.Size)
		query := fmt.Sprintf("lnet_payload_bytes_total{instance=%q, direction=%q}", instance(2), direction)
		await(query, func() error { return s.is(query, least, least+discoveryMax) })
	}
	// The names of Lustre's exporters, which the second lnetd has too, have the same values.
	compat := fmt.Sprintf("sum(lustre_receive_bytes_total) - sum(lnet_payload_bytes_total{instance=%q, direction=\"received\"})", instance(2))
	await(compat, func() error { return s.is(compat, 0, 0) })

	await("the rules are right", s.rulesAreRight)
	for _, e := range expressions(t) {
		if err := s.get("query", url.Values{"query": {variables.Replace(e)}}, &struct{}{}); err != nil {
			t.Errorf("the dashboard's %s: %v", e, err)
		}
	}

	const alert = "LnetNIDown"
	await("no NI is down", func() error { return s.fires(alert) })
	w.link(t, 1, "down")
	await("an alert fires", func() error { return s.fires(alert, instance(1)) })
	w.link(t, 1, "up")
	await("it resolves", func() error { return s.fires(alert) })
	for _, d := range w.hosts {
		d.Stop(t)
	}
}

// discoveryMax is an upper limit for the bytes of pings and pushes of two nodes.
const discoveryMax = 16 << 10

// counters are the values that lst prints of a node's part in tests.
func counters(t *testing.T, d *daemontest.Process) api.LstCounters {
	t.Helper()
	var status api.LstStatus
	if err := json.Unmarshal([]byte(d.Must(t, "lst", "status", "--json")), &status); err != nil {
		t.Fatal(err)
	}
	return status.Counters
}

// is reports whether a query's value is within limits.
func (s *server) is(query string, least, most float64) error {
	v, err := s.value(query)
	if err == nil && (v < least || v > most) {
		err = fmt.Errorf("%s is %.0f, want %.0f to %.0f", query, v, least, most)
	}
	return err
}

// rulesAreRight reports whether all shipped rules were evaluated without an error.
func (s *server) rulesAreRight() error {
	var v struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	if err := s.get("rules", nil, &v); err != nil {
		return err
	}
	count := 0
	for _, g := range v.Groups {
		for _, r := range g.Rules {
			if count++; r.Health != "ok" {
				return fmt.Errorf("%s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if count < 20 {
		return fmt.Errorf("%d rules", count)
	}
	return nil
}

// fires reports whether an alert fires for exactly these instances.
func (s *server) fires(alert string, instances ...string) error {
	got, err := s.firing(alert)
	if err == nil && !slices.Equal(got, instances) {
		err = fmt.Errorf("%s fires for %v, want %v", alert, got, instances)
	}
	return err
}
