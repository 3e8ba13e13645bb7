package doctor

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/lnetd/lnetd/internal/lnetd/diagnosis"
)

// sameNetwork reports whether the process with the PID is known to be in the network namespace of this process.
func sameNetwork(pid int) bool {
	own, err := os.Readlink("/proc/self/ns/net")
	its, err2 := os.Readlink(process(pid) + "/ns/net")
	return err == nil && err2 == nil && own == its
}

func process(pid int) string { return "/proc/" + strconv.Itoa(pid) }

// host returns what this host shows. The PID is that of lnetd, or 0 if it is not running. It returns nil if the
// interfaces cannot be read.
func host(pid int, directories []string) *diagnosis.Host {
	var h diagnosis.Host
	all, err := net.Interfaces()
	if err != nil {
		return nil
	}
	for k := range all {
		h.Interfaces = append(h.Interfaces, describe(&all[k]))
	}
	if pid > 0 {
		h.Files = files(process(pid))
	}
	for _, dir := range directories {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil {
			h.Disks = append(h.Disks, diagnosis.Disk{Path: dir, Free: st.Bavail * uint64(st.Bsize)})
		}
	}
	return &h
}

func describe(i *net.Interface) diagnosis.Interface {
	on := i.Flags&net.FlagUp != 0
	loopback := i.Flags&net.FlagLoopback != 0
	d := diagnosis.Interface{Name: i.Name, On: on, Carrier: on && (loopback || i.Flags&net.FlagRunning != 0), Loopback: loopback, MTU: i.MTU}
	addrs, err := i.Addrs()
	if err != nil {
		return d
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			d.Addrs = append(d.Addrs, p.Addr().Unmap())
		}
	}
	return d
}

// files returns the file descriptors of the process whose directory in /proc is dir. The result is zero if they
// cannot be read.
func files(dir string) diagnosis.Files {
	open, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return diagnosis.Files{}
	}
	f, err := os.Open(dir + "/limits")
	if err != nil {
		return diagnosis.Files{}
	}
	defer func() { _ = f.Close() }()
	s := bufio.NewScanner(f)
	for s.Scan() {
		if rest, ok := strings.CutPrefix(s.Text(), "Max open files"); ok {
			if fields := strings.Fields(rest); len(fields) > 0 {
				limit, _ := strconv.Atoi(fields[0]) // 0 if it is unlimited
				return diagnosis.Files{Open: len(open), Limit: limit}
			}
		}
	}
	return diagnosis.Files{}
}
