package node

import (
	"context"
	"fmt"
	"log/slog"
	"sync"

	"github.com/lnetd/lnetd/lnd"
	"github.com/lnetd/lnetd/lnd/boundedlog"
	"github.com/lnetd/lnetd/memory"
)

// regions holds the memory regions that programs have registered and not released. NIs are
// added and removed under the configuration slot; regions may also be released without it.
type regions struct {
	mu   sync.Mutex // a leaf lock; guards live and notFinal
	live map[*memory.Region]struct{}
	// notFinal are regions with unused pages, whose CPT may still change.
	notFinal map[*memory.Region]struct{}
}

// Register registers b with the devices of all NIs, including those that are added later,
// so that drivers with RDMA need not copy payload or register memory for each message. Use
// Region.Slice and Region.Segment to create MDs from the region. b must not be moved or
// freed before Region.Release, which the program calls after the last event of the last MD
// in the region. Close ends the remaining regions. Parts of b may be registered already.
//
// If a device cannot register b, the failure is logged, and messages on that NI are copied
// through the driver's own pool, as with unregistered memory. Register blocks while the
// configuration is being changed, and while drivers register b. It returns ErrInvalid if b
// is empty, ErrInHandler if a handler calls it, ErrClosed, or ctx's error.
func (n *Node) Register(ctx context.Context, b []byte) (*memory.Region, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("register memory: its length is 0: %w", ErrInvalid)
	}
	_, done, err := n.configure(ctx)
	if err != nil {
		return nil, fmt.Errorf("register %d bytes of memory: %w", len(b), err)
	}
	defer done()
	var r *memory.Region
	r = memory.NewRegion(b, func() { n.regions.remove(r) })
	for _, i := range n.topology.Load().nis {
		i.register(r)
	}
	n.regions.add(r)
	n.placeRegion(r)
	return r, nil
}

// placeRegion determines the CPT nearest to a region, which influences the choice of the
// NI (selection 5.3). On a machine with one NUMA node it does nothing. It must be called
// after the region was registered with devices: a device may pin the pages, and only
// existing pages have a location.
func (n *Node) placeRegion(r *memory.Region) {
	if n.numa.CPTs() < 2 {
		return
	}
	cpt, settled := n.numa.OfMemory(r.Bytes())
	r.SetCPT(cpt)
	n.regions.setFinal(r, settled)
}

// placedAtOnce is the number of regions whose CPT the monitor determines again per second.
// Each costs a system call.
const placedAtOnce = 64

// placeRegions determines the CPT of some regions again, whose pages were not all in use
// before. The monitor calls it every second.
func (n *Node) placeRegions() {
	for _, r := range n.regions.open(placedAtOnce) {
		n.placeRegion(r)
	}
}

// setFinal records whether the CPT of a region is final (settled) or must be determined
// again.
func (s *regions) setFinal(r *memory.Region, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, live := s.live[r]
	switch {
	case settled || !live:
		delete(s.notFinal, r)
	case s.notFinal == nil:
		s.notFinal = map[*memory.Region]struct{}{r: {}}
	default:
		s.notFinal[r] = struct{}{}
	}
}

// open returns regions whose CPT is not final, at most the given number, in random order.
func (s *regions) open(most int) (list []*memory.Region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.notFinal {
		if len(list) == most {
			break
		}
		list = append(list, r)
	}
	return list
}

func (s *regions) add(r *memory.Region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.live == nil {
		s.live = make(map[*memory.Region]struct{})
	}
	s.live[r] = struct{}{}
}

func (s *regions) remove(r *memory.Region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.live, r)
	delete(s.notFinal, r)
}

// all returns the regions that are registered now.
func (s *regions) all() []*memory.Region {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*memory.Region, 0, len(s.live))
	for r := range s.live {
		list = append(list, r)
	}
	return list
}

// attachNI registers all regions with the device of a new NI, before the first message
// uses the NI. The configuration slot must be held.
func (s *regions) attachNI(i *ni) {
	for _, r := range s.all() {
		i.register(r)
	}
}

// detachNI removes the regions' registrations with an interface that was closed.
func (s *regions) detachNI(iface lnd.Interface) {
	by, ok := iface.(memory.Registrar)
	if !ok {
		return
	}
	for _, r := range s.all() {
		r.Deregister(by)
	}
}

// end ends the remaining regions. All interfaces must have been closed.
func (s *regions) end() {
	for _, r := range s.all() {
		r.End()
		s.remove(r)
	}
}

// register registers a region with the NI's device, if the driver supports it. An error is
// logged; messages on the NI are then copied.
func (i *ni) register(r *memory.Region) {
	by, ok := i.iface.(memory.Registrar)
	if !ok {
		return
	}
	if err := r.Register(by); err != nil {
		i.node.log.Report(boundedlog.Line{Level: slog.LevelWarn, Text: "cannot register memory with a device; the data will be copied", Of: boundedlog.AboutNI(i.NID)},
			slog.Int("bytes", len(r.Bytes())), slog.Any("err", err))
	}
}
