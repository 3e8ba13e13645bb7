package daemon

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/lnetd/lnetd/internal/lnetd/config"
	"github.com/lnetd/lnetd/internal/lnetd/control/api"
	"github.com/lnetd/lnetd/internal/lnetd/systemd"
	"github.com/lnetd/lnetd/transport"
	"github.com/lnetd/lnetd/transport/remote"
)

// connect opens a domain of a program that finds lnetd at a socket.
func connect(t *testing.T, path string) (*transport.Domain, error) {
	t.Helper()
	d, err := transport.NewDomain(t.Context(), remote.New(remote.Config{Path: path, Program: "test"}))
	if err == nil {
		t.Cleanup(func() { _ = d.Close() }) // lnetd may have ended
	}
	return d, err
}

// guestNIDs returns the NIDs of a domain except 0@lo.
func guestNIDs(t *testing.T, d *transport.Domain) (nids []string) {
	t.Helper()
	all, err := d.NIDs(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range all {
		if !n.IsLoopback() {
			nids = append(nids, n.String())
		}
	}
	return nids
}

// A client sees the NIDs of the node. When lnetd ends, the client is notified while the node
// still exists, and the socket is removed.
func TestClientsAreHosted(t *testing.T) {
	r := startDaemon(t, host(lo, device("eth0", "192.0.2.5/24")), "")
	r.ready(t)
	path := besideControl(r.socket, remote.SocketName)
	d, err := connect(t, path)
	if err != nil {
		t.Fatal(err)
	}
	if nids := guestNIDs(t, d); len(nids) != 1 || nids[0] != "192.0.2.5@tcp" {
		t.Errorf("NIDs %q", nids)
	}
	r.stop(t)
	if _, err := d.NIDs(t.Context()); err == nil {
		t.Error("a domain works without lnetd")
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is left")
	}
}

// Programs that are not allowed as clients find no socket.
func TestClientsAreNotHosted(t *testing.T) {
	r := startDaemon(t, host(lo, device("eth0", "192.0.2.5/24")), "lnetd: {transport: {enabled: false}}")
	r.ready(t)
	if _, err := connect(t, besideControl(r.socket, remote.SocketName)); !errors.Is(err, syscall.ENOENT) {
		t.Errorf("connected: %v", err)
	}
	r.stop(t)
}

// Reloaded rules apply only to clients that connect afterwards.
func TestClientsRulesReload(t *testing.T) {
	r := startDaemon(t, host(lo, device("eth0", "192.0.2.5/24")), "")
	r.ready(t)
	path := besideControl(r.socket, remote.SocketName)
	d, err := connect(t, path)
	if err != nil {
		t.Fatal(err)
	}
	load := func(text string) {
		t.Helper()
		c, err := config.Parse("test.yaml", []byte(text), r.drivers.Options())
		if err != nil {
			t.Fatal(err)
		}
		c.ControlSocket = r.socket
		r.Reload(t.Context(), func() (config.Config, error) { return c, nil })
		if begun, ended := <-r.states, <-r.states; !strings.HasPrefix(begun, "RELOADING=1\nMONOTONIC_USEC=") || ended != "READY=1" {
			t.Errorf("systemd hears %q, %q", begun, ended)
		}
	}
	load("lnetd: {transport: {rules: [{name: others, users: [4000000000]}]}}")
	if _, err := connect(t, path); !errors.Is(err, syscall.EACCES) {
		t.Errorf("connected against the rules: %v", err)
	}
	guestNIDs(t, d)
	if strings.Contains(r.log.String(), "lnetd is restarted") {
		t.Error(r.log)
	}
	load("lnetd: {log_format: text}\n")
	if _, err := connect(t, path); err != nil {
		t.Error(err)
	}
	if !strings.Contains(r.log.String(), `"changes":["log_format"]`) {
		t.Error(r.log)
	}
	r.stop(t)
}

// lnetd does not take over a socket on which another process listens.
func TestClientsSocketInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.sock")
	l, err := net.ListenUnix("unixpacket", &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	r := startDaemon(t, host(lo, device("eth0", "192.0.2.5/24")), "lnetd: {transport: {socket: "+path+"}}")
	f := r.fault(t, api.CodeClientsSocket)
	if !errors.Is(f, syscall.EADDRINUSE) || !strings.Contains(f.Remedy, "stop the process") {
		t.Errorf("%+v", f)
	}
}

// A socket created by systemd is used, and left to systemd at the end. A socket of another type
// is rejected.
func TestClientsSocketOfSystemd(t *testing.T) {
	for network, fits := range map[string]bool{"unixpacket": true, "unix": false} {
		path := filepath.Join(t.TempDir(), "x.sock")
		l, err := net.ListenUnix(network, &net.UnixAddr{Name: path, Net: network})
		if err != nil {
			t.Fatal(err)
		}
		l.SetUnlinkOnClose(false)
		f, err := l.File()
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		passed := func(name string) *os.File {
			fd, err := syscall.Dup(int(f.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			return os.NewFile(uintptr(fd), name)
		}
		files := []*os.File{passed("other"), passed(clientsSocketName)}
		_ = f.Close()
		drivers := Drivers{TCP(host(lo, device("eth0", "192.0.2.5/24")))}
		c := config.Default()
		c.ControlSocket = filepath.Join(t.TempDir(), "c.sock")
		r := runUnder(t, newFakeSystemd(t), systemd.Config{Files: files}, c, drivers, nil)
		if !fits {
			if f := r.fault(t, api.CodeInheritedSocket); !errors.Is(f, syscall.EPROTOTYPE) {
				t.Errorf("%s: %v", network, f)
			}
			continue
		}
		r.ready(t)
		d, err := connect(t, path)
		if err != nil {
			t.Fatal(err)
		}
		guestNIDs(t, d)
		if _, err := os.Lstat(besideControl(c.ControlSocket, remote.SocketName)); err == nil {
			t.Error("there is another socket")
		}
		r.stop(t)
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
}

// Programs look for lnetd's socket at its default path.
func TestClientsSocketIsFound(t *testing.T) {
	run := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", run)
	own := filepath.Join(run, "lnetd", remote.SocketName) // exists: otherwise that of root's lnetd is found
	if err := errors.Join(os.Mkdir(filepath.Dir(own), 0o700), os.WriteFile(own, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got, want := besideControl(api.DefaultSocket(), remote.SocketName), remote.FindSocket(); got != want {
		t.Errorf("%s, programs look at %s", got, want)
	}
	for _, control := range []string{"/x/a.sock", "/x/b.sock", "/x/c"} {
		if got := besideControl(control, remote.SocketName); filepath.Dir(got) != "/x" || got == besideControl("/x/control.sock", remote.SocketName) {
			t.Errorf("%s: %s", control, got)
		}
	}
}

// A full disk has its own remedy when the socket for clients is created.
func TestClientsSocketOnAFullDisk(t *testing.T) {
	f, ok := errors.AsType[*api.Fault](socketUnusable("clients", "transport", `disable "transport"`, "/run/lnetd/clients", syscall.ENOSPC))
	if !ok || !strings.HasPrefix(f.Remedy, "the file system of /run/lnetd/clients is full") || !strings.Contains(f.Remedy, "transport: socket") {
		t.Errorf("%+v", f)
	}
}
