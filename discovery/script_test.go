package discovery

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/lnet"
)

// The tests below run the scripts of testdata/scripts. A command is an event, after which
// the machine steps until it rests, unless the command has "hold". The output is the
// machine's actions. "show" prints the peers, with (wait) after those that messages wait
// for. "figures" prints the counters.

// scripts lists all files, so that no file is forgotten.
var scripts = []string{
	"add_peer", "configured", "contested", "contested_stale", "contested_unreachable", "delete", "failure", "failure_garbage", "failure_left", "failure_lost", "failure_refused", "failure_refused_again", "failure_refused_in_doubt", "failure_traffic", "gateway", "gateway_left", "large", "locked", "net_removed", "net_removed_of_primary",
	"off_both", "off_local", "off_rails", "off_remote", "query", "race_config_during_push", "race_delete_during_round", "race_push_before_ack", "race_push_in_front",
	"race_reboot", "race_reboot_two_records", "race_reordered_pushes", "race_reply_and_push", "race_simultaneous", "race_strange_answer", "race_truncated",
	"race_two_nids",
	"round", "static", "stop", "verify",
}

func TestEveryScriptIsListed(t *testing.T) {
	var found []string
	files, err := os.ReadDir("testdata/scripts")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		found = append(found, f.Name())
	}
	if diff := cmp.Diff(scripts, found); diff != "" {
		t.Error(diff)
	}
}

// play runs the scripts whose names begin with one of the prefixes.
//
// discovery 3 flags
func play(t *testing.T, prefixes ...string) {
	t.Helper()
	for _, prefix := range prefixes {
		for _, name := range scripts {
			if strings.HasPrefix(name, prefix) {
				t.Run(name, func(t *testing.T) {
					s := &script{t: t}
					datadriven.RunTest(t, "testdata/scripts/"+name, s.command)
				})
			}
		}
	}
}

// discovery 1, 2.1, 2.2, 2.4 (1), 2.4 (6), 3 ping, 3 push, 4.4 told, 5.1 (4), 5.1 (6)-(7)
// discovery 5.2 (4)-(5), 5.3 sent
// discovery 6.1 order (2), 6.1 order (5)-(7), 6.2, 6.3, 6.6 (1), 6.6 cases (2)
// discovery 6.7 reply (1), 6.7 reply (9), 6.7 push (8), 6.7 ack
// discovery 7.1 (3), 7.1 (5)-(6), 7.3, 8.2 (1)
func TestRound(t *testing.T) { play(t, "round") }

// discovery 10 (1)-(9), 4.6 room, 5.2 (5), 5.3 gone, 6.2, 6.4 again, 6.6 cases (5)
// discovery 6.7 reply (6)-(8), 6.7 push (3), 6.7 push (7), 6.7 push (9), 6.7 stale, 6.7 ack
// discovery 7.2 (1)-(5)
func TestRaces(t *testing.T) { play(t, "race") }

// discovery 3 ping, 4.2, 4.3, 5.1 old, 5.3 failed, 6.1 order (3)-(4), 6.1 timer
// discovery 6.2 refused, 6.3, 6.4, 6.4 again, 6.5
// discovery 6.6 (3), 6.7 reply (2)-(3), 6.7 push (1)-(2), 6.7 push (4), 6.7 source
// discovery 6.7 send, 6.7 unlink, 6.8, 6.1 order (7)
func TestFailures(t *testing.T) { play(t, "failure") }

// discovery 1 single, 2.5 (2), 3 quirk, 5.1 off, 5.2 (1), 5.2 (5), 5.2 off, 5.2 on
// discovery 6.1 order (1), 6.3 single
// discovery 6.6 cases (3), 6.7 reply (4)-(5), 6.7 push (5)-(6), 6.9, 7.1 (4), 7.5
// discovery 8.2 (2)-(3), 8.2 old, 3 push, 3 disabled
func TestDiscoveryOff(t *testing.T) { play(t, "off") }

// discovery 2.4 (4), 5.2 (6), 6.2, 6.7 reply (5), 6.9 configured, 7.1 (6)-(7)
// discovery 7.4 (1)-(4), 7.4 (7)-(8), 7.7 (1)-(4), 7.8, 8.1, 3 disabled, 7.4 primary
// lnetctl 11 (9)
// lnet-core 8.1 peer
// lnetctl 4.10 (3)
func TestConfiguredPeers(t *testing.T) { play(t, "configured", "delete") }

// discovery 4.3, 5.2 (1), 5.2 (6), 6.6 cases (4)-(5), 6.8 callers, 7.1 (5)-(7), 7.2 (5), 7.3
// discovery 7.4 (5)-(7), 7.4 primary, 7.5, 7.6 lock, 7.4 (8), 7.8
func TestIdentity(t *testing.T) { play(t, "locked", "contested", "large") }

// discovery 2.4 (5), 5.2 (2)-(3), 6.6 (4), 6.6 cases (1), 6.6 cases (4), 6.8 callers
// discovery 7.1 (2), 7.4 primary, 7.5, 7.5 known
// discovery 7.6 first, 7.6 further, 7.6 lock, 6.7 reply (4)
// sanity-lnet 2 (40)
func TestUpperLayer(t *testing.T) { play(t, "add_peer", "query") }

// discovery 2.4 (3), 5.1 (2), 5.2 (7), 6.2 gateway, 6.8 gateway, 6.9 routes, 7.1 (1)
// discovery 7.1 (8), 7.2 (6)
// lnet-core 8.5 (2)
func TestGateways(t *testing.T) { play(t, "gateway") }

// discovery 8.3
func TestNetRemoved(t *testing.T) { play(t, "net_removed") }

// discovery 11.2
func TestVerification(t *testing.T) { play(t, "verify") }

// discovery 11.2
func TestStatic(t *testing.T) { play(t, "static") }

// discovery 5.1 (5), 5.3 failed, 6.6 (2), 6.8 callers
func TestStop(t *testing.T) { play(t, "stop") }

type script struct {
	t   *testing.T
	m   *Machine
	now time.Duration
	out strings.Builder
}

func (s *script) command(t *testing.T, d *datadriven.TestData) string {
	s.t = t
	s.out.Reset()
	a := args{t: t, d: d}
	s.event(d.Cmd, a)
	if !a.has("hold") {
		for n := 0; s.m.HasWork(); n++ {
			if n == 10_000 {
				t.Fatalf("%s: the machine does not come to rest", d.Pos)
			}
			s.m.Step(s.now)
			if d.Cmd == "step" {
				break
			}
		}
	}
	s.print()
	if err := s.m.check(); err != nil {
		t.Fatalf("%s: %v", d.Pos, err)
	}
	if s.out.Len() == 0 {
		return "nothing\n"
	}
	return s.out.String()
}

func (s *script) print() {
	for _, a := range s.m.Actions() {
		fmt.Fprintln(&s.out, a)
	}
}

func (s *script) result(err error) {
	if err != nil {
		fmt.Fprintln(&s.out, "error:", err)
	}
}

func (s *script) event(cmd string, a args) {
	m := s.m
	switch cmd {
	case "new":
		s.now = 0
		s.m = New(Config{
			Local: Local{Mode: a.mode("mode"), Seq: a.seq()}, Nets: a.nets("nets"), ResponseTimeout: a.duration("timeout"),
		})
	case "step", "run":
	case "wait":
		s.now += a.duration("for")
		m.Step(s.now)
	case "meet":
		m.FindOrCreate(s.now, a.nid(0))
	case "park":
		m.Park(s.now, a.nid(0), a.key())
	case "discover":
		m.Discover(s.now, a.nid(0), a.key())
	case "force-discover":
		m.ForceDiscover(s.now, a.nid(0), a.key())
	case "primary":
		if nid, ok := m.PrimaryNID(s.now, a.nid(0), a.has("lock"), a.key()); ok {
			fmt.Fprintln(&s.out, "is", nid)
		}
	case "discovered":
		if err := m.IsDiscovered(s.now, a.nid(0)); err != nil {
			fmt.Fprintln(&s.out, "not yet:", err)
		} else {
			fmt.Fprintln(&s.out, "yes")
		}
	case "heard":
		m.NoteAlive(s.now, a.nid(0))
	case "reply":
		m.PingReply(s.now, a.id(), Reply{To: a.nidOf("to"), From: a.nidOf("from"), Content: a.content()})
	case "push":
		m.PushReceived(s.now, a.nidOf("from"), a.content())
	case "ack":
		m.PushAcked(s.now, a.id())
	case "fail":
		m.Failed(s.now, a.id(), a.err())
	case "refuse":
		m.Refused(s.now, a.id(), a.err())
	case "restarted":
		m.Restarted(s.now, a.nid(0))
	case "seq":
		m.SetSeq(s.now, uint32(a.number(0)), a.nets("nets"))
	case "force-push":
		m.ForcePushAll(s.now)
	case "mode":
		m.SetMode(s.now, modes[a.word(0)])
	case "remove-net":
		m.RemoveNet(s.now, a.nets("net")[0], a.nets("nets"))
	case "route":
		s.result(m.AddRoute(s.now, a.nid(0)))
	case "unroute":
		s.result(m.RemoveRoute(s.now, a.nid(0)))
	case "check":
		fmt.Fprintln(&s.out, "begun:", m.CheckRouter(s.now, a.nid(0), a.nets("over")[0]))
	case "configure":
		s.result(m.Configure(s.now, a.nid(0), a.nids("nids"), a.options()))
	case "add-nid":
		s.result(m.AddNID(s.now, a.nid(0), a.nid(1), a.options()))
	case "delete":
		s.result(m.Delete(s.now, a.nid(0)))
	case "force-delete":
		s.result(m.ForceDelete(s.now, a.nid(0)))
	case "delete-nid":
		s.result(m.DeleteNID(s.now, a.nid(0), a.nid(1)))
	case "add-peer":
		nid, err := m.AddPeer(s.now, a.nids("nids"), a.has("lock"))
		s.result(err)
		fmt.Fprintln(&s.out, "reference:", nid)
	case "stop":
		m.Stop(s.now)
	case "figures":
		fmt.Fprintf(&s.out, "%+v\n", m.Figures())
	case "show":
		for v := range m.Peers() {
			wait := ""
			if v.MustWait(m.Local()) {
				wait = " (wait)"
			}
			fmt.Fprintf(&s.out, "%s%s\n", v, wait)
		}
	default:
		s.t.Fatalf("no such command: %s", cmd)
	}
}

var modes = map[string]Mode{"": On, "on": On, "off": Off, "verify": Verify, "static": Static}

// args parses the arguments of a command.
type args struct {
	t *testing.T
	d *datadriven.TestData
}

func (a args) arg(key string) *datadriven.CmdArg {
	for i := range a.d.CmdArgs {
		if a.d.CmdArgs[i].Key == key {
			return &a.d.CmdArgs[i]
		}
	}
	return nil
}

func (a args) has(key string) bool { return a.arg(key) != nil }

// value returns the value of key=value, or "" if the key is missing.
func (a args) value(key string) string {
	if c := a.arg(key); c != nil && len(c.Vals) > 0 {
		return c.Vals[0]
	}
	return ""
}

// word returns an argument by its position.
func (a args) word(n int) string {
	a.t.Helper()
	if n >= len(a.d.CmdArgs) {
		a.t.Fatalf("%s: lacks an argument", a.d.Pos)
	}
	return a.d.CmdArgs[n].Key
}

func (a args) number(n int) uint64 {
	a.t.Helper()
	v, err := strconv.ParseUint(a.word(n), 10, 64)
	if err != nil {
		a.t.Fatalf("%s: %v", a.d.Pos, err)
	}
	return v
}

func (a args) parse(s string) lnet.NID {
	a.t.Helper()
	nid, err := lnet.ParseNID(s)
	if err != nil {
		a.t.Fatalf("%s: %v", a.d.Pos, err)
	}
	return nid
}

func (a args) nid(n int) lnet.NID { a.t.Helper(); return a.parse(a.word(n)) }

func (a args) nidOf(key string) lnet.NID {
	a.t.Helper()
	if !a.has(key) {
		return lnet.NID{}
	}
	return a.parse(a.value(key))
}

func (a args) nids(key string) (nids []lnet.NID) {
	a.t.Helper()
	if c := a.arg(key); c != nil {
		for _, s := range c.Vals {
			if s != "" {
				nids = append(nids, a.parse(s))
			}
		}
	}
	return nids
}

func (a args) nets(key string) (nets []lnet.Net) {
	a.t.Helper()
	if c := a.arg(key); c != nil {
		for _, s := range c.Vals {
			n, err := lnet.ParseNet(s)
			if err != nil {
				a.t.Fatalf("%s: %v", a.d.Pos, err)
			}
			nets = append(nets, n)
		}
	}
	return nets
}

func (a args) mode(key string) Mode { return modes[a.value(key)] }

func (a args) key() Key { a.t.Helper(); return Key(a.number(1)) }

func (a args) id() RequestID { a.t.Helper(); return RequestID(a.number(0)) }

func (a args) duration(key string) time.Duration {
	a.t.Helper()
	if !a.has(key) {
		return 0
	}
	v, err := time.ParseDuration(a.value(key))
	if err != nil {
		a.t.Fatalf("%s: %v", a.d.Pos, err)
	}
	return v
}

func (a args) seq() uint32 {
	n, _ := strconv.ParseUint(a.value("seq"), 10, 32)
	return uint32(n)
}

func (a args) err() error {
	if a.has("lost") {
		return ErrLost
	}
	if a.has("timeout") {
		return ErrTimedOut
	}
	return errors.New("no route to host")
}

func (a args) options() ConfigureOptions {
	return ConfigureOptions{SingleRail: a.has("single"), Lock: a.has("lock")}
}

// content returns the ping info of a message with these NIDs, decoded in a room of the
// given number of bytes.
func (a args) content() Content {
	a.t.Helper()
	if a.has("error") {
		return Content{Err: errors.New("i/o error")}
	}
	info := lnet.PingInfo{
		Features: lnet.FeatNIStatus | lnet.FeatRoutingDisabled | lnet.FeatMultiRail | lnet.FeatDiscovery,
		PID:      lnet.PIDLustre, Seq: a.seq(),
	}
	for key, f := range map[string]lnet.Features{
		"router": lnet.FeatRoutingDisabled, "no-mr": lnet.FeatMultiRail, "no-discovery": lnet.FeatDiscovery, "garbage": lnet.FeatNIStatus,
	} {
		if a.has(key) {
			info.Features &^= f
		}
	}
	down := a.nids("down")
	for _, nid := range a.nids("nids") {
		ni := lnet.PingNI{NID: nid, Status: lnet.StatusUp}
		for _, d := range down {
			if d == nid {
				ni.Status = lnet.StatusDown
			}
		}
		info.NIs = append(info.NIs, ni)
		if len(info.NIs) == 1 && nid.IsLarge() {
			info.Features |= lnet.FeatPrimaryLarge
		}
	}
	// Any number of further NIDs 10.9.x.y@tcp9, to make it long.
	more, _ := strconv.Atoi(a.value("more"))
	for i := range more {
		nid := lnet.NIDFromNumber(lnet.Net(lnet.TypeTCP)<<16|9, 10<<24|9<<16|uint32(i))
		info.NIs = append(info.NIs, lnet.PingNI{NID: nid, Status: lnet.StatusUp})
	}
	b := info.Append(nil, binary.LittleEndian)
	room, err := strconv.Atoi(a.value("room"))
	if err != nil {
		room = 1 << 16
	}
	return Read(b[:min(room, len(b))], len(b) >= room, lnet.InterfacesMax)
}
