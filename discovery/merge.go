package discovery

import (
	"errors"
	"fmt"

	"github.com/lnetd/lnetd/lnet"
)

// Log texts for differences between ping info and configuration.
const (
	furtherNIDs  = "peer reports NIDs that its configuration lacks; they are not used"
	missingNIDs  = "peer does not report all NIDs of its configuration; they stay configured"
	otherPrimary = "peer reports another primary NID than its configuration has; the configured one stays"
)

// merge is the state of a merge, which updates a peer from its ping info. A merge is done
// in several steps, because the ping info may have thousands of NIDs.
type merge struct {
	data *Content
	nids map[lnet.NID]struct{} // the NIDs in data
	// statusOnly means that only the status of NIDs is used, because discovery is disabled
	// for the peer.
	statusOnly bool
	// reportOnly means that differences are logged and nothing is changed, because the peer is
	// configured or the mode is Verify.
	reportOnly bool
	next       int
	unlisted   []lnet.NID // NIDs of the peer that data does not list; nil until all of data is merged
	pruned     bool       // unlisted was determined
	// findings are logged when the merge ends. They have one line for each text and error,
	// with all NIDs concerned.
	findings []Log
}

// maxListed is the maximum number of NIDs that a Log lists. Further NIDs are counted.
const maxListed = 16

// warn adds a problem with a NID of the peer to j.findings.
func (j *merge) warn(p *peer, text string, nid lnet.NID, err error) {
	for k := range j.findings {
		f := &j.findings[k]
		switch {
		case f.Text != text || !sameError(f.Err, err):
		case len(f.NIDs) < maxListed:
			f.NIDs = append(f.NIDs, nid)
			return
		default:
			f.Others++
			return
		}
	}
	j.findings = append(j.findings, Log{Warn: true, Peer: p.primary, Text: text, NIDs: []lnet.NID{nid}, Err: err})
}

func sameError(a, b error) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Error() == b.Error()
}

// process handles new data of the peer p (discovery 6.6): it determines the primary NID
// and begins a merge.
func (m *Machine) process(p *peer) {
	w := p.work
	c := w.data
	w.data = nil
	m.clear(p, DataPresent)
	m.set(p, NIDsUpToDate)
	primary, ok := c.Info.Primary()
	if !ok || !usable(primary) {
		return
	}
	if into := w.mergeInto; !into.IsZero() {
		w.mergeInto = lnet.NID{}
		if err := m.setPrimary(p, into); err != nil {
			m.warn(p, "cannot make a NID the primary NID of the peer; it keeps the old one", into, err)
		}
	}
	owner := m.nis[primary]
	fixed := m.local.Mode == Verify || p.state.Has(Configured) && !p.state.Has(LockPrimary)
	if fixed && p.primary != primary && !p.primary.IsLoopback() {
		m.warn(p, otherPrimary, primary, nil)
	}
	switch {
	case m.local.Mode == Verify:
	case p.primary == primary, m.disabled(p) && c.lists(p.primary) && !p.primary.IsLoopback():
	case owner == nil || owner.peer == p || p.primary.IsLoopback():
		// A peer for which discovery is disabled and that is known by one NID keeps it, even if
		// the peer itself reports another one, for example because it is behind an address
		// translation.
		if err := m.setPrimary(p, primary); err != nil && !m.disabled(p) {
			m.clear(p, NIDsUpToDate)
			m.set(p, ForcePing)
			m.endRound(p, fmt.Errorf("make %s the primary NID: %w", primary, err))
			return
		}
	case c.Info.Seq <= owner.peer.seq && m.claimInDoubt(p, c, owner):
		m.checkClaims(p, c)
		return
	default:
		m.mergeInto(p, owner.peer, c)
		return
	}
	if p.primary == primary && c.Info.Features&lnet.FeatMultiRail != 0 {
		m.recordSeq(p, c.Info.Seq) // replied does not record the number while p has another primary NID
	}
	m.startMerge(p, c)
}

// mergeInto passes the data c, which p sent, to x: the peer that has the NID that c
// reports as the primary NID (discovery 7.2). The merge of x then gradually moves the NIDs
// of p to x.
func (m *Machine) mergeInto(p, x *peer, c *Content) {
	if !p.state.Has(NoDiscovery) {
		m.clear(x, NoDiscovery)
	}
	if p.state.Has(MultiRail) && !x.state.Has(Configured) {
		m.becomeMultiRail(x)
	}
	w, xw := p.work, x.startWork()
	if !w.source.IsZero() {
		xw.source = w.source
	}
	if !w.destination.IsZero() {
		xw.destination = w.destination
	}
	m.enqueueFront(x)
	if x.state.Has(MultiRail) {
		switch {
		case c.Info.Seq > x.seq:
			m.recordSeq(x, c.Info.Seq)
		case xw.data != nil:
			c = xw.data
		}
	}
	xw.data = nil
	m.clear(x, DataPresent)
	if x.endDoubt(c.pingTime); x.doubtAt == 0 {
		m.clear(x, ForcePing)
	}
	m.inheritDoubt(x, p, c)
	if x.state.Has(PingFailed) {
		m.clear(x, PingFailed)
		xw.pingErr = nil
	}
	m.set(x, NIDsUpToDate)
	// Continue as if the data had come from x itself: it must agree with other data of x, and
	// the primary NID of x may have to change (decisions 19).
	m.checkContradiction(x, c)
	primary, _ := c.Info.Primary()
	if i := m.nis[primary]; !m.disabled(x) && i != nil && i.peer == x {
		_ = m.setPrimary(x, primary) // x already has the NID
	}
	m.startMerge(x, c)
}

func (c *Content) lists(nid lnet.NID) bool {
	for i := range c.Info.NIs {
		if c.Info.NIs[i].NID == nid {
			return true
		}
	}
	return false
}

func (m *Machine) startMerge(p *peer, c *Content) {
	frozen := m.disabled(p)
	j := &merge{
		data: c, statusOnly: frozen, reportOnly: m.local.Mode == Verify || frozen && p.state.Has(Configured),
		nids: make(map[lnet.NID]struct{}, len(c.Info.NIs)),
	}
	for i := range c.Info.NIs {
		j.nids[c.Info.NIs[i].NID] = struct{}{}
	}
	p.startWork().merge = j
	m.learnRouter(p, c)
	m.stepMerge(p)
}

// stepMerge does one step of a merge (discovery 7.1).
func (m *Machine) stepMerge(p *peer) {
	j := p.work.merge
	nis := j.data.Info.NIs
	for n := 0; n < mergeChunk; n++ {
		switch {
		case j.next < len(nis):
			m.mergeNI(p, j, nis[j.next])
			j.next++
		case !j.pruned:
			j.pruned = true
			for _, i := range p.nis {
				if _, ok := j.nids[i.nid]; !ok && (j.reportOnly || !j.statusOnly) && !i.nid.IsLoopback() {
					j.unlisted = append(j.unlisted, i.nid)
				}
			}
		case len(j.unlisted) > 0:
			nid := j.unlisted[0]
			j.unlisted = j.unlisted[1:]
			m.removeUnlisted(p, j, nid)
		default:
			m.endMerge(p, j)
			return
		}
	}
}

// mergeNI merges one entry of the ping info (discovery 7.1, steps 3 and 5).
func (m *Machine) mergeNI(p *peer, j *merge, ni lnet.PingNI) {
	if !usable(ni.NID) {
		return
	}
	i := m.nis[ni.NID]
	mine := i != nil && i.peer == p
	switch {
	case mine:
	case j.reportOnly:
		j.warn(p, furtherNIDs, ni.NID, nil)
		return
	case j.statusOnly:
		return
	default:
		multiRail := j.data.Info.Features&lnet.FeatMultiRail != 0
		if i != nil {
			_, claimed, err := m.checkAdd(p, ni.NID, multiRail, fromPeer)
			if err == nil && !claimed {
				if m.claimInDoubt(p, j.data, i) {
					return
				}
				m.inheritDoubt(p, i.peer, j.data)
			}
		}
		switch err := m.add(p, ni.NID, multiRail, fromPeer); {
		case err == nil, errors.Is(err, ErrFull):
		case p.state.Has(Configured):
			j.warn(p, furtherNIDs, ni.NID, nil)
		default:
			j.warn(p, "cannot add NIDs that the peer reports", ni.NID, err)
		}
		if m.nis[ni.NID] == nil {
			return
		}
	}
	m.emit(MarkStatus{NID: ni.NID, Status: ni.Status})
}

// removeUnlisted removes a NID from the peer that the peer's data does not list (discovery
// 7.1, step 6). If the NID must not be removed, the difference is logged.
func (m *Machine) removeUnlisted(p *peer, j *merge, nid lnet.NID) {
	if i := m.nis[nid]; i == nil || i.peer != p {
		return
	}
	if j.reportOnly {
		j.warn(p, missingNIDs, nid, nil)
		return
	}
	d := keepPrimary
	if p.routes > 0 {
		d = nextPrimary
	}
	err := ErrBusy
	if len(p.nis) > 1 {
		err = m.remove(p, nid, d, fromPeer)
	}
	switch {
	case err == nil:
	case errors.Is(err, ErrPermission):
		if p.state.Has(Configured) {
			j.warn(p, missingNIDs, nid, nil)
		}
		m.emit(MarkStatus{NID: nid, Status: lnet.StatusDown})
	default:
		j.warn(p, "cannot remove NIDs that the peer no longer reports", nid, err)
	}
}

// endMerge completes a merge (discovery 7.1, steps 7 and 8).
func (m *Machine) endMerge(p *peer, j *merge) {
	p.work.merge = nil
	for k := range j.findings {
		m.emit(j.findings[k])
	}
	primary, _ := j.data.Info.Primary()
	if !j.statusOnly && !j.reportOnly && p.promote(primary) {
		m.changedNIDs(p)
	}
	if p.routes > 0 {
		m.gatewayInfos = append(m.gatewayInfos, GatewayInfo{Peer: p.id, Info: &j.data.Info})
	}
}
