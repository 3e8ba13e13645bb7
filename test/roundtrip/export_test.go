package roundtrip

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// captures holds the recorded exports. Those that begin with ofCommands were printed in a recording
// of commands, not by nodes of a conversation.
const captures, ofCommands = "../../internal/lnetd/config/testdata/captures", "cli-"

// exports returns the recorded exports by file name.
func exports(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(captures + "/*.yaml")
	if err != nil || len(files) < 28 {
		t.Fatal("recorded exports are missing", err)
	}
	all := map[string]string{}
	for _, file := range files {
		if strings.HasPrefix(filepath.Base(file), ofCommands) {
			continue
		}
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = string(b)
	}
	return all
}

// needsOtherDriver reports whether a net of the export has a type without a driver in lnetd.
func needsOtherDriver(text string) bool { return strings.Contains(text, "net type: o2ib") }

// Every recorded export is imported without warnings by a node with the interfaces of the recorded
// node, and exported again with the same meaning, in full and as a backup. NIs on nets without a
// driver wait, and keep their configuration.
//
// lnetctl 7 (7)-(8), 8 (3)
func TestRecordedExports(t *testing.T) {
	for name, text := range exports(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, interfacesOf(t, text))
			m.imports(t, filepath.Join(captures, name))
			full := m.prints(t, "export")
			if diff := cmp.Diff(meaningOf(t, text, true), meaningOf(t, full, true)); diff != "" {
				t.Errorf("export (-recorded +got):\n%s", diff)
			}
			backup := m.prints(t, "export", "--backup")
			if diff := cmp.Diff(meaningOf(t, text, false), meaningOf(t, backup, false)); diff != "" {
				t.Errorf("export --backup (-recorded +got):\n%s", diff)
			}
			m.tripsRound(t, full, backup)
		})
	}
}

// waits matches the output of import and plan for each NI without a driver, or whose driver is
// built without RDMA.
var waits = regexp.MustCompile(`NI \S+ waits: (this lnetd has no driver for|verbs: open: built without support for RDMA)`)

// imports imports a file.
func (m *machine) imports(t *testing.T, file string) {
	t.Helper()
	m.wantOnlyWaiting(t, "import", "--wait", file)
}

// wantOnlyWaiting runs a command that must succeed and print only which NIs wait.
func (m *machine) wantOnlyWaiting(t *testing.T, args ...string) {
	t.Helper()
	got := m.ctl(t, args...)
	for line := range strings.Lines(got.err) {
		if !waits.MatchString(line) {
			t.Errorf("%s: %s", args[0], line)
		}
	}
	if got.status != 0 || got.out != "" {
		t.Fatalf("%q: %+v", args, got)
	}
}

// tripsRound checks that the export of a node configures a new one identically, changes nothing on
// an identical one, and with --del deletes everything that it names (lnetctl 8.3).
func (m *machine) tripsRound(t *testing.T, full, backup string) {
	t.Helper()
	file, all := m.file(t, "backup.yaml", backup), m.file(t, "full.yaml", full)
	for _, same := range []string{file, all} {
		m.wantOnlyWaiting(t, "plan", same)
	}
	m.clear(t)
	m.imports(t, file)
	if diff := cmp.Diff(meaningOf(t, backup, true), meaningOf(t, m.prints(t, "export", "--backup"), true)); diff != "" {
		t.Errorf("export --backup | import | export --backup (-first +second):\n%s", diff)
	}
	m.clear(t)
	m.imports(t, all)
	if diff := cmp.Diff(meaningOf(t, full, true), meaningOf(t, m.prints(t, "export"), true)); diff != "" {
		t.Errorf("export | import | export (-first +second):\n%s", diff)
	}
	m.quietly(t, "import", "--del", file)
	left := meaningOf(t, m.prints(t, "export", "--backup"), false)
	left.Global, left.Buffers = nil, nil
	if diff := cmp.Diff(meaning{}, left); diff != "" {
		t.Errorf("import --del left (-nothing +left):\n%s", diff)
	}
}

// An export with nets that this lnetd does not support is refused without --wait, and changes
// nothing.
//
// lnetctl 7 (1)
func TestExportsOfOtherDrivers(t *testing.T) {
	m := newMachine(t, map[string][]string{"eth0": {"10.77.0.11/24"}})
	before := m.prints(t, "export", "--backup")
	others := 0
	for name, text := range exports(t) {
		if !needsOtherDriver(text) {
			continue
		}
		others++
		got := m.ctl(t, "import", filepath.Join(captures, name))
		if got.status != 234 || got.out != "" || !strings.Contains(got.err, "this lnetd has no driver for o2ib nets") {
			t.Errorf("%s: %+v", name, got)
		}
		if diff := cmp.Diff(before, m.prints(t, "export", "--backup")); diff != "" {
			t.Errorf("%s has changed something:\n%s", name, diff)
		}
	}
	if others == 0 {
		t.Error("no export has such a net")
	}
}

// A node that was never configured exports only its parameters.
//
// lnetctl 8 (3)
func TestEmptyNode(t *testing.T) {
	m := newMachine(t, nil)
	text := m.prints(t, "export", "--backup")
	if !strings.HasPrefix(text, "global:\n") || strings.Contains(text, "\n-") {
		t.Errorf("an empty node exports\n%s", text)
	}
	got := meaningOf(t, text, false)
	got.Global = nil
	if diff := cmp.Diff(meaning{}, got); diff != "" {
		t.Error(diff)
	}
}

// Configuration by commands is restored: tunables, several NIs, aliases, IPv6, routes, peers,
// policies of both kinds, parameters, buffers.
//
// lnetctl 8 (2)-(3)
func TestConfigurationByCommands(t *testing.T) {
	m := newMachine(t, map[string][]string{"eth0": {"10.0.0.1/24", "10.0.9.1/24", "fd77::1/64"}, "eth1": {"10.0.1.1/24"}})
	for _, command := range []string{
		"net add --net tcp --if eth0,eth1 --peer-timeout 60 --peer-credits 16 --credits 128 --conns-per-peer 2",
		"net add --nid fd77::1@tcp6", "net add --nid 10.0.9.1@tcp9 --tos 104",
		"route add --net tcp20 --gateway 10.0.0.[20-21]@tcp --hop 2 --priority 3", "route add --net tcp21 --gateway 10.0.0.20@tcp",
		"peer add --prim_nid 10.0.0.30@tcp --nid 10.0.1.30@tcp,fd77::30@tcp6", "peer add --prim_nid 10.0.0.31@tcp --non_mr",
		"udsp add --src tcp6", "udsp add --dst 10.0.0.*@tcp --rte 10.0.0.20@tcp", "udsp add --src tcp --dst 10.0.0.[1-9/2]@tcp",
		"selection nid add --nid 10.0.0.1@tcp --priority 4",
		"set transaction_timeout 50", "set retry_count 3", "set numa_range 7", "set discovery 0",
	} {
		m.quietly(t, strings.Fields(command)...)
	}
	backup := m.prints(t, "export", "--backup")
	got := meaningOf(t, backup, true)
	if len(got.NIs) != 4 || len(got.Routes) != 3 || len(got.UDSP) != 3 || len(got.Lnetd) != 1 {
		t.Errorf("the export lacks something:\n%s", backup)
	}
	m.tripsRound(t, m.prints(t, "export"), backup)
}

// A node that forwards is restored as a router.
//
// lnetctl 8 (2)-(3)
func TestRouter(t *testing.T) {
	m := newMachine(t, map[string][]string{"eth0": {"10.0.0.1/24"}, "eth1": {"10.0.1.1/24"}})
	for _, command := range []string{
		"net add --net tcp --if eth0", "net add --net tcp1 --if eth1", "set tiny_buffers 1024", "set routing 1",
	} {
		m.quietly(t, strings.Fields(command)...)
	}
	backup := m.prints(t, "export", "--backup")
	if got := meaningOf(t, backup, false); !got.Forward || got.Buffers["tiny"] != 1024 {
		t.Errorf("the export lacks something:\n%s", backup)
	}
	m.tripsRound(t, m.prints(t, "export"), backup)
}

// NIs that wait are restored in their places, with everything that is configured on their nets.
//
// lnetctl 8 (2)-(3)
func TestNIsThatWait(t *testing.T) {
	m := newMachine(t, map[string][]string{"eth0": {"10.0.0.1/24"}})
	m.imports(t, m.file(t, "waiting.yaml", `
net:
    - {net type: o2ib, interfaces: {0: ib0}, lnd tunables: {ntx: 256, map_on_demand: true}}
    - {net type: tcp, interfaces: {0: eth0}}
    - {net type: gni, nid: 7@gni}
route:
    - {net: tcp9, gateway: 10.9.0.1@o2ib}
`))
	backup, full := m.prints(t, "export", "--backup"), m.prints(t, "export")
	for what, text := range map[string]string{"backup": backup, "export": full} {
		got := meaningOf(t, text, false)
		var nets []string
		for _, ni := range got.NIs {
			net, _, _ := strings.Cut(ni, "map")
			nets = append(nets, net)
		}
		if !slices.Equal(nets, []string{"o2ib", "tcp", "gni"}) || len(got.Routes) != 1 {
			t.Errorf("%s: NIs of %q, routes %q", what, nets, got.Routes)
		}
	}
	m.tripsRound(t, full, backup)
}
