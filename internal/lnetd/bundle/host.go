package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// logLines is the maximum number of lines of the journal.
const logLines = "5000"

// fromHost returns the files with facts about the host.
func (b *Bundle) fromHost() []source {
	return []source{
		{"log.txt", "the latest " + logLines + " lines of the journal of the unit lnetd", journal},
		{"host/system.txt", "kernel, distribution, processors, memory, load", system},
		{"host/interfaces.txt", "network interfaces with their addresses", interfaces},
		{"host/routes.txt", "IP routes, as in /proc/net", procFiles("/proc/net/route", "/proc/net/ipv6_route")},
		{"host/network.txt", "settings and figures of the network", procFiles(
			"/proc/sys/net/ipv4/ip_local_port_range", "/proc/sys/net/ipv4/ip_local_reserved_ports",
			"/proc/sys/net/ipv4/ip_unprivileged_port_start", "/proc/sys/net/ipv4/conf/all/rp_filter",
			"/proc/sys/net/ipv4/conf/all/arp_ignore", "/proc/sys/net/ipv4/tcp_rmem", "/proc/sys/net/ipv4/tcp_wmem",
			"/proc/sys/net/ipv4/tcp_mtu_probing", "/proc/sys/net/core/rmem_max", "/proc/sys/net/core/wmem_max",
			"/proc/sys/net/core/somaxconn", "/proc/net/sockstat", "/proc/net/dev")},
		{"host/process.txt", "limits and state of the process lnetd", b.process},
	}
}

// journal returns the latest lines of the journal of lnetd, if there is one and the user may read it.
func journal(ctx context.Context) ([]byte, error) {
	path, err := exec.LookPath("journalctl")
	if err != nil {
		return nil, err
	}
	var out, errs limited
	cmd := exec.CommandContext(ctx, path, "--unit=lnetd", "--lines="+logLines, "--no-pager", "--output=short-iso-precise", "--quiet")
	cmd.Stdout, cmd.Stderr = &out, &errs
	switch err := cmd.Run(); {
	case err != nil:
		return nil, fmt.Errorf("journalctl: %w: %s", err, errs.String())
	case out.Len() == 0:
		return nil, errors.New("the journal has no lines of the unit lnetd that this user may read")
	}
	return out.Bytes(), nil
}

// limited is a buffer that discards what exceeds fileMax by more than one byte.
type limited struct{ bytes.Buffer }

// Write implements io.Writer. It never returns an error.
func (l *limited) Write(p []byte) (int, error) {
	_, _ = l.Buffer.Write(p[:min(len(p), fileMax+1-l.Len())])
	return len(p), nil
}

func system(ctx context.Context) ([]byte, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return nil, err
	}
	text := unix.ByteSliceToString
	head := lines([]string{
		strings.Join([]string{text(u.Sysname[:]), text(u.Nodename[:]), text(u.Release[:]), text(u.Version[:]), text(u.Machine[:])}, " "),
		fmt.Sprintf("%d processors, page size %d", runtime.NumCPU(), os.Getpagesize()),
	})
	rest, err := procFiles("/etc/os-release", "/proc/meminfo", "/proc/loadavg", "/proc/uptime")(ctx)
	return append(head, rest...), err
}

func interfaces(context.Context) ([]byte, error) {
	list, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	var out []string
	for _, i := range list {
		line := fmt.Sprintf("%d %s mtu %d %s %s", i.Index, i.Name, i.MTU, i.Flags, i.HardwareAddr)
		addrs, err := i.Addrs()
		if err != nil { // the interface may just have been removed
			line += " " + err.Error()
		}
		for _, a := range addrs {
			line += " " + a.String()
		}
		out = append(out, line)
	}
	return lines(out), nil
}

// procFiles returns a function that joins files, each under its name. Files that cannot be read are named with the
// reason.
func procFiles(names ...string) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) {
		var out bytes.Buffer
		for _, name := range names {
			fmt.Fprintf(&out, "# %s\n", name)
			text, err := readFile(name)
			if err != nil {
				fmt.Fprintf(&out, "# %v\n", err)
			}
			out.Write(bytes.TrimRight(text, "\n"))
			out.WriteString("\n\n")
		}
		return out.Bytes(), nil
	}
}

var errHidden = errors.New("lnetd runs in another PID namespace")

// process describes the process lnetd, if it runs on this host.
func (b *Bundle) process(ctx context.Context) ([]byte, error) {
	v, err := b.Client.Version(ctx)
	if err != nil {
		return nil, err
	}
	pid := b.Client.PID(ctx, v.PID)
	if pid == 0 {
		return nil, errHidden
	}
	dir := fmt.Sprintf("/proc/%d/", pid)
	return procFiles(dir+"limits", dir+"status", dir+"cgroup", dir+"oom_score_adj")(ctx)
}
