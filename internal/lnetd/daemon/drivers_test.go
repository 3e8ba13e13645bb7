package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnet"
)

// fakeType is the net type of a fake driver.
const fakeType lnet.NetType = 200

// fakeDrivers creates drivers that transport nothing, with the tunables of o2iblnd (o2iblnd 15).
type fakeDrivers struct {
	made   []config.Values // the options of each driver
	closed int
	refuse func(v config.Values) error // rejects NIs if not nil
	again  func(v config.Values, err error) config.Values
}

func (f *fakeDrivers) driver() Driver {
	d := Driver{
		DriverOptions: config.DriverOptions{
			Table: lnd.Table{
				Type: fakeType, Section: "fakelnd", About: "Parameters of no driver.",
				Tunables: []lnd.Tunable{
					{Name: "peercredits_hiw", Module: "fake", Max: 255},
					{Name: "map_on_demand", Module: "fake", Kind: lnd.Bool, Max: 1},
					{Name: "concurrent_sends", Module: "fake", Max: 1 << 20},
					{Name: "fmr_pool_size", Module: "fake", Min: 1, Max: 1 << 20},
					{Name: "fmr_flush_trigger", Module: "fake", Min: 1, Max: 1 << 20},
					{Name: "fmr_cache", Module: "fake", Max: 1},
					{Name: "ntx", Parameter: "ntx", Module: "fake", Min: 1, Max: 1 << 20, Default: 512, Help: "transmit descriptors"},
					{Name: "conns_per_peer", Module: "fake", Max: 127, Live: true},
					{Name: "timeout", Module: "fake", Live: true, PerNet: true},
					{Name: "tos", Module: "fake", Min: -1, Max: 255, Clamped: true},
					{Parameter: "service", Module: "fake", Min: 1, Max: 65535, Default: 987},
				},
			},
		},
		Name: "fake",
		Make: f.make,
	}
	if f.again != nil {
		d.Fallback = func(v config.Values, err error, _ *slog.Logger) config.Values { return f.again(v, err) }
	}
	return d
}

func (f *fakeDrivers) make(v config.Values, _ *slog.Logger) (Made, error) {
	if v["service"] == "1" {
		return Made{}, errors.New("service 1 is another's")
	}
	f.made = append(f.made, v)
	return Made{
		Driver: &fakeDriver{refuse: f.refuse, values: v},
		Close:  func() error { f.closed++; return nil },
		Attrs:  []any{"service", v["service"]},
	}, nil
}

type fakeDriver struct {
	refuse func(v config.Values) error
	values config.Values
}

func (*fakeDriver) Type() lnet.NetType { return fakeType }

func (d *fakeDriver) Open(_ context.Context, c lnd.Config) (lnd.Interface, error) {
	if d.refuse != nil {
		if err := d.refuse(d.values); err != nil {
			return nil, err
		}
	}
	return &fakeInterface{config: c}, nil
}

// fakeInterface is an interface without traffic.
type fakeInterface struct{ config lnd.Config }

func (i *fakeInterface) NID() lnet.NID {
	if i.config.NID.IsZero() {
		return lnet.NIDFromNumber(i.config.Net, 7)
	}
	return i.config.NID
}

func (i *fakeInterface) Device() string                    { return i.config.Device }
func (*fakeInterface) LargeNIDs() bool                     { return true }
func (*fakeInterface) Tunables() lnd.Tunables              { return lnd.Tunables{PeerCredits: 8, Credits: 64} }
func (*fakeInterface) Timeout() time.Duration              { return 50 * time.Second }
func (i *fakeInterface) Options() lnd.Values               { return i.config.Options }
func (*fakeInterface) Link() lnd.LinkState                 { return lnd.LinkUp }
func (*fakeInterface) Send(m *lnd.Tx)                      { m.Done.Sent(m, lnd.ErrClosed) }
func (*fakeInterface) Receive(*lnd.Rx, lnd.Placement)      {}
func (*fakeInterface) Disconnect(lnet.NID)                 {}
func (*fakeInterface) Refusals() (c lnd.RefusalCounts)     { return c }
func (*fakeInterface) LinkBack(lnet.NID)                   {}
func (*fakeInterface) Recall(lnet.NID, func(*lnd.Tx) bool) {}
func (*fakeInterface) Probe(lnet.NID) bool                 { return false }
func (*fakeInterface) Counters() []lnd.Counter             { return nil }
func (*fakeInterface) Close(context.Context) error         { return nil }

// startTwo starts a node with TCP and a fake driver.
func startTwo(t *testing.T, f *fakeDrivers, text string) *nodeRun {
	t.Helper()
	drivers := Drivers{TCP(host(lo, device("eth0", "10.77.0.11/24"))), f.driver()}
	c, err := config.Parse("t.yaml", []byte(text), drivers.Options())
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Warnings) > 0 {
		t.Error(c.Warnings)
	}
	return startNodeWith(t, c, drivers)
}

// A second driver is an entry of the table. Files configure it, it runs in addition to the first,
// shows its tunables in order, and ends with the node.
//
// lnetctl 5.1
func TestSecondDriver(t *testing.T) {
	f := &fakeDrivers{}
	r := startTwo(t, f, `
net:
  - net type: tcp
    interfaces: [eth0]
    lnd tunables: {conns_per_peer: 2, timeout: 3}
  - net type: <200:1>
    local NI(s):
      - interfaces: {0: ib0}
        lnd tunables: {tos: 255, ntx: 2048, map_on_demand: yes, peercredits_hiw: 4, concurrent_sends: 8, conns_per_peer: 4,
          fmr_pool_size: 512, fmr_flush_trigger: 384, fmr_cache: 1, timeout: 3}
      - nid: 1f@<200:1>
lnetd:
    fakelnd: {service: 988, ntx: 512}
`).ready(t)
	var shown []string
	for _, n := range r.Nets() {
		for _, ni := range n.NIs {
			line := ni.NID.String()
			for _, o := range ni.LND {
				line += fmt.Sprintf(" %s=%d", o.Name, o.Value)
			}
			shown = append(shown, line)
		}
	}
	want := []string{
		"0@lo",
		"10.77.0.11@tcp conns_per_peer=2 timeout=50 tos=-1",
		"7@<200:1> peercredits_hiw=4 map_on_demand=1 concurrent_sends=8 fmr_pool_size=512 fmr_flush_trigger=384 fmr_cache=1" +
			" ntx=2048 conns_per_peer=4 timeout=50 tos=255",
		"1f@<200:1> timeout=50",
	}
	if diff := cmp.Diff(want, shown); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]config.Values{{"service": "988"}}, f.made); diff != "" {
		t.Errorf("drivers made: %s", diff)
	}
	for _, says := range []string{`"nid":"7@<200:1>","interface":"ib0"`, `"service":"988"`, `"port":988,"accept":"secure"`} {
		if !strings.Contains(r.log.String(), says) {
			t.Errorf("the log lacks %s:\n%s", says, r.log)
		}
	}
	r.cancel()
	err := <-r.done
	r.done <- err // for the cleanup
	if f.closed != 1 {
		t.Errorf("closed %d times", f.closed)
	}
}

// A driver that is not needed is not created.
func TestDriverThatIsNotNeeded(t *testing.T) {
	f := &fakeDrivers{}
	startTwo(t, f, "net: [{net type: tcp, interfaces: [eth0]}]\nlnetd: {fakelnd: {service: 1}}\n").ready(t)
	if len(f.made) > 0 {
		t.Errorf("made with %v", f.made)
	}
}

func TestDriverThatCannotBeMade(t *testing.T) {
	r := startTwo(t, &fakeDrivers{}, "net: [{net type: <200:0>, interfaces: [ib0]}]\nlnetd: {fakelnd: {service: 1}}\n")
	err := <-r.done
	var fault *api.Fault
	if !errors.As(err, &fault) || fault.Code != api.CodeConfigInvalid || fault.Text != "the fake driver cannot be created" {
		t.Errorf("%v", err)
	}
}

// If the first NI of a driver fails, one other driver may be tried. Later NIs use the driver that
// exists.
func TestDriverInPlaceOfAnother(t *testing.T) {
	other := config.Values{"service": "5"}
	for _, tt := range []struct {
		name string
		bad  []string // services that reject NIs
		nis  int      // number that is up before one is rejected
		made int
		ok   bool
	}{
		{"the first one does", nil, 0, 1, true},
		{"the second one does", []string{""}, 0, 2, true},
		{"neither does", []string{"", "5"}, 0, 2, false},
		{"too late", []string{""}, 1, 1, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			opened := 0
			f := &fakeDrivers{
				refuse: func(v config.Values) error {
					if opened++; opened > tt.nis && slices.Contains(tt.bad, v["service"]) {
						return errors.New("no")
					}
					return nil
				},
				again: func(config.Values, error) config.Values { return other },
			}
			r := startTwo(t, f, "net: [{net type: <200:0>, interfaces: [ib0]}, {net type: <200:1>, interfaces: [ib0]}]\n")
			if tt.ok {
				r.ready(t)
			} else {
				var fault *api.Fault
				if err := <-r.done; !errors.As(err, &fault) || fault.Code != api.CodeInterface {
					t.Errorf("%v", err)
				}
			}
			if len(f.made) != tt.made {
				t.Errorf("made with %v", f.made)
			}
			if !tt.ok && f.closed != tt.made {
				t.Errorf("%d of %d are closed", f.closed, tt.made)
			}
		})
	}
}

// If a driver is missing, the remedy is another build only if a build has the driver.
//
// decisions 99
func TestRemedyWithoutADriver(t *testing.T) {
	for typ, want := range map[lnet.NetType]string{
		lnet.TypeO2IB: "make build TAGS=o2ib", lnet.TypeGNI: "lnetd has no driver for gni nets", lnet.TypeKFI: "lnetd has no driver for kfi nets",
		lnet.TypeEFA: "lnetd has no driver for efa nets", lnet.TypeBXI3F: "lnetd has no driver for bxi3f nets",
	} {
		ni := config.NI{Net: lnet.MakeNet(typ, 1), Device: "dev0", Where: "d.yaml:3: net[0]"}
		p := undriven("d.yaml", &ni)
		if !strings.Contains(p.Remedy, want) || strings.Contains(p.Remedy, "TAGS") != (typ == lnet.TypeO2IB) || !strings.Contains(p.Remedy, "remove the net") {
			t.Errorf("%s: %s", typ, p.Remedy)
		}
		if f := api.FaultOf(noDriver(&ni)); f.Remedy != p.Remedy {
			t.Errorf("%s: %s, and of a document %s", typ, f.Remedy, p.Remedy)
		}
	}
}
