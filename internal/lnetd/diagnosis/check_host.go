package diagnosis

import (
	"fmt"
	"time"

	"github.com/lnetd/lnetd/lnet"
)

// Part of the descriptors that lnetd reserves for other purposes than connections of peers: a quarter, at most
// reservedMost.
const (
	reservedPart = 4
	reservedMost = 2048
)

func descriptors(f *Facts) []Finding {
	if f.Host == nil || f.Host.Files.Limit <= 0 {
		return nil
	}
	n := f.Host.Files
	if free := n.Limit - n.Open; free > min(n.Limit/reservedPart, reservedMost) {
		return nil
	}
	return []Finding{find(FewDescriptors, "lnetd", fmt.Sprintf("%d of %d file descriptors are open", n.Open, n.Limit), "")}
}

// lockable checks that drivers can lock the memory that they register with devices.
func lockable(f *Facts) []Finding {
	h := f.Host
	if h == nil || h.Lockable == 0 {
		return nil
	}
	registers, waits := f.registering()
	if !registers || !waits && h.Lockable-min(h.Locked, h.Lockable) > h.Lockable/reservedPart {
		return nil
	}
	return []Finding{find(FewLockable, "lnetd", fmt.Sprintf("%d of %d bytes are locked", h.Locked, h.Lockable), "")}
}

// registering reports whether the node has NIs whose driver locks memory, and whether such an NI waits.
func (f *Facts) registering() (registers, waits bool) {
	if f.Node == nil {
		return false, false
	}
	for _, n := range f.nis() {
		registers = registers || n.NID.Net().Type() == lnet.TypeO2IB
	}
	for k := range f.Node.Nets.Waiting {
		waits = waits || f.Node.Nets.Waiting[k].Net.Type() == lnet.TypeO2IB
	}
	return registers || waits, waits
}

// clockTolerance is the largest difference between the start of the process and the start of lnetd in it.
const clockTolerance = time.Minute

// clock finds out whether the clock was set while lnetd ran: then the start of the process, which is known in time
// since the boot, is at another time by the clock now than lnetd recorded.
func clock(f *Facts) []Finding {
	if f.Node == nil || f.Host == nil || f.Host.Started.IsZero() || f.Node.Version.Started.IsZero() {
		return nil
	}
	by := f.Host.Started.Sub(f.Node.Version.Started)
	way := "ahead"
	switch {
	case by.Abs() <= clockTolerance:
		return nil
	case by < 0:
		way = "back"
	}
	return []Finding{find(ClockSet, "lnetd", fmt.Sprintf("it was set %s by %v", way, by.Abs().Round(time.Second)), "")}
}

// diskLeast is the number of free bytes below which a file system counts as full.
const diskLeast = 1 << 20

func disks(f *Facts) (found []Finding) {
	if f.Host == nil {
		return nil
	}
	for _, d := range f.Host.Disks {
		if d.Free < diskLeast {
			found = append(found, find(DiskFull, d.Path, fmt.Sprintf("%d bytes are free in the file system of %s", d.Free, d.Path), ""))
		}
	}
	return found
}
