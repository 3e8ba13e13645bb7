package daemon

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/lnetd/lnetd/internal/lnetd/control/api"
)

// portInUse returns the fault for a TCP port that another process listens on. The cause names the
// process as far as it is visible.
func portInUse(at netip.AddrPort, remedy string) error {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	return api.Fault{
		Code: api.CodePortInUse, Errno: -int(syscall.EADDRINUSE),
		Text:   fmt.Sprintf("TCP port %s is in use", at),
		Cause:  portOwner("/proc", at),
		Remedy: remedy,
	}.Because(syscall.EADDRINUSE)
}

// listening is a listening socket, as a line of /proc/net/tcp describes it.
type listening struct {
	at    netip.AddrPort
	uid   int
	inode string
}

// portOwner returns a text that describes the process that listens at the address. The directory proc
// is the mount point of the proc file system.
func portOwner(proc string, at netip.AddrPort) string {
	var found []listening
	for _, name := range []string{"tcp", "tcp6"} {
		f, err := os.Open(filepath.Join(proc, "self/net", name))
		if err != nil {
			continue
		}
		found = append(found, listeners(f)...)
		_ = f.Close()
	}
	for _, l := range found {
		if !conflicts(l.at, at) {
			continue
		}
		if pid := holder(proc, l.inode); pid > 0 {
			p := api.FindProcess(pid)
			p.UID = l.uid
			return "it belongs to " + p.String()
		}
		if os.Geteuid() == 0 {
			return fmt.Sprintf("a socket of uid %d listens on %s, but no visible process has it; the owner is probably "+
				"the LNet of the kernel (module ksocklnd), or a process in another PID namespace", l.uid, l.at)
		}
		return fmt.Sprintf("a process of uid %d listens on %s; run as root to see which one", l.uid, l.at)
	}
	return "the process that listens there is not visible from here"
}

// conflicts reports whether a socket that listens on have prevents another one from listening on want.
func conflicts(have, want netip.AddrPort) bool {
	a, b := have.Addr().Unmap(), want.Addr().Unmap()
	return have.Port() == want.Port() && (a == b || a.IsUnspecified() || b.IsUnspecified())
}

// listeners returns the listening sockets in r, which has the format of /proc/net/tcp.
func listeners(r io.Reader) []listening {
	const stateListen = "0A"
	var out []listening
	s := bufio.NewScanner(r)
	for s.Scan() {
		f := strings.Fields(s.Text()) // sl local remote state queues timer retransmits uid timeout inode ...
		if len(f) < 10 || f[3] != stateListen {
			continue
		}
		at, ok := parseProcAddr(f[1])
		uid, err := strconv.Atoi(f[7])
		if ok && err == nil {
			out = append(out, listening{at: at, uid: uid, inode: f[9]})
		}
	}
	return out
}

// parseProcAddr parses "0100007F:03DC": words of the address in host byte order, then the port.
func parseProcAddr(s string) (netip.AddrPort, bool) {
	addr, port, ok := strings.Cut(s, ":")
	b, err := hex.DecodeString(addr)
	n, err2 := strconv.ParseUint(port, 16, 16)
	if !ok || err != nil || err2 != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(b[i:], binary.BigEndian.Uint32(b[i:]))
	}
	a, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(a, uint16(n)), ok
}

// holder returns the PID of a process that has the socket with the given inode open, or 0 if no such
// process is visible.
func holder(proc, inode string) int {
	want := "socket:[" + inode + "]"
	fds, err := filepath.Glob(filepath.Join(proc, "[0-9]*", "fd", "[0-9]*"))
	if err != nil {
		return 0
	}
	for _, fd := range fds {
		if to, err := os.Readlink(fd); err == nil && to == want {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(fd))))
			return pid
		}
	}
	return 0
}
