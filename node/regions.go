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

// regions holds the memory that programs have registered and not released. Devices are
// added and removed under the configuration slot; regions may also end without it.
type regions struct {
	mu   sync.Mutex // a leaf lock; guards live and unsettled
	live map[*memory.Region]struct{}
	// notFinal are regions with unused pages, whose CPT may still change.
	notFinal map[*memory.Region]struct{}
}

// Register registers b with the devices of all NIs, including those that are added later,
// so that drivers with RDMA need not copy payload or register it for each message. Use
// Region.Slice and Region.Segment to create MDs from the region. b must not be moved or
// freed before Region.Release. The program calls Release after the last event of the last
// MD; Close ends the remaining regions. Part of b may be registered already.
//
// If a device cannot register b, the failure is logged, and messages on that NI are
// copied through the driver's own pool, as with unregistered memory. Register waits for
// changes of the configuration and for drivers. It returns ErrInvalid if b is empty,
// ErrInHandler if a handler calls it, ErrClosed, or ctx's error.
func (n *Node) Register(ctx context.Context, b []byte) (*memory.Region, error) {
	if len(b) == 0 {
		return nil, fmt.Errorf("register: no memory: %w", ErrInvalid)
	}
	_, done, err := n.configure(ctx)
	if err != nil {
		return nil, fmt.Errorf("register %d bytes: %w", len(b), err)
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

// placeRegion determines the CPT nearest to a region, for the choice of the NI (selection
// 5.3). Its devices have registered the region before, so if one of them pins the pages,
// they exist. On a machine with one NUMA node placeRegion does nothing.
func (n *Node) placeRegion(r *memory.Region) {
	if n.numa.CPTs() < 2 {
		return
	}
	cpt, settled := n.numa.OfMemory(r.Bytes())
	r.SetCPT(cpt)
	n.regions.setFinal(r, settled)
}

// placedAtOnce is the number of regions that the monitor checks per second. Each costs a
// system call.
const placedAtOnce = 64

// placeRegions checks the CPT of some of the regions with unused pages again.
func (n *Node) placeRegions() {
	for _, r := range n.regions.open(placedAtOnce) {
		n.placeRegion(r)
	}
}

// setFinal records whether the CPT of a region is final.
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

// open returns up to most regions whose CPT is not final, in random order.
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

// all returns the current regions.
func (s *regions) all() []*memory.Region {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*memory.Region, 0, len(s.live))
	for r := range s.live {
		list = append(list, r)
	}
	return list
}

// attachNI registers all regions with an NI before the first message uses it. The
// configuration slot must be held.
func (s *regions) attachNI(i *ni) {
	for _, r := range s.all() {
		i.register(r)
	}
}

// detachNI removes the registrations of an interface that was closed.
func (s *regions) detachNI(iface lnd.Interface) {
	by, ok := iface.(memory.Registrar)
	if !ok {
		return
	}
	for _, r := range s.all() {
		r.Deregister(by)
	}
}

// end ends the remaining regions after all interfaces were closed.
func (s *regions) end() {
	for _, r := range s.all() {
		r.End()
		s.remove(r)
	}
}

// register registers a region with the NI's device if the driver supports it.
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
