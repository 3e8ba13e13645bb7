package client

import (
	"os"
	"testing"
)

// The PID of lnetd is that of the process that listens, if that is lnetd in a PID namespace, and otherwise the one that
// lnetd reports, if a service manager of this PID namespace listens.
func TestTranslate(t *testing.T) {
	for _, tt := range []struct {
		name          string
		own, listener int
		status        string // empty: it cannot be read
		want          int
	}{
		{"lnetd here", 4711, 4711, "", 4711},
		{"not visible", 4711, 0, "", 0},
		{"in a container", 7, 4711, "Name:\tlnetd\nNSpid:\t4711\t7\nNSpgid:\t4711\t7\n", 4711},
		{"in a container of a container", 7, 4711, "NSpid:\t4711\t30\t7\n", 4711},
		{"systemd listens", 4711, 1, "Name:\tsystemd\nNSpid:\t1\n", 4711},
		{"a service manager in a container", 7, 4711, "NSpid:\t4711\t1\n", 0},
		{"no permission", 7, 4711, "", 4711},
		{"a kernel without the line", 7, 4711, "Name:\tlnetd\n", 0},
	} {
		got := translate(tt.own, tt.listener, func(pid int) ([]byte, error) {
			if tt.status == "" || pid != tt.listener {
				return nil, os.ErrPermission
			}
			return []byte(tt.status), nil
		})
		if got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
