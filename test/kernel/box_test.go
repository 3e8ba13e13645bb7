package kernel

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// virtualMachine is a virtual machine with a kernel node or lnetd.
type virtualMachine struct {
	member
	name string
}

func (l *lab) virtualMachine(kind string, networks []int) virtualMachine {
	b := virtualMachine{member: l.member(networks)}
	b.name = fmt.Sprintf("%s%d", kind, b.number)
	return b
}

// boot boots the machine. On networks with a net over RDMA it has an RDMA device.
func (b *virtualMachine) boot(t *testing.T) {
	t.Helper()
	args := []string{"start", b.name, address(0, b.number), address(1, b.number), "--image", b.lab.image, "--opt", options}
	for _, network := range b.networks {
		if strings.HasPrefix(b.lab.nets[network], "o2ib") {
			args = append(args, "--rxe")
			break
		}
	}
	b.lab.must(t, args...)
	t.Cleanup(func() {
		if t.Failed() {
			out, _ := b.lab.command(context.Background(), "console", b.name).Output()
			t.Logf("console of %s:\n%s", b.name, out)
		}
	})
}

// crash ends the machine like a power failure. It may be booted again.
func (b *virtualMachine) crash(t *testing.T) {
	t.Helper()
	b.lab.must(t, "stop", b.name)
}

// must runs a shell command in the machine, which must succeed.
func (b *virtualMachine) must(t *testing.T, command string) string {
	t.Helper()
	out, status := b.try(t, command)
	if status != 0 {
		t.Fatalf("%s: %s: status %d\n%s", b.name, command, status, out)
	}
	return out
}

func (b *virtualMachine) try(t *testing.T, command string) (string, int) {
	t.Helper()
	return b.lab.try(t, "run", b.name, command, "-t", fmt.Sprint(int(patience.Seconds())))
}
