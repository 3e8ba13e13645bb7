package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/lnd/hostnet"
	"github.com/lnetd/lnetd/lnet"
)

// numbered is device with an index.
func numbered(index int, name, addr string) hostnet.Device {
	d := device(name, addr)
	d.Index = index
	return d
}

// interfaces returns the interfaces of a configuration, by net.
func interfaces(c *api.Configuration) (all []string) {
	for _, n := range c.Nets {
		for k := range n.NIs {
			all = append(all, n.Net.String()+" "+strings.Join(n.NIs[k].Interfaces, ","))
		}
	}
	return all
}

// Given NIs configured by a device, by a device and a NID, and by a NID, when the device is
// renamed, then the configuration has the name that works at the next start. Documents with the
// former and with the new name change nothing.
//
// decisions 98
func TestConfigurationFollowsARenamedDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		eth1 := numbered(3, "eth1", "10.78.0.11/24")
		n := host(lo, numbered(2, "eth0", "10.77.0.11/24"), eth1)
		const document = `
net:
  - {net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}
  - {net type: tcp1, local NI(s): [{nid: 10.77.0.11@tcp1, interfaces: {0: eth0}}]}
  - {net type: tcp2, local NI(s): [{nid: 10.77.0.11@tcp2}]}
  - {net type: tcp3, local NI(s): [{interfaces: {0: eth1}}]}
  - {net type: tcp4, local NI(s): [{interfaces: {0: eth9}}]}
`
		r := startNodeWith(t, parse(t, document), Drivers{TCP(n)}).ready(t)
		for _, name := range []string{"fast0", "fast1"} { // two times
			n.set(lo, numbered(2, name, "10.77.0.11/24"), eth1)
			c := r.configuration(t)
			if got, want := interfaces(&c), []string{"tcp " + name, "tcp1 " + name, "tcp2 " + name, "tcp3 eth1", "tcp4 eth9"}; !slices.Equal(got, want) {
				t.Fatalf("after eth0 was renamed %s: %q", name, got)
			}
			renamed := strings.ReplaceAll(document, "eth0", name)
			for _, text := range []string{document, renamed} {
				for _, mode := range []api.Mode{api.ModeAdd, api.ModeReplace} {
					done, err := r.document(t, mode, text)
					if err != nil || len(done.Commands) > 0 {
						t.Errorf("%v of a document of the same NIs: %q, %v", mode, done.Commands, err)
					}
				}
			}
		}
		var err error
		busy := r.InTurn(t.Context(), func() {
			err = r.DeleteNet(t.Context(), api.NetDeletion{Net: lnet.MakeNet(lnet.TypeTCP, 0), Interfaces: []string{"fast1"}})
		})
		if err := errors.Join(busy, err); err != nil {
			t.Errorf("the NI is deleted by the name that is shown: %v", err)
		}
	})
}

// Given NIs of one net that are up and one that waits, when a device gets the name of the waiting
// NI, then its NI keeps the former name, the configuration can be read again, and the waiting NI
// can be deleted individually. The NI gets the new name after that. If devices exchange their
// names, so does the configuration.
//
// decisions 98
func TestRenamedToTheNameOfAWaitingNI(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first, second = "10.77.0.11/24", "10.78.0.11/24"
		n := host(lo, numbered(2, "eth0", first), numbered(3, "eth1", second))
		const document = `net: [{net type: tcp3, local NI(s): [{interfaces: {0: eth7}}, {interfaces: {0: eth0}}, {interfaces: {0: eth1}}]}]`
		r := startNodeWith(t, parse(t, document), Drivers{TCP(n)}).ready(t)
		shown := func(want ...string) {
			t.Helper()
			c := r.configuration(t)
			if got := interfaces(&c); !slices.Equal(got, want) {
				t.Fatalf("NIs %q, want %q", got, want)
			}
		}
		n.set(lo, numbered(2, "eth7", first), numbered(3, "eth1", second))
		shown("tcp3 eth7", "tcp3 eth0", "tcp3 eth1")
		for _, mode := range []api.Mode{api.ModeAdd, api.ModeReplace} {
			if done, err := r.document(t, mode, document); err != nil || len(done.Commands) > 0 {
				t.Errorf("%v of the configuration: %q, %v", mode, done.Commands, err)
			}
		}
		n.set(lo, numbered(2, "eth1", first), numbered(3, "eth0", second)) // eth0 and eth1 exchanged
		shown("tcp3 eth7", "tcp3 eth1", "tcp3 eth0")
		n.set(lo, numbered(2, "eth7", first), numbered(3, "eth1", second)) // eth1 follows its device, but eth7 is taken
		shown("tcp3 eth7", "tcp3 eth1", "tcp3 eth0")
		var err error
		busy := r.InTurn(t.Context(), func() {
			err = r.DeleteNet(t.Context(), api.NetDeletion{Net: lnet.MakeNet(lnet.TypeTCP, 3), Interfaces: []string{"eth7"}})
		})
		if err := errors.Join(busy, err); err != nil {
			t.Fatal(err)
		}
		shown("tcp3 eth7", "tcp3 eth1")
		if got, want := r.nids(), []string{"10.77.0.11@tcp3", "10.78.0.11@tcp3"}; !slices.Equal(got, want) {
			t.Errorf("NIs %v, want %v", got, want)
		}
	})
}

// Given a renamed device and another one that has its name now, when a document uses that name,
// then the NI moves, because the name refers to another device.
func TestFormerNameOfAnotherDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := host(lo, numbered(2, "eth0", "10.77.0.11/24"))
		const document = "net: [{net type: tcp, local NI(s): [{interfaces: {0: eth0}}]}]\n"
		r := startNodeWith(t, parse(t, document), Drivers{TCP(n)}).ready(t)
		n.set(lo, numbered(2, "fast0", "10.77.0.11/24"), numbered(3, "eth0", "10.78.0.11/24"))
		r.machine.Store(&[]config.Interface{{Name: "fast0", Up: true}, {Name: "eth0", Up: true}})
		if _, err := r.document(t, api.ModeReplace, document); err != nil {
			t.Fatal(err)
		}
		if got := r.nids(); !slices.Equal(got, []string{"10.78.0.11@tcp"}) {
			t.Errorf("NIs %v", got)
		}
	})
}
