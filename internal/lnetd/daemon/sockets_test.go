package daemon

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/systemd"
)

// under runs a daemon with a configuration, under a systemd that has passed files.
func under(t *testing.T, f *fakeSystemd, dir, text string, files ...*os.File) *daemonRun {
	t.Helper()
	drivers := Drivers{TCP(host(lo, device("eth0", "192.0.2.5/24")))}
	c, err := config.Parse("test.yaml", []byte(text), drivers.Options())
	if err != nil {
		t.Fatal(err)
	}
	c.ControlSocket = filepath.Join(dir, "control.sock")
	return runUnder(t, f, systemd.Config{Files: files, Keeps: true}, c, drivers, nil)
}

func inode(t *testing.T, path string) uint64 {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Sys().(*syscall.Stat_t).Ino
}

func wantNames(t *testing.T, f *fakeSystemd, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, f.names()); diff != "" {
		t.Errorf("kept (-want +got):\n%s", diff)
	}
}

// freeAddress returns a free address of this host.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func fetch(addr string) error {
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := client.Get("http://" + addr + "/metrics")
	if err != nil {
		return err
	}
	return r.Body.Close()
}

// Sockets that lnetd has created are kept, and the next lnetd gets them. Clients that connect in
// between wait and are served.
func TestSocketsAreKept(t *testing.T) {
	f, dir, addr := newFakeSystemd(t), t.TempDir(), freeAddress(t)
	control, guests := filepath.Join(dir, "control.sock"), filepath.Join(dir, "lnetd.sock")
	text := "lnetd: {metrics_addr: '" + addr + "'}"
	r := under(t, f, dir, text)
	r.ready(t)
	wantNames(t, f, "kept-control", "kept-clients", "kept-metrics")
	before := []uint64{inode(t, control), inode(t, guests)}
	r.stop(t)

	early, err := net.Dial("unix", control)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = early.Close() }()
	if _, err := early.Write([]byte("GET /v1/version HTTP/1.0\r\nHost: lnetd\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	scraped := make(chan error, 1)
	go func() { scraped <- fetch(addr) }()
	r = under(t, f, dir, text, f.passed()...)
	r.ready(t)
	answer := make([]byte, len("HTTP/1.0 200"))
	if _, err := early.Read(answer); err != nil || string(answer) != "HTTP/1.0 200" {
		t.Errorf("who came early hears %q, %v", answer, err)
	}
	if err := <-scraped; err != nil {
		t.Error(err)
	}
	d, err := connect(t, guests)
	if err != nil {
		t.Fatal(err)
	}
	guestNIDs(t, d)
	if diff := cmp.Diff(before, []uint64{inode(t, control), inode(t, guests)}); diff != "" {
		t.Errorf("the socket files are others: %s", diff)
	}
	wantNames(t, f, "kept-control", "kept-clients", "kept-metrics")
	r.stop(t)
}

// A kept socket that is no longer needed is closed, its file removed, and its address free.
func TestKeptInVain(t *testing.T) {
	f, dir, addr := newFakeSystemd(t), t.TempDir(), freeAddress(t)
	r := under(t, f, dir, "lnetd: {metrics_addr: '"+addr+"'}")
	r.ready(t)
	r.stop(t)

	// The clients' socket has another path now, and metrics have another address with the same
	// port.
	_, port, _ := net.SplitHostPort(addr)
	r = under(t, f, dir, "lnetd: {metrics_addr: '0.0.0.0:"+port+"', transport: {socket: "+dir+"/other}}", f.passed()...)
	r.ready(t)
	wantNames(t, f, "kept-control", "kept-clients", "kept-metrics")
	if _, err := os.Lstat(filepath.Join(dir, "lnetd.sock")); err == nil {
		t.Error("the old socket file is there")
	}
	if _, err := connect(t, dir+"/other"); err != nil {
		t.Error(err)
	}
	if err := fetch(addr); err != nil {
		t.Error(err)
	}
	r.stop(t)

	// Neither clients nor metrics.
	r = under(t, f, dir, "lnetd: {transport: {enabled: false}}", f.passed()...)
	r.ready(t)
	wantNames(t, f, "kept-control")
	if err := fetch(addr); err == nil {
		t.Error("there are metrics")
	}
	r.stop(t)

	// The file of the control socket has been removed.
	if err := os.Remove(filepath.Join(dir, "control.sock")); err != nil {
		t.Fatal(err)
	}
	r = under(t, f, dir, "lnetd: {transport: {enabled: false}}", f.passed()...)
	if _, err := r.ready(t).Version(t.Context()); err != nil {
		t.Error(err)
	}
	wantNames(t, f, "kept-control")
	r.stop(t)
}

// All three sockets created by systemd are used unchanged. No other socket is kept. They
// exist while lnetd does not run.
func TestSocketsOfSystemd(t *testing.T) {
	f, dir := newFakeSystemd(t), t.TempDir()
	control, guests := filepath.Join(dir, "c"), filepath.Join(dir, "g")
	cl, err := net.ListenUnix("unix", &net.UnixAddr{Name: control})
	if err != nil {
		t.Fatal(err)
	}
	gl, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: guests, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	ml, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	named := func(l fileListener, name string) *os.File {
		file, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = file.Close() }()
		return copyOf(file, name)
	}
	defer func() { _, _, _ = cl.Close(), gl.Close(), ml.Close() }()
	for range 2 {
		stray := named(ml, "lnetd.socket")
		r := under(t, f, dir, "", named(cl, "control"), named(gl, "clients"), named(ml, "metrics"), stray)
		r.socket = control
		if _, err := r.ready(t).Version(t.Context()); err != nil {
			t.Error(err)
		}
		d, err := connect(t, guests)
		if err != nil {
			t.Fatal(err)
		}
		guestNIDs(t, d)
		if err := fetch(ml.Addr().String()); err != nil {
			t.Error(err)
		}
		if list, err := filepath.Glob(dir + "/*.sock"); err != nil || len(list) > 0 {
			t.Errorf("lnetd has made %v, %v", list, err)
		}
		if !strings.Contains(r.log.String(), `"names":["lnetd.socket"]`) {
			t.Errorf("nothing is said of a socket that is not used: %s", r.log)
		}
		wantNames(t, f)
		r.stop(t)
		inode(t, control)
		inode(t, guests)
	}
}

// A socket of another type, or two with one name, end lnetd with an error about the unit.
func TestWrongSockets(t *testing.T) {
	dir := t.TempDir()
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: filepath.Join(dir, "p"), Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	file, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = l.Close(), file.Close() }()
	for _, c := range []struct {
		names  []string
		remedy string
	}{
		{[]string{"control"}, "ListenStream=/PATH, FileDescriptorName=control"},
		{[]string{"metrics"}, "ListenStream=ADDRESS:PORT, FileDescriptorName=metrics"},
		{[]string{"clients", "clients"}, "ListenSequentialPacket=/PATH, FileDescriptorName=clients"},
	} {
		var files []*os.File
		for _, name := range c.names {
			files = append(files, copyOf(file, name))
		}
		r := under(t, newFakeSystemd(t), t.TempDir(), "", files...)
		if f := r.fault(t, api.CodeInheritedSocket); !strings.Contains(f.Remedy, c.remedy) {
			t.Errorf("%v: %+v", c.names, f)
		}
	}
}

func TestIsAt(t *testing.T) {
	for _, c := range []struct {
		have, want string
		is         bool
	}{
		{"127.0.0.1:9", "127.0.0.1:9", true},
		{"127.0.0.1:9", "127.0.0.1:0", true},
		{"127.0.0.1:9", "127.0.0.1:8", false},
		{"127.0.0.1:9", "127.0.0.2:9", false},
		{"127.0.0.1:9", ":9", false},
		{"[::]:9", ":9", true},
		{"0.0.0.0:9", ":9", true}, // a host without IPv6
		{"[::]:9", "0.0.0.0:9", false},
		{"127.0.0.1:9", "nowhere", false},
	} {
		have, err := net.ResolveTCPAddr("tcp", c.have)
		if err != nil {
			t.Fatal(err)
		}
		if got := isAt(have, c.want); got != c.is {
			t.Errorf("%s for %s: %v", c.have, c.want, got)
		}
	}
}
