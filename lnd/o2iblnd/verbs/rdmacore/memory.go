//go:build o2ib && cgo

package rdmacore

import (
	"syscall"

	"github.com/lnetd/lnetd/lnd/o2iblnd/verbs"
)

func (d *device) Alloc(size int, huge bool, a verbs.Access) (verbs.Memory, error) {
	b, err := verbs.Map(size, huge)
	if err != nil {
		return nil, err
	}
	m, err := d.register(&region{b: b, own: true}, a)
	if err != nil {
		_ = syscall.Munmap(b)
	}
	return m, err
}

func (d *device) Register(b []byte, a verbs.Access) (verbs.Memory, error) {
	if len(b) == 0 {
		return nil, verbs.Wrap(syscall.EINVAL, "register 0 bytes")
	}
	return d.register(&region{b: b}, a)
}

func (m *region) Bytes() []byte { return m.b }
func (m *region) LKey() uint32  { return uint32(m.lkey) }
func (m *region) RKey() uint32  { return uint32(m.rkey) }
