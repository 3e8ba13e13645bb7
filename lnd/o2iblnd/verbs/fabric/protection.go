package fabric

import (
	"fmt"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

// find returns size bytes of registered memory at addr. key is the key for local use. ok is false if the key
// does not allow the access need to these bytes.
func (d *opened) find(addr uint64, size, key uint32, need verbs.Access) (b []byte, ok bool) {
	m := d.regions[key]
	if m == nil || m.access&need != need || addr < m.addr {
		return nil, false
	}
	off := addr - m.addr
	if off > uint64(len(m.b)) || uint64(size) > uint64(len(m.b))-off {
		return nil, false
	}
	return m.b[off : off+uint64(size)], true
}

// deny counts and reports the access need to the bytes of s, which find does not allow.
func (d *opened) deny(s verbs.Piece, need verbs.Access) {
	d.forbidden("access to %d bytes at %#x: %s", s.Len, s.Addr, d.reason(s.LKey, need))
}

// reason returns, for a report, why find does not allow the access need with a key.
func (d *opened) reason(key uint32, need verbs.Access) string {
	f := d.p.host.fabric
	m := d.regions[key]
	switch {
	case m != nil && m.access&need != need:
		return "the key is for other accesses"
	case m != nil:
		return fmt.Sprintf("they are not within the %d bytes at %#x that are registered", len(m.b), m.addr)
	case f.hasKey(key):
		return "the key is that of another device"
	case key > 0 && key <= f.numbers:
		return "they are not registered any more"
	}
	return "there is no such key"
}

// hasKey reports whether any device has memory with the key.
func (f *Fabric) hasKey(key uint32) bool {
	for _, h := range f.hosts() {
		for _, p := range h.processes {
			for _, d := range p.devices {
				if d.regions[key] != nil {
					return true
				}
			}
		}
	}
	return false
}

// checkUnused counts and reports an error if posted work still refers to the region, which is being closed.
func (m *region) checkUnused() {
	n := 0
	for q := range m.d.queues {
		for p := range q.qps {
			n += p.uses(m.key)
		}
	}
	if n > 0 {
		m.d.forbidden("%d bytes at %#x are closed while %d posted requests and receives name them", len(m.b), m.addr, n)
	}
}

// uses returns how often posted work refers to the region with the key for local use.
func (q *qp) uses(key uint32) (n int) {
	for k := range q.sends.n {
		w := *q.sends.at(k)
		for _, s := range w.pieces {
			if s.LKey == key && !w.taken {
				n++
			}
		}
	}
	for k := range q.recvs.n {
		if q.recvs.at(k).LKey == key {
			n++
		}
	}
	return n
}

// forbidden counts a forbidden access, and reports it to Config.Report.
func (d *opened) forbidden(format string, args ...any) {
	f := d.p.host.fabric
	f.faults.protection.Add(1)
	if f.config.Report != nil {
		f.config.Report(fmt.Errorf("fabric: %s of %s: %s", d.hw.name, d.p.host.net.Name, fmt.Sprintf(format, args...)))
	}
}
