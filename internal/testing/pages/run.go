package pages

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lnetd/lnetd/internal/testing/daemontest"
	"github.com/lnetd/lnetd/internal/testing/namespace"
	"github.com/lnetd/lnetd/internal/testing/testenv"
)

// patience is the time limit for one command, and for a daemon in the background to be ready.
const patience = 2 * time.Minute

// Namespaces is the prefix of the names of network namespaces. A process ID follows.
const Namespaces = "lnetd-pages-"

// worlds gives the namespaces of each world of this process different names.
var worlds atomic.Int32

// port is the port of an unprivileged lnetd.
const port = 9988

// Shell runs commands on a host, one after the other.
type Shell interface {
	// Run runs a command and returns its output, standard error included, and its exit status.
	Run(ctx context.Context, command string) (output string, status int, err error)
	// Close ends the shell and the processes that it has started. It may be called twice.
	Close()
}

// Options selects the steps that Test runs.
type Options struct {
	// Programs returns the directory of lnetd, lnetdctl and lnetperf. Commands find them in PATH. It is called
	// before the first command.
	Programs func() (dir string, err error)
	// Machines creates machines. If it is nil, steps on machines are skipped, otherwise all others.
	Machines func([]Host) map[string]Shell
}

// runner carries out the steps of one page.
type runner struct {
	Options
	t        *testing.T
	shells   map[string]Shell
	notifies int
	output   string // of the last block of commands
}

// Test runs the steps of a page. Without root, it skips those that need network namespaces. The first step that
// fails ends the test.
func Test(t *testing.T, steps []Step, o Options) {
	r := &runner{t: t, Options: o, shells: map[string]Shell{}}
	defer r.close()
	skip := o.Machines != nil
	for k := range steps {
		s := &steps[k]
		switch s.Kind {
		case Hosts:
			r.close()
			skip = o.Machines != nil || !rooted(t, s)
			if !skip {
				r.hosts(s.Hosts)
			}
		case Machines:
			r.close()
			if skip = o.Machines == nil; !skip {
				r.shells = o.Machines(s.Hosts)
			}
		case Run, Given, File, Prints:
			if !skip {
				r.step(s)
			}
		case NotRun:
		}
	}
}

// rooted reports whether the test can create network namespaces, and logs if it cannot.
func rooted(t *testing.T, s *Step) bool {
	t.Helper()
	if testenv.All() {
		testenv.NeedRoot(t)
	}
	if os.Getuid() != 0 {
		t.Logf("line %d: skipped: only root can create network namespaces", s.Line)
		return false
	}
	return true
}

// step carries out a step on its hosts.
func (r *runner) step(s *Step) {
	r.t.Helper()
	switch s.Kind {
	case Prints:
		if !Matches(s.Text, r.output) {
			r.t.Fatalf("line %d: the commands print\n%s\nThe page shows\n%s", s.Line, r.output, s.Text)
		}
	case File:
		for _, host := range s.On {
			r.must(s, host, fmt.Sprintf("mkdir -p \"$(dirname '%s')\" && cat >'%[1]s' <<'END-OF-FILE'\n%sEND-OF-FILE\n", s.Path, s.Text), 0)
		}
	case Run, Given:
		if s.Kind == Run {
			r.output = ""
		}
		commands := s.Commands()
		for _, host := range s.On {
			for k, command := range commands {
				status := 0
				if k == len(commands)-1 {
					status = s.Status
				}
				r.must(s, host, command, status)
			}
		}
	case Hosts, Machines, NotRun:
	}
}

var backgroundForm = regexp.MustCompile(`^(.*\S)\s*&(?:\s+#.*)?$`)

// must runs a command on a host, and ends the test if its exit status is not the expected one.
func (r *runner) must(s *Step, host, command string, want int) {
	r.t.Helper()
	sh := r.shells[host]
	if sh == nil && host == "" {
		sh = r.here()
	}
	if sh == nil {
		r.t.Fatalf("line %d: there is no host %q", s.Line, host)
	}
	var ready func() error
	full := command
	if m := backgroundForm.FindStringSubmatch(command); m != nil {
		full, ready = r.background(m[1])
	}
	out, status, err := sh.Run(r.t.Context(), full)
	r.output += out
	if err != nil || status != want {
		r.t.Fatalf("line %d: %s\n%s\nexit status %d, want %d (%v)", s.Line, command, out, status, want, err)
	}
	if ready != nil {
		if err := ready(); err != nil {
			r.t.Fatalf("line %d: %s: %v", s.Line, command, err)
		}
	}
}

// background returns a command that starts another one in the background, and a function that waits until it has
// notified systemd that it is ready.
func (r *runner) background(command string) (start string, ready func() error) {
	r.t.Helper()
	r.notifies++
	dir := testenv.SocketDir(r.t)
	log := filepath.Join(dir, "log")
	n, err := daemontest.NewNotify(filepath.Join(dir, strconv.Itoa(r.notifies)))
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = n.Close() })
	start = fmt.Sprintf("export %s\n%s >%s 2>&1 &\nunset NOTIFY_SOCKET", n.Env(), command, log)
	return start, func() error {
		if err := n.Await("READY=1", patience); err != nil {
			text, _ := os.ReadFile(log)
			return fmt.Errorf("%w\n%s", err, text)
		}
		return nil
	}
}

// hosts creates network namespaces, a switch for each network, and a shell in each host.
func (r *runner) hosts(list []Host) {
	r.t.Helper()
	testenv.NeedCommand(r.t, "ip", "iproute2")
	testenv.NeedCommand(r.t, "unshare", "util-linux")
	testenv.NeedCommand(r.t, "nft", "nftables")
	namespace.Sweep(Namespaces)
	prefix := fmt.Sprintf("%s%d-%d-", Namespaces, os.Getpid(), worlds.Add(1))
	room := prefix + "room"
	namespace.New(r.t, room)
	bridges := map[[3]byte]string{}
	ports := 0
	for _, h := range list {
		name := prefix + h.Name
		namespace.New(r.t, name)
		for _, i := range h.Interfaces {
			network := [3]byte(i.Address.AsSlice()[:3])
			if bridges[network] == "" {
				bridges[network] = fmt.Sprint("net", len(bridges))
				namespace.IP(r.t, "-n", room, "link", "add", bridges[network], "type", "bridge")
				namespace.IP(r.t, "-n", room, "link", "set", bridges[network], "up")
			}
			ports++
			namespace.Cable(r.t, name, i.Device, i.Address.String()+"/24", room, fmt.Sprint("port", ports), bridges[network])
		}
		r.start(h.Name, []string{"ip", "netns", "exec", name, "unshare", "--mount", "--propagation", "private",
			"--pid", "--fork", "--kill-child", "--mount-proc"}, private)
	}
}

// private gives the shell of a host separate directories, so that it can have the files and sockets of an
// installed lnetd.
const private = `
mount -t tmpfs none /run && mkdir /run/etc && cp -a /etc/. /run/etc && mount --bind /run/etc /etc || exit 1
`

// here returns the shell of this host. As root it is in a separate network namespace, where port 988 is free.
func (r *runner) here() Shell {
	r.t.Helper()
	if os.Getuid() == 0 {
		r.hosts([]Host{{Name: ""}})
		return r.shells[""]
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.2:%d", port))
	if err != nil {
		r.t.Skipf("port %d, on which lnetd listens without privileges, is not free: %v", port, err)
	}
	_ = l.Close()
	r.start("", nil, "")
	return r.shells[""]
}

// start starts the shell of a host.
func (r *runner) start(name string, before []string, setup string) {
	r.t.Helper()
	programs, err := r.Programs()
	if err != nil {
		r.t.Fatal(err)
	}
	dir := r.t.TempDir()
	env := []string{
		"PATH=" + programs + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + dir, "LC_ALL=C.UTF-8", "TERM=dumb", "XDG_RUNTIME_DIR=" + testenv.SocketDir(r.t),
	}
	s, err := startShell(before, dir, env, setup)
	if err != nil {
		r.t.Fatal(err)
	}
	r.shells[name] = s
	r.t.Cleanup(s.Close)
}

// close ends the shells, and with them all processes of the page.
func (r *runner) close() {
	for name, s := range r.shells {
		s.Close()
		delete(r.shells, name)
	}
}
