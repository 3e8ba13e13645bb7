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

// regions are the memory that programs have registered and not released yet.
// Devices come and go under the configuration slot, regions also end without it.
type regions struct {
	mu   sync.Mutex // a leaf; guards live and unsettled
	live map[*memory.Region]struct{}
	// unsettled are those of which parts are not used yet, so that it is open which CPT they are next to.
	unsettled map[*memory.Region]struct{}
}

// Register makes b known to the devices of all NIs, and of those that AddNI adds
// later, so that drivers which move payload by RDMA need neither copy it nor
// register it for each message. MDs are made of the region with Region.Slice and
// Region.Segment. b must stay where it is, and not be freed, until Region.Release,
// which is the program's to call when the last event of the last MD has come; Close
// ends the regions that are left. Part of b may be registered already.
//
// A device that does not take b is no error: it is logged, and messages on that NI
// go through the driver's own pool, as all memory does that is not registered.
// Register waits for changes of the configuration, and for drivers. ErrInvalid: b is
// empty; ErrInHandler: a handler has called it; ErrClosed; or ctx's.
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

// placeRegion finds the CPT that a region is next to, for the choice of the NI (selection 5.3). Devices
// have it registered by then, and its pages are there if one of them pins them. On a machine with one NUMA
// node it does nothing.
func (n *Node) placeRegion(r *memory.Region) {
	if n.numa.CPTs() < 2 {
		return
	}
	cpt, settled := n.numa.OfMemory(r.Bytes())
	r.SetCPT(cpt)
	n.regions.settle(r, settled)
}

// placedAtOnce bounds the regions that the monitor places in a second; each costs a system call.
const placedAtOnce = 64

// placeRegions looks again at some of the regions of which parts were not used yet.
func (n *Node) placeRegions() {
	for _, r := range n.regions.open(placedAtOnce) {
		n.placeRegion(r)
	}
}

// settle notes whether it is open which CPT a region is next to.
func (s *regions) settle(r *memory.Region, settled bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, live := s.live[r]
	switch {
	case settled || !live:
		delete(s.unsettled, r)
	case s.unsettled == nil:
		s.unsettled = map[*memory.Region]struct{}{r: {}}
	default:
		s.unsettled[r] = struct{}{}
	}
}

// open returns at most so many regions for which that is open, others each time.
func (s *regions) open(most int) (list []*memory.Region) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for r := range s.unsettled {
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
	delete(s.unsettled, r)
}

// all returns the regions that live.
func (s *regions) all() []*memory.Region {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*memory.Region, 0, len(s.live))
	for r := range s.live {
		list = append(list, r)
	}
	return list
}

// joins makes what is registered known to an interface before the first message
// uses it. The slot is held.
func (s *regions) joins(i *ni) {
	for _, r := range s.all() {
		i.register(r)
	}
}

// leaves forgets what an interface had registered, which its Close has ended.
func (s *regions) leaves(iface lnd.Interface) {
	by, ok := iface.(memory.Registrar)
	if !ok {
		return
	}
	for _, r := range s.all() {
		r.Forget(by)
	}
}

// end ends the regions that are left when all interfaces are closed.
func (s *regions) end() {
	for _, r := range s.all() {
		r.End()
		s.remove(r)
	}
}

// register makes a region known to the NI's device, if that wants to know.
func (i *ni) register(r *memory.Region) {
	by, ok := i.iface.(memory.Registrar)
	if !ok {
		return
	}
	if err := r.Register(by); err != nil {
		i.node.log.Tell(boundedlog.Line{Level: slog.LevelWarn, Text: "memory is not registered: it will be copied", Of: boundedlog.AboutNI(i.NID)},
			slog.Int("bytes", len(r.Bytes())), slog.Any("err", err))
	}
}
